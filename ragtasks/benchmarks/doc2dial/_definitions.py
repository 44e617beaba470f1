"""The benchmarks on the Doc2Dial documents, a row each: one data set and one retrieval unit make one.

MultiDoc2Dial holds goal-oriented dialogues, each over several pages of four public services (Feng et al. 2021); tasks
are the user turns of the test split. Its units are passages of one section each (`structure`), as in the official
baseline, passages of 100 blank-separated words (`token`, the second official segmentation), or propositions: single
statements that a model drew from the documents, released with the OR-CONVQA paper. Nothing says which propositions an
answer rests on, so these have no reference units and no judgements: what can be measured is the answers that rest on
retrieved ones (Table 6 of that paper).

Doc2Dial 1.0.1 is the older data set, whose dialogues rest on one given page each (Feng et al. 2020). Tasks are the user
turns of the validation split: the test dialogues were withheld when the data came out. The OR-CONVQA paper evaluates
retrieval of passages on it (Table 5) and no answers, since a system is given the page.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ragtasks.benchmarks._definition import BenchmarkDefinition
from ragtasks.benchmarks.doc2dial._collection import PROPOSITIONS, Collection
from ragtasks.benchmarks.doc2dial._passages import STRUCTURE, TOKEN
from ragtasks.benchmarks.download import Source, SourceFile

OFFICIAL_DIALOGUES: Mapping[str, int] = {"train": 3474, "validation": 661, "test": 661}
"""Dialogues of each split; their sum, 4,796, is the score that the OR-CONVQA paper gives (section 3.1)."""
OFFICIAL_DOCUMENTS: Mapping[str, int] = {"dmv": 149, "ssa": 109, "studentaid": 92, "va": 138}
"""Documents of each domain, 488 in all."""

# The zips are read as they are; unpacked files are found too. Others record the same checksum of the first.
_ZIP_SHA256 = "f0c034c249663d7b3cb08b19cf2cc2c3d101372485be982621d4711931a1ce00"
_SOURCE = Source(
    name="multidoc2dial",
    folder="doc2dial-files",
    marker="multidoc2dial",
    repository="https://github.com/doc2dial/multidoc2dial",
    commit="6b7565989ad14858ee2c7498b605dc6d32ffe9e0",
    base_url="https://doc2dial.github.io/multidoc2dial/file/",
    files=(SourceFile("multidoc2dial.zip", _ZIP_SHA256, 6868509, "dialogues"),),
)
_OLD_SOURCE = replace(
    _SOURCE,
    name="doc2dial",
    marker="doc2dial",
    repository="https://doc2dial.github.io",
    commit="v1.0.1",
    base_url="https://doc2dial.github.io/file/",
    files=(SourceFile("doc2dial_v1.0.1.zip", None, None, "dialogues"),),
)
_PROPOSITIONS_COMMIT = "c4112086d89e7ca5188d37207d30e46dffde6069"
_PROPOSITIONS_SOURCE = replace(
    _SOURCE,
    name="multidoc2dial_propositions",
    repository="https://github.com/christosvhs/Document-Grounded-Conversational-QA",
    commit=_PROPOSITIONS_COMMIT,
    base_url="https://raw.githubusercontent.com/christosvhs/Document-Grounded-Conversational-QA/"
    f"{_PROPOSITIONS_COMMIT}/",
    # They land beside the files of `multidoc2dial`: fetch both.
    files=(SourceFile("data/propositions.json", None, 3049634, "propositions"),),
)

COLLECTION = Collection(
    "multidoc2dial",
    "multidoc2dial_doc.json",
    "multidoc2dial_dial_test.json",
    STRUCTURE,
    _SOURCE.commit,
    n_dialogues=OFFICIAL_DIALOGUES["test"],
    n_documents=sum(OFFICIAL_DOCUMENTS.values()),
)
"""The test split of MultiDoc2Dial, by sections."""
_OLD = Collection("doc2dial", "doc2dial_doc.json", "doc2dial_dial_validation.json", STRUCTURE, _OLD_SOURCE.commit)


def _row(source: Source, collection: Collection) -> BenchmarkDefinition:
    named = replace(collection, name=source.name)
    return BenchmarkDefinition(source, named.load, named.retrieval())


MULTIDOC2DIAL = _row(_SOURCE, COLLECTION)
MULTIDOC2DIAL_TOKEN = _row(replace(_SOURCE, name="multidoc2dial_token"), replace(COLLECTION, unit=TOKEN))
MULTIDOC2DIAL_PROPOSITIONS = _row(_PROPOSITIONS_SOURCE, replace(COLLECTION, unit=PROPOSITIONS))
DOC2DIAL = _row(_OLD_SOURCE, _OLD)

__all__ = [
    "COLLECTION",
    "DOC2DIAL",
    "MULTIDOC2DIAL",
    "MULTIDOC2DIAL_PROPOSITIONS",
    "MULTIDOC2DIAL_TOKEN",
    "OFFICIAL_DIALOGUES",
    "OFFICIAL_DOCUMENTS",
]
