"""The errors of the records.

StoreError          (a BatchscopeError)
├── QueryError      a filter, sort key, cursor or limit is wrong; `param` names it
├── StoreBusy       the backlog is over its bound, or the writer is closed: nothing more is accepted
├── StoreFailed     the database refused a write twice; the first cause is chained
└── SchemaError     the database belongs to another version of the code
"""

from __future__ import annotations

from scheduler.errors import BatchscopeError


class StoreError(BatchscopeError):
    """Base of the errors of the records."""


class QueryError(StoreError):
    """A question that cannot be asked; `param` names the part at fault."""


class StoreBusy(StoreError):
    """The writer takes no more for now."""


class StoreFailed(StoreError):
    """The database refused a write, and refused it again."""


class SchemaError(StoreError):
    """The schema is newer than this code, or damaged."""
