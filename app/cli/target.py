"""Which server a load may be aimed at: one on this machine, written so plainly that every reader of the URL agrees.

No resolver is asked and nothing is decoded: what is not plainly this machine is refused, so that no spelling of another one
passes. Invariant: what comes out is `http://HOST:PORT[/PATH]`, and HOST is `localhost`, `127.…` or `[::1]`.
"""

from __future__ import annotations

import ipaddress
import re

from app.cli.failures import USAGE, CommandError

_PLAIN = re.compile(
    r"http://(localhost|127(?:\.[0-9]{1,3}){3}|\[::1\])(?::([0-9]{1,5}))?((?:/[A-Za-z0-9_~-][A-Za-z0-9._~-]*)*)/?", re.I
)


def local_target(url: str) -> str:
    """`url`, normalised; raises CommandError for any server but one on this machine."""
    match = _PLAIN.fullmatch(url)
    if match is None or not _is_loopback(match[1].lower()) or not 0 < int(match[2] or 80) < 65_536:
        shown = "".join(c if c.isprintable() else "?" for c in url[:200])
        raise CommandError(f"only servers on this machine are loaded, not {shown!r}: use --url http://127.0.0.1:PORT", USAGE)
    return f"http://{match[1].lower()}:{int(match[2] or 80)}{match[3]}"


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
