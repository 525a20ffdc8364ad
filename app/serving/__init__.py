"""Sockets and greenlets: the HTTP handler, token streams, native threads. With serve and wiring, the only rooms that know gevent."""
