"""Doc2Dial 1.0.1: the older data set, whose dialogues rest on one given page each (Feng et al. 2020).

Tasks are the user turns of the validation split: the test dialogues were withheld when the data came out. The OR-CONVQA
paper evaluates retrieval of passages on it (Table 5) and no answers, since a system is given the page.
"""

from __future__ import annotations

from ragtasks.benchmarks.doc2dial._collection import Collection
from ragtasks.benchmarks.doc2dial._passages import STRUCTURE
from ragtasks.benchmarks.download import Source, SourceFile

SOURCE = Source(
    name="doc2dial",
    folder="doc2dial-files",
    marker="doc2dial",
    repository="https://doc2dial.github.io",
    commit="v1.0.1",
    base_url="https://doc2dial.github.io/file/",
    files=(SourceFile("doc2dial_v1.0.1.zip", None, None, "dialogues"),),
)
"""The official zip, which is read as it is; its checksum is not known here."""

_COLLECTION = Collection("doc2dial", "doc2dial_doc.json", "doc2dial_dial_validation.json", STRUCTURE, SOURCE.commit)

load = _COLLECTION.load
"""Folder -> benchmark; see `Collection.load`."""

RETRIEVAL = _COLLECTION.retrieval()
"""Corpus and relevance judgements."""

__all__ = ["RETRIEVAL", "SOURCE", "load"]
