"""Batchscope's own version. A test holds it equal to pyproject.toml's, so that it is known without an installed package."""

VERSION = "0.1.0"
