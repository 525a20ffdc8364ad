"""The runner that computes: a Llama-family decoder in plain torch over a paged KV cache. The only room that imports torch."""
