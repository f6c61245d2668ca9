"""The errors of the store, each one sentence that says what is wrong and what to do.

Turns what SQLite, PostgreSQL and the file system report into such sentences. Knows no tables.
"""

from __future__ import annotations

import errno
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import exc


class StoreError(Exception):
    """One sentence that says what is wrong with the store and what to do about it."""


class NotFoundError(StoreError):
    """A run, version, drafter or artifact that the store does not hold."""


class UnavailableError(StoreError):
    """The store is locked or out of reach for now; the same call may succeed later."""


class StaleAttemptError(StoreError):
    """A write to a job by a worker that no longer works on it: the job went on, ended, or was given to another."""


@contextmanager
def one_sentence(where: str) -> Iterator[None]:
    """Turn database and file errors of the block into `StoreError`; `where` names the database or file."""
    try:
        yield
    except StoreError:
        raise
    except exc.TimeoutError as error:
        raise UnavailableError(f"All connections to {where} are in use; try again in a moment.") from error
    except exc.DBAPIError as error:
        raise from_database(error.orig or error, where) from error
    except sqlite3.Error as error:
        raise from_database(error, where) from error
    except OSError as error:
        raise from_file_system(error, where) from error


def from_database(error: BaseException, where: str) -> StoreError:
    """The sentence for an error raised by a database driver."""
    if isinstance(error, sqlite3.Error):
        return _from_sqlite(error, where)
    if any(kind.__name__ == "OperationalError" for kind in type(error).__mro__):  # no driver is imported here
        return UnavailableError(
            f"The database {where} does not answer ({_first_line(error)}); check that it runs and that the address, "
            "user and password are right."
        )
    if "invalid regular expression" in str(error):
        return StoreError(f"The database {where} cannot search for this pattern ({_first_line(error)}); simplify it.")
    return StoreError(f"The database {where} refused a change ({_first_line(error)}); nothing was stored.")


def _from_sqlite(error: sqlite3.Error, where: str) -> StoreError:
    # The low byte is the primary code; the rest says which of its variants.
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return UnavailableError(
            f"The database {where} is locked by another process; close that process or try again in a moment."
        )
    if code == sqlite3.SQLITE_NOTADB:
        return StoreError(f"The file {where} is not a Headway database; choose another path or move the file away.")
    if code == sqlite3.SQLITE_CORRUPT:
        return StoreError(
            f"The database {where} is damaged; move it away and put back a copy (files named {where}.before-…) "
            "or start with a new one."
        )
    if code == sqlite3.SQLITE_FULL:
        return StoreError(f"The disk that holds {where} is full; free some space and try again, nothing was stored.")
    if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM):
        return StoreError(f"The database {where} cannot be written; make it and its folder writable.")
    if code == sqlite3.SQLITE_CANTOPEN:
        return UnavailableError(f"The database {where} cannot be opened; check that its folder exists and is writable.")
    if code == sqlite3.SQLITE_IOERR:
        return UnavailableError(
            f"The disk that holds {where} reports errors ({error}); check the disk and its free space."
        )
    return StoreError(f"The database {where} refused a change ({_first_line(error)}); nothing was stored.")


def from_file_system(error: OSError, where: str) -> StoreError:
    """The sentence for an error raised by the file system."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return StoreError(f"The disk that holds {where} is full; free some space and try again, nothing was stored.")
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return StoreError(f"{where} cannot be written; make it and its folder writable or choose another path.")
    if error.errno in (errno.ENOTDIR, errno.EEXIST):
        return StoreError(f"{where} lies below something that is not a folder; choose another path.")
    if error.errno == errno.ENOENT:
        return NotFoundError(f"{where} does not exist; check the path.")
    return StoreError(f"{where} cannot be used ({error.strerror or error}); check the path and the disk.")


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
