"""A question has its time and no more; the transaction it was asked in goes on."""

from __future__ import annotations

from typing import Any

from records import Records
from sqlalchemy import Connection, select

from app.store.database import is_sqlite
from app.store.models import boots
from app.store.patience import within

SLOW = {
    True: "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT {0}000000) SELECT count(*) FROM n",
    False: "SELECT pg_sleep({0})",
}


def test_a_question_that_needs_longer_is_none_and_the_next_one_has_no_bound(records: Records) -> None:
    slow = SLOW[is_sqlite(records.url)]

    def ask(connection: Connection) -> tuple[Any, ...]:
        def lives() -> int:
            return len(connection.execute(select(boots.c.boot)).all())

        late = within(connection, 0.02, lambda: connection.exec_driver_sql(slow.format(60)).all())
        ready = within(connection, 20.0, lives)
        bound = "0" if "sleep" not in slow else connection.exec_driver_sql("SHOW statement_timeout").scalar()
        unbound = connection.exec_driver_sql(slow.format(0.05 if "sleep" in slow else 1)).all()
        return late, ready, len(unbound), lives(), bound

    late, ready, unbound, lives, bound = records.queries.ask(ask)
    assert late is None
    assert ready == lives > 0 and unbound == 1 and bound == "0"


def test_none_is_asked_that_has_no_time_left(records: Records) -> None:
    def ask(connection: Connection) -> object:
        return within(connection, -1.0, lambda: connection.execute(select(boots.c.boot)).all() and None)

    assert records.queries.ask(ask) is None
