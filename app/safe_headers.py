"""The headers that every answer carries, whoever made it: they keep a browser from doing more with it than we mean.

Knows no route. Invariant: what a request says of its own Host is repeated only where it is made of harmless characters.
"""

from __future__ import annotations

_PLAIN_HOST = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-:[]")


def safe_headers(host: str = "") -> list[tuple[str, str]]:
    """For an answer to a request with this Host. A view may set Cache-Control itself."""
    sockets = f" ws://{host} wss://{host}" if host and _PLAIN_HOST.issuperset(host) else ""
    policy = (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
        f"connect-src 'self'{sockets}; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    )
    return [
        ("Content-Security-Policy", policy),
        ("X-Content-Type-Options", "nosniff"),
        ("Referrer-Policy", "no-referrer"),
        ("Cross-Origin-Opener-Policy", "same-origin"),
        ("Cross-Origin-Resource-Policy", "same-origin"),
        ("Cache-Control", "no-store"),
    ]
