"""How many rows a list prints: `--limit N`, and what it is where nobody said. Knows no list."""

from __future__ import annotations

import argparse

TABLE_LIMIT = 50


def positive(text: str) -> int:
    """N as it was typed."""
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return value
