"""MultiDoc2Dial: goal-oriented dialogues, each over several pages of four public services (Feng et al. 2021).

Tasks are the user turns of the test split. This benchmark retrieves passages of one section each (`structure`), as the
official baseline does; `multidoc2dial_token` and `multidoc2dial_propositions` have the same tasks and other units.
"""

from __future__ import annotations

from collections.abc import Mapping

from ragtasks.benchmarks.doc2dial._collection import N_PASSAGES, Collection, load_rewrites
from ragtasks.benchmarks.doc2dial._files import DOMAINS
from ragtasks.benchmarks.doc2dial._passages import STRUCTURE
from ragtasks.benchmarks.download import Source, SourceFile

SOURCE = Source(
    name="multidoc2dial",
    folder="doc2dial-files",
    marker="multidoc2dial",
    repository="https://github.com/doc2dial/multidoc2dial",
    commit="6b7565989ad14858ee2c7498b605dc6d32ffe9e0",
    base_url="https://doc2dial.github.io/multidoc2dial/file/",
    files=(
        SourceFile(
            "multidoc2dial.zip",
            "f0c034c249663d7b3cb08b19cf2cc2c3d101372485be982621d4711931a1ce00",
            6868509,
            "dialogues",
        ),
    ),
)
"""The official zip, which is read as it is; unpacked files are found too. Others record the same checksum."""

OFFICIAL_DIALOGUES: Mapping[str, int] = {"train": 3474, "validation": 661, "test": 661}
"""Dialogues of each split; their sum, 4,796, is the score that the OR-CONVQA paper gives (section 3.1)."""
OFFICIAL_DOCUMENTS: Mapping[str, int] = {"dmv": 149, "ssa": 109, "studentaid": 92, "va": 138}
"""Documents of each domain, 488 in all."""

COLLECTION = Collection(
    "multidoc2dial",
    "multidoc2dial_doc.json",
    "multidoc2dial_dial_test.json",
    STRUCTURE,
    SOURCE.commit,
    n_dialogues=OFFICIAL_DIALOGUES["test"],
    n_documents=sum(OFFICIAL_DOCUMENTS.values()),
)
"""The test split, by sections."""

load = COLLECTION.load
"""Folder -> benchmark; see `Collection.load`."""

RETRIEVAL = COLLECTION.retrieval()
"""Corpus and relevance judgements."""

__all__ = [
    "COLLECTION",
    "DOMAINS",
    "N_PASSAGES",
    "OFFICIAL_DIALOGUES",
    "OFFICIAL_DOCUMENTS",
    "RETRIEVAL",
    "SOURCE",
    "load",
    "load_rewrites",
]
