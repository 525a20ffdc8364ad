"""A real server that wants API keys, for tests: one key that opens everything, one that only reads."""

from __future__ import annotations

from pathlib import Path

from live_server import LiveServer

KEY, READER = "sk-all-0123456789", "sk-read"


def bearer(key: str = KEY) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


class Keyed(LiveServer):
    """Its records are in `folder`/data, its keys beside them."""

    def __init__(self, folder: Path, *arguments: str, key: str = KEY, reader: str = READER) -> None:
        (folder / "keys").write_text(f"all {key}\nreader {reader} read\n")
        wants = ("--runner", "null", "--api-key-file", str(folder / "keys"))
        super().__init__(folder / "data", *wants, *arguments, headers=bearer(key))
