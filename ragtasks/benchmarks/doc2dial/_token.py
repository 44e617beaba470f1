"""MultiDoc2Dial with passages of 100 blank-separated words, the second official segmentation (`token`)."""

from __future__ import annotations

from dataclasses import replace

from ragtasks.benchmarks.doc2dial import _multidoc2dial as multidoc2dial
from ragtasks.benchmarks.doc2dial._passages import TOKEN

SOURCE = replace(multidoc2dial.SOURCE, name="multidoc2dial_token")
"""The same files."""

_COLLECTION = replace(multidoc2dial.COLLECTION, name="multidoc2dial_token", unit=TOKEN)

load = _COLLECTION.load
"""Folder -> benchmark; see `Collection.load`."""

RETRIEVAL = _COLLECTION.retrieval()
"""Corpus and relevance judgements."""

__all__ = ["RETRIEVAL", "SOURCE", "load"]
