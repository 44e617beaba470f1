"""MultiDoc2Dial with propositions as retrieval units: single statements that a model drew from the documents.

They were released with the OR-CONVQA paper, without a word on which of them an answer rests on. So there are no
reference units and no judgements here: what can be measured is the answers that rest on retrieved propositions, which
is what Table 6 of that paper reports.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ragtasks.benchmarks.doc2dial import _multidoc2dial as multidoc2dial
from ragtasks.benchmarks.doc2dial._collection import PROPOSITIONS
from ragtasks.benchmarks.download import SourceFile

SOURCE = replace(
    multidoc2dial.SOURCE,
    name="multidoc2dial_propositions",
    repository="https://github.com/christosvhs/Document-Grounded-Conversational-QA",
    commit="c4112086d89e7ca5188d37207d30e46dffde6069",
    base_url="https://raw.githubusercontent.com/christosvhs/Document-Grounded-Conversational-QA/"
    "c4112086d89e7ca5188d37207d30e46dffde6069/",
    files=(SourceFile("data/propositions.json", None, 3049634, "propositions"),),
)
"""The released propositions, which land beside the files of `multidoc2dial`: fetch both."""

OFFICIAL_PROPOSITIONS: Mapping[str, int] = {"dmv": 4949, "ssa": 3251, "studentaid": 2705, "va": 3538}
"""Propositions of each domain in the released file, 14,443 in all; 12,806 different texts."""

_COLLECTION = replace(multidoc2dial.COLLECTION, name="multidoc2dial_propositions", unit=PROPOSITIONS)

load = _COLLECTION.load
"""Folder -> benchmark; see `Collection.load`."""

RETRIEVAL = _COLLECTION.retrieval()
"""The corpus; asking for relevance judgements is an error that says why there are none."""

__all__ = ["OFFICIAL_PROPOSITIONS", "RETRIEVAL", "SOURCE", "load"]
