"""The errors of the records.

StoreError              (a BatchscopeError)
├── QueryError          a filter, sort key, cursor or limit is wrong; `param` names it
├── BundleError         a file is no run that can be imported; `param` names the field at fault
├── ConsoleBusy         as many SQL statements as may run at once are running
├── StoreBusy           the backlog is over its bound, or the writer is closed: nothing more is accepted
├── StoreFailed         the database refused a write, or cannot be reached; the cause is chained
│   ├── StoreLocked     another process held its lock for longer than we wait
│   ├── StoreFull       there is no room for it on the disk
│   └── StoreLost       its file was removed or replaced under us
├── SchemaError         the database belongs to another version of the code
├── DatabaseDamaged     its file is not a sound database
└── DatabaseUnusable    its file cannot be opened, or is locked, at a start
"""

from __future__ import annotations

from scheduler.errors import BatchscopeError


class StoreError(BatchscopeError):
    """Base of the errors of the records."""


class QueryError(StoreError):
    """A question that cannot be asked; `param` names the part at fault."""


class BundleError(StoreError):
    """The bundle of a run is not what it should be; nothing of it was taken."""


class ConsoleBusy(StoreError):
    """Others are asking in SQL."""


class StoreBusy(StoreError):
    """The writer takes no more for now."""


class StoreFailed(StoreError):
    """The database refused a write, and refused it again where that could help; or it cannot be reached."""


class StoreLocked(StoreFailed):
    """Somebody else held the database's lock for too long."""


class StoreFull(StoreFailed):
    """The disk, or the database's bound, is full."""


class StoreLost(StoreFailed):
    """The file at the database's path is gone or is another one."""


class SchemaError(StoreError):
    """The schema is newer than this code."""


class DatabaseDamaged(StoreError):
    """The file is not a database, or not a sound one; it was left as it is."""


class DatabaseUnusable(StoreError):
    """The file cannot be opened for writing now."""
