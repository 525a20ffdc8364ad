"""The engine: the loop around the core, its process, and the client that joins it to the web process."""
