"""A writer that is killed: prints each id when, and only when, its accept was acknowledged."""

from __future__ import annotations

import itertools
import sys
from functools import partial

from records import make_row, make_writer


def main(url: str) -> None:
    writer = make_writer(url)
    writer.start()
    in_flight: list[str] = []

    def done(request_id: str, error: Exception | None) -> None:
        assert error is None, error
        print(request_id, flush=True)
        in_flight.remove(request_id)

    for n in itertools.count():
        request_id = f"k{writer.web_boot}-{n}"
        in_flight.append(request_id)
        writer.accept(make_row(request_id, n), partial(done, request_id))
        while len(in_flight) > 50:
            pass


main(sys.argv[1])
