"""The tables of a reply cache, and how a file of an older version becomes one of this version.

Version 1 kept key, request and reply only. Its rows get the columns that its successors have; the address that replied
was not written down then, and stays empty.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import Any

APPLICATION_ID = 0x72677473
"""`rgts`: tells our files from other people's."""
VERSION = 2

_REPLIES_1 = "CREATE TABLE replies (key TEXT PRIMARY KEY, request TEXT NOT NULL, reply TEXT NOT NULL)"
_NEW_COLUMNS = (
    "is_history INTEGER NOT NULL DEFAULT 0",
    "model TEXT NOT NULL DEFAULT ''",
    "address TEXT NOT NULL DEFAULT ''",
    "kind TEXT NOT NULL DEFAULT ''",
    "outcome TEXT NOT NULL DEFAULT ''",
    "stored REAL NOT NULL DEFAULT 0",
)
_COLUMNS = ("model", "address", "kind", "outcome", "stored")
_CLAIMS = "CREATE TABLE claims (key TEXT PRIMARY KEY, owner TEXT NOT NULL)"
_OWNERS = "CREATE TABLE owners (owner TEXT PRIMARY KEY, seen REAL NOT NULL)"

INSERT = (
    f"INSERT OR IGNORE INTO replies (key, request, reply, is_history, {', '.join(_COLUMNS)}) VALUES"
    f" (:key, :request, :reply, :is_history, {', '.join(f':{name}' for name in _COLUMNS)})"
)
HOLDER = (
    "SELECT claims.owner FROM claims JOIN owners ON owners.owner = claims.owner"
    " WHERE claims.key = ? AND owners.seen BETWEEN ? AND ?"
)
"""Owner of the claim on a key, if it has shown life between two times: a clock that was set back counts as silence."""
DEAD_OWNERS = "DELETE FROM owners WHERE seen NOT BETWEEN ? AND ?"
CLAIMS_OF_NOBODY = "DELETE FROM claims WHERE owner NOT IN (SELECT owner FROM owners)"


def prepare(connection: sqlite3.Connection, path: Path) -> str:
    """Make the tables, or bring them up to date; return what the file is where it is none of ours, else nothing."""
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    (n_tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if n_tables and application != APPLICATION_ID:
        return "a database of something else"
    if n_tables and version > VERSION:
        return f"a reply cache of a newer version of ragtasks (format {version}, this version writes {VERSION})"
    if not n_tables:
        connection.execute(_REPLIES_1)
    if not n_tables or version < VERSION:
        for column in _NEW_COLUMNS:
            connection.execute(f"ALTER TABLE replies ADD COLUMN {column}")
        connection.execute(_CLAIMS)
        connection.execute(_OWNERS)
        _fill(connection, path.stat().st_mtime if path.is_file() else 0.0)
    connection.execute(f"PRAGMA application_id={APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version={VERSION}")
    return ""


def _fill(connection: sqlite3.Connection, stored: float) -> None:
    """Fill the new columns of old rows; when they were stored is not known, at the latest when the file last changed.

    A request or reply that cannot be read stays as it is: whoever asks for it is told.
    """
    connection.execute(
        "UPDATE replies SET stored = ?, model = coalesce(json_extract(request, '$.client.model'), ''),"
        " outcome = coalesce(json_extract(reply, '$.outcome'), '') WHERE json_valid(request) AND json_valid(reply)",
        (stored,),
    )


def cells_of(request: Mapping[str, Any], outcome: str, kind: str, stored: float) -> dict[str, Any]:
    """Return the columns of a row by which people look for replies."""
    return {
        "model": str(request.get("client", {}).get("model", "")),
        "address": str(request.get("address", "")),
        "kind": kind,
        "outcome": outcome,
        "stored": stored,
    }


__all__ = ["APPLICATION_ID", "CLAIMS_OF_NOBODY", "DEAD_OWNERS", "HOLDER", "INSERT", "VERSION", "cells_of", "prepare"]
