"""The scheduler's core: pure decisions, told the time. See README.md in this folder for its law."""
