"""What the readers of all containers share: a corpus's fields, placed rows, and what a corrupt container raises."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from ragtasks.errors import clear_error

Row: TypeAlias = "Mapping[str, Any] | str"
"""Field -> value, or why there is no row at this place."""
Placed: TypeAlias = tuple[str, int, Row]
"""File and unit (such as `corpus.jsonl, line`), number from 1, row."""
SPLIT_FILE = "state.json"
"""What a folder holds that is one split, saved by `datasets`."""
BLOCK = 1 << 20
"""Bytes that are read at once."""
CORRUPT = (OSError, EOFError, ValueError, RuntimeError, NotImplementedError, zlib.error, zipfile.BadZipFile)
"""What pyarrow, zipfile and datasets raise for a container that is corrupt, locked or of another kind."""


@dataclass(frozen=True, slots=True)
class Fields:
    """The names of a corpus's fields. An empty name means a field that is not read."""

    passage_id: tuple[str, ...] = ("_id", "id", "docid")
    """The id is in the first of these that a row has."""
    text: str = "text"
    """The text that is indexed."""
    segment: str = "segment"
    """The text of a row that has no `text`, as in MS MARCO V2.1."""
    body: str = "body"
    """The text of a row that has neither, as whole documents of MS MARCO V2.1."""
    title: str = "title"
    """Title of the document; a row may lack it."""
    url: str = "url"
    """Address of the document; a row may lack it."""

    def names(self) -> frozenset[str]:
        """Return every field that is read."""
        return frozenset((*self.passage_id, self.text, self.segment, self.body, self.title, self.url)) - {""}


def unusable(where: str, expected: str, found: str, next_step: str) -> str:
    """Return the message for a corpus that cannot be read."""
    return clear_error("corpus", where=where, expected=expected, found=found, next_step=next_step)


__all__ = ["BLOCK", "CORRUPT", "SPLIT_FILE", "Fields", "Placed", "Row", "unusable"]
