"""Orders: who is next, and who yields. One file a policy; catalog.py lists them."""
