"""The load generator: a stranger to the server. It speaks HTTP and imports neither app nor scheduler."""
