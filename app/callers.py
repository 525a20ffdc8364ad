"""Who calls, as far as headers tell: the Host that was meant, the page that asks, the websocket it wants. Knows no key.

Each check answers how to refuse, or None. A browser says whose page asks: by Origin on everything that changes state and on
every websocket, by Sec-Fetch-Site on the rest too. Programs send neither header. Invariant: of a foreign page nothing
passes but a link, which is a navigation of a whole tab; forwarding headers (X-Forwarded-…) are never looked at.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import parse_qs

from app.api.errors import Problem

OURSELVES = ("same-origin", "none")
_CLOSE = {"Connection": "close"}
_NAME = re.compile(r"(\[[0-9A-Fa-f:.]{2,45}\]|[A-Za-z0-9.-]{1,80})(:[0-9]{1,5})?")
_NONCE = re.compile(r"[A-Za-z0-9+/]{22}==")  # 16 bytes: RFC 6455, 4.1


def foreign_host(environ: Mapping[str, Any], hosts: frozenset[str]) -> Problem | None:
    """A name that is not ours: a page that had it point to this machine may read what we answer."""
    host = environ.get("HTTP_HOST", "")
    if host.lower() in hosts:
        return None
    message = f"this server does not answer to the Host {ascii(host[:80])}"
    if _NAME.fullmatch(host):
        message += f"; --allow-host {host} allows it"
    return Problem(421, message, None, "misdirected_request", _CLOSE)


def foreign_page(environ: Mapping[str, Any], origins: frozenset[str]) -> Problem | None:
    """A page that is not ours."""
    origin, site = environ.get("HTTP_ORIGIN"), environ.get("HTTP_SEC_FETCH_SITE")
    if origin is not None and origin.lower() not in origins:
        return Problem(403, "requests from this origin are not allowed", None, "origin_refused")
    if site is None or site in OURSELVES or _is_link(environ):
        return None
    return Problem(403, "requests from other sites are not allowed", None, "origin_refused")


def no_websocket(environ: Mapping[str, Any]) -> Problem | None:
    """What is not a whole opening of a websocket by one of our pages. Socket.IO sees nothing else: its other ways are off."""
    if "HTTP_ORIGIN" not in environ:
        return Problem(403, "a websocket needs an Origin header", None, "origin_refused")
    if environ["REQUEST_METHOD"] != "GET":
        return Problem(405, "a websocket is opened by GET", None, "method_not_allowed", {"Allow": "GET", **_CLOSE})
    query = parse_qs(environ.get("QUERY_STRING", ""))
    opening = (
        environ.get("HTTP_UPGRADE", "").lower() == "websocket"
        and "upgrade" in {word.strip().lower() for word in environ.get("HTTP_CONNECTION", "").split(",")}
        and environ.get("HTTP_SEC_WEBSOCKET_VERSION") == "13"
        and _NONCE.fullmatch(environ.get("HTTP_SEC_WEBSOCKET_KEY", "")) is not None
    )
    if opening and query.get("EIO") == ["4"] and query.get("transport") == ["websocket"] and not query.keys() & {"sid", "j"}:
        return None
    return Problem(400, "only a new websocket of Engine.IO 4 is served here", None, "websocket_only", _CLOSE)


def allowed_hosts(host: str, port: int, more: Iterable[str]) -> frozenset[str]:
    """The Host values that are ours: loopback's names and what was allowed, with the port (and without it on port 80)."""
    names = {"127.0.0.1", "localhost", "[::1]", *more}
    if host not in ("", "0.0.0.0", "::"):
        names.add(f"[{host}]" if ":" in host and not host.startswith("[") else host)
    hosts = set()
    for name in names:
        name = name.lower()
        has_port = ":" in name.rpartition("]")[2]
        hosts.add(name if has_port else f"{name}:{port}")
        if port == 80 and not has_port:
            hosts.add(name)
    return frozenset(hosts)


def allowed_origins(hosts: Iterable[str]) -> frozenset[str]:
    """Pages of these hosts may call us."""
    return frozenset(f"{scheme}://{host}" for host in hosts for scheme in ("http", "https"))


def _is_link(environ: Mapping[str, Any]) -> bool:
    return (
        environ["REQUEST_METHOD"] in ("GET", "HEAD")
        and environ.get("HTTP_SEC_FETCH_MODE") == "navigate"
        and environ.get("HTTP_SEC_FETCH_DEST") == "document"
    )
