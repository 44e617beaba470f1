from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ragtasks.benchmarks.trec_rag import read_assignments, read_nuggets
from ragtasks.errors import BenchmarkFileError
from ragtasks.records import Grade, Importance

NUGGET = {"text": "a fact", "importance": "okay"}
GRADED = {**NUGGET, "assignment": "support"}


def written(folder: Path, *rows: Any) -> Path:
    path = folder / "rows.jsonl"
    path.write_text(
        "".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows), encoding="utf-8"
    )
    return path


def test_nuggets_are_read_and_further_keys_ignored(tmp_path: Path) -> None:
    more = {"text": "b", "importance": "vital", "mapped_sub_narrative": "x", "source": 3}
    nuggets = read_nuggets(
        written(tmp_path, {"qid": "1", "query": "q", "nuggets": [NUGGET, more]}, {"qid": 2, "nuggets": [NUGGET]})
    )
    assert list(nuggets) == ["1", "2"]
    assert [(nugget.text, nugget.importance) for nugget in nuggets["1"].nuggets] == [
        ("a fact", Importance.OKAY),
        ("b", Importance.VITAL),
    ]
    assert nuggets["2"].query == ""


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("{", "one JSON object"),
        ([], "one JSON object"),
        ({"nuggets": [NUGGET]}, "`qid`"),
        ({"qid": True, "nuggets": [NUGGET]}, "`qid`"),
        ({"qid": "2", "query": 1, "nuggets": [NUGGET]}, "`query` as a text"),
        ({"qid": "2"}, "found no `nuggets`"),
        ({"qid": "2", "nuggets": []}, "`nuggets` as more values"),
        ({"qid": "2", "nuggets": {"text": "a"}}, "`nuggets` as a list"),
        ({"qid": "2", "nuggets": ["a fact"]}, "`nuggets[0]` as keys with values"),
        (
            {"qid": "2", "nuggets": [{"text": " ", "importance": "vital"}]},
            "`nuggets[0].text` as a text that",
        ),
        ({"qid": "2", "nuggets": [{"text": "a fact"}]}, "found no `importance`"),
        (
            {"qid": "2", "nuggets": [{"text": "a fact", "importance": "Vital"}]},
            "`nuggets[0].importance`",
        ),
        (
            {"qid": "2", "nuggets": [{"text": "a fact", "importance": ["vital"]}]},
            "`nuggets[0].importance`",
        ),
        ({"qid": "2", "nuggets": [NUGGET, NUGGET]}, "each nugget once"),
        ({"qid": "1", "nuggets": [NUGGET]}, "each topic once"),
    ],
)
def test_a_broken_line_is_named(tmp_path: Path, row: Any, message: str) -> None:
    path = written(tmp_path, {"qid": "1", "nuggets": [NUGGET]}, row)
    with pytest.raises(BenchmarkFileError) as error:
        read_nuggets(path)
    assert "line 2" in str(error.value)
    assert message in str(error.value)
    assert ": 1 error\n" in str(error.value)


def test_all_problems_of_a_file_are_reported_together(tmp_path: Path) -> None:
    with pytest.raises(BenchmarkFileError) as error:
        read_nuggets(written(tmp_path, {"qid": "1"}, "{", {"qid": "3", "nuggets": [{"text": "a"}, {}]}))
    assert ": 5 errors\n" in str(error.value)


def test_assignments_contain_grades_and_failures(tmp_path: Path) -> None:
    failed = {**NUGGET, "text": "other", "assignment": "failed"}
    row = {"qid": "1", "query": "q", "run_id": "r", "nuggets": [GRADED, failed]}
    (assignment,) = read_assignments(written(tmp_path, row))
    assert (assignment.run_id, assignment.grades, len(assignment.nuggets.nuggets)) == ("r", (Grade.SUPPORT, None), 2)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"qid": "2", "run_id": "r", "nuggets": [NUGGET]}, "found no `assignment`"),
        ({"qid": "2", "run_id": "r", "nuggets": [{**NUGGET, "assignment": "yes"}]}, "`nuggets[0].assignment`"),
        ({"qid": "2", "nuggets": [GRADED]}, "`run_id`"),
        ({"qid": "1", "run_id": "r", "nuggets": [GRADED]}, "each topic of a run once"),
    ],
)
def test_a_broken_assignment_is_named(tmp_path: Path, row: Any, message: str) -> None:
    path = written(tmp_path, {"qid": "1", "run_id": "r", "nuggets": [GRADED]}, row)
    with pytest.raises(BenchmarkFileError, match="line 2") as error:
        read_assignments(path)
    assert message in str(error.value)
