"""Sockets and greenlets: handler, token streams, native threads. Beside serve and wiring, the only rooms that know gevent."""
