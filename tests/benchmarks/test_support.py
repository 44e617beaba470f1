"""Support judgements: contents of a file, and errors of invalid lines."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ragtasks.benchmarks.trec_rag import read_support
from ragtasks.errors import BenchmarkFileError
from ragtasks.records import Support

GOOD = {"topic_id": "1", "run_id": "r", "sentences": [{"citations": [{"support": "2"}, {"support": "0"}]}]}


def written(folder: Path, *rows: Any) -> Path:
    path = folder / "support.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_only_the_first_citation_counts_and_unlabeled_citations_are_unjudged(tmp_path: Path) -> None:
    more = {"topic_id": 2, "run_id": "r", "sentences": [{"citations": [{}]}, {"citations": []}]}
    first, second = read_support(written(tmp_path, GOOD, more))
    assert (first.topic_id, first.cites, first.levels) == ("1", (True,), (Support.FULL,))
    assert (second.topic_id, second.cites, second.levels) == ("2", (True, False), (None, None))


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"run_id": "r", "sentences": []}, "found no `topic_id`"),
        ({**GOOD, "run_id": None}, "`run_id` as a text"),
        ({**GOOD, "topic_id": "2", "sentences": {}}, "`sentences` as a list"),
        (GOOD, "each topic of a run once"),
        ({**GOOD, "topic_id": "2", "sentences": [{"citations": "x"}]}, "`sentences[0].citations` as a list"),
        (
            {**GOOD, "topic_id": "2", "sentences": [{"citations": [{"support": "3"}]}]},
            "support` as 0, 1 or 2",
        ),
    ],
)
def test_a_broken_line_is_named(tmp_path: Path, row: Any, message: str) -> None:
    with pytest.raises(BenchmarkFileError, match="line 2") as error:
        read_support(written(tmp_path, GOOD, row))
    assert message in str(error.value)
