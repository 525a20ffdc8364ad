"""The scheduling library and the engine process. Knows no Flask, no SQL and no browser."""
