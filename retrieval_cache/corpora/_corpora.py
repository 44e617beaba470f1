"""Corpora: passages streamed from any container, checked on the way, and a checksum that only their content moves.

A corpus may be larger than memory, so a passage is handed on as soon as it is read. What has to be kept for the
check of unique ids is eight bytes a passage (a digest of the id); the ids themselves are read a second time only
where two digests agree. So a repeated id is reported at the end of the corpus, other errors where they stand: from
the first one on no passage is handed out, the rest is only checked, and one error lists what was found.

`survey_corpus` reads a corpus once and knows all that a run's key needs of it. Call it before anything expensive: it
raises every error that reading can raise.
"""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from ragtasks.errors import BenchmarkFileError, clear_error
from ragtasks.records import Passage
from retrieval_cache.corpora._containers import Fields
from retrieval_cache.corpora._formats import placed_rows
from retrieval_cache.retrievers import Progress, no_progress

Blank = Literal["refuse", "skip", "keep"]
"""What happens to a passage whose text is white space only: an error, left out, or handed on."""

DEFAULT_FIELDS = Fields()
_MOST_VIOLATIONS = 20
_PROGRESS_EVERY = 10_000


@dataclass(frozen=True, slots=True)
class Survey:
    """What one pass over a corpus tells."""

    checksum: str
    """sha256 over ids, titles and texts of the passages, in their order.

    The same for every container and compression. Addresses do not count: no retriever sees them.
    """
    n_passages: int
    """Passages that `read_corpus` yields with the same arguments."""
    n_blank: int
    """Passages without a visible character, whether kept or left out."""
    n_characters: int
    """Length of all texts."""


def read_rows(
    location: str, fields: Fields = DEFAULT_FIELDS, blank: Blank = "refuse"
) -> Iterator[tuple[Passage, Mapping[str, Any]]]:
    """Yield the passages of a corpus with the rows that they were read from; otherwise as `read_corpus`."""
    digests = array("Q")
    violations: list[str] = []
    n_kept = 0
    for source, number, row in placed_rows(location, fields):
        passage = row if isinstance(row, str) else passage_of(row, fields, blank)
        if isinstance(row, str) or isinstance(passage, str):
            violations.append(f"{source} {number}: {passage}")
            if len(violations) == _MOST_VIOLATIONS:
                violations.append(f"and perhaps more: nothing was read after error {_MOST_VIOLATIONS}")
                break
        elif not violations:
            digests.append(_digest(passage.passage_id))
            if blank != "skip" or passage.text.strip():
                n_kept += 1
                yield passage, row
    if not (violations or n_kept):
        violations.append(_nothing(len(digests)))
    _raise(location, violations or _duplicates(location, fields, digests))


def read_corpus(location: str, fields: Fields = DEFAULT_FIELDS, blank: Blank = "refuse") -> Iterator[Passage]:
    """Yield the passages of a corpus in its own order, in one pass; eight bytes a passage are kept.

    Args:
        location: file, folder or `hf:` name; `retrieval_cache.corpora` has the rule on names.
        fields: what the fields are called. Whole numbers are taken as ids too.
        blank: what happens to a passage without text. The official `cloud` corpus of MTRAG has such (3 of the 13,297
            passages of its pooled copy), and so have corpora of BEIR: there say `skip`.

    Raises:
        BenchmarkFileError: nothing there, a corrupt container, no passages or none with a text, or passages that cannot
            be used: no JSON, an id or text that is missing, an id that holds white space (a TREC run could not name
            it) or stands twice.
        ConfigurationError: a name of no known kind.
    """
    for passage, _ in read_rows(location, fields, blank):
        yield passage


def survey_corpus(
    location: str, fields: Fields = DEFAULT_FIELDS, blank: Blank = "refuse", progress: Progress = no_progress
) -> Survey:
    """Return checksum and counts of a corpus, read once; arguments and errors as `read_corpus`."""
    sha256 = hashlib.sha256()
    n_passages = n_blank = n_characters = 0
    for passage in read_corpus(location, fields, "keep" if blank == "skip" else blank):
        if not passage.text.strip():
            n_blank += 1
            if blank == "skip":
                continue
        n_passages += 1
        n_characters += len(passage.text)
        sha256.update(_framed(passage))
        if n_passages % _PROGRESS_EVERY == 0:
            progress("corpus", n_passages, None)
    if not n_passages:
        _raise(location, [_nothing(n_blank)])
    progress("corpus", n_passages, n_passages)
    return Survey(sha256.hexdigest(), n_passages, n_blank, n_characters)


def _nothing(n_blank: int) -> str:
    return f"no text in any of {n_blank} passages" if n_blank else "no passage at all"


def _framed(passage: Passage) -> bytes:
    """Return id, title and text, each behind its length, so that no character can move from one to the next unseen."""
    parts = [part.encode() for part in (passage.passage_id, passage.title, passage.text)]
    return b"".join(len(part).to_bytes(8, "little") + part for part in parts)


def passage_of(row: Mapping[str, Any], fields: Fields, blank: Blank) -> Passage | str:
    """Return the passage of a row, or what is wrong with it."""
    passage_id = id_of(row, fields)
    if passage_id is None:
        return f"no id in {' or '.join(fields.passage_id)}; the row has {_names(row)}"
    if passage_id.split() != [passage_id]:
        return f"an id that is empty or holds white space: {passage_id!r}"
    text = next((row[name] for name in (fields.text, fields.segment, fields.body) if name in row), None)
    if not isinstance(text, str):
        return f"no text in {fields.text!r} ({passage_id}); the row has {_names(row)}"
    if blank == "refuse" and (not text or text.isspace()):
        return f"an empty text ({passage_id}); choose blank='skip' to leave such passages out"
    title, url = row.get(fields.title) or "", row.get(fields.url) or ""
    if not isinstance(title, str) or not isinstance(url, str):
        return f"a title or url that is no text ({passage_id}): {title!r:.40}, {url!r:.40}"
    return Passage(passage_id, text, title, url)


def id_of(row: Mapping[str, Any], fields: Fields) -> str | None:
    """Return the id of a row, None where it has none."""
    value = next((row[name] for name in fields.passage_id if name in row), None)
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return value if isinstance(value, str) else None


def _names(row: Mapping[str, Any]) -> str:
    return ", ".join(list(row)[:8]) or "no field"


def _digest(passage_id: str) -> int:
    return int.from_bytes(hashlib.blake2b(passage_id.encode(), digest_size=8).digest(), "little")


def _duplicates(location: str, fields: Fields, digests: array[int]) -> list[str]:
    """Return one line for each passage whose id another one before it has; `digests` is sorted in place."""
    import numpy as np

    values = np.frombuffer(digests, dtype=np.uint64)
    values.sort()
    suspects = set(values[1:][values[1:] == values[:-1]].tolist())
    if not suspects:
        return []
    first: dict[str, str] = {}
    violations: list[str] = []
    for source, number, row in placed_rows(location, fields):
        passage_id = None if isinstance(row, str) else id_of(row, fields)
        if passage_id is None or _digest(passage_id) not in suspects:
            continue
        place = f"{source} {number}"
        if first.setdefault(passage_id, place) != place:
            violations.append(f"{place}: the id {passage_id!r} once more; first at {first[passage_id]}")
            if len(violations) == _MOST_VIOLATIONS:
                break
    return violations


def _raise(location: str, violations: list[str]) -> None:
    if violations:
        message = clear_error(
            "corpus",
            where=location,
            expected="one passage a line or row: a unique id and a text",
            found="\n    ".join(violations),
            next_step="correct the corpus; fields of other names can be given in Python (`Fields`)",
        )
        raise BenchmarkFileError(message)


__all__ = [
    "DEFAULT_FIELDS",
    "Blank",
    "Fields",
    "Survey",
    "id_of",
    "passage_of",
    "read_corpus",
    "read_rows",
    "survey_corpus",
]
