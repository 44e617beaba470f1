"""Rows with people's labels: spellings, several people, pairs, official files, and errors."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from ragtasks.errors import BenchmarkFileError, ConfigurationError
from ragtasks.judges import rubric_of
from ragtasks.results import LabelledRows, read_labelled_rows
from tests._messages import raises

ROW = {"question": "Why?", "answer": "Because.", "contexts": ["It is so."]}


def read(folder: Path, rows: Sequence[Mapping[str, Any]], rubric: str = "idk", **keys: str) -> LabelledRows:
    path = folder / "labels.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return read_labelled_rows(path, rubric_of(rubric), keys)


def row(number: int = 1, **values: Any) -> dict[str, Any]:
    return {**ROW, "question": f"Why {number}?", **values}


@pytest.mark.parametrize(
    ("values", "labels"),
    [
        ({"label": "yes"}, {"1": "yes"}),
        ({"label": " YES "}, {"1": "yes"}),
        ({"label_1": "yes", "label_2": "no"}, {"1": "yes", "2": "no"}),
        ({"label_ann": "yes", "label_bob": ""}, {"ann": "yes"}),
        ({"label": ["yes", "partial"]}, {"1": "yes", "2": "partial"}),
        ({"label": '["yes", "no"]'}, {"1": "yes", "2": "no"}),
        ({"label": "yes", "rater": "ann"}, {"ann": "yes"}),
        ({"label": ["yes", None, "no"]}, {"1": "yes", "3": "no"}),
        ({"label": "['yes', None]"}, {"1": "yes"}),
    ],
)
def test_spellings_of_labels(tmp_path: Path, values: dict[str, Any], labels: dict[str, str]) -> None:
    labelled = read(tmp_path, [row(**values)])
    assert labelled.rows[0].labels == labels
    assert list(labelled.scale.items()) == [("no", 0), ("partial", 0.5), ("yes", 1)]


def test_rows_of_several_raters_are_one_row(tmp_path: Path) -> None:
    rows = [
        row(n, id=f"r{n}", label=label, rater=name) for n in (1, 2) for name, label in (("ann", "yes"), ("bob", "no"))
    ]
    labelled = read(tmp_path, rows)
    assert [labelled_row.name for labelled_row in labelled.rows] == ["r1", "r2"]
    assert labelled.rows[1].labels == {"ann": "yes", "bob": "no"}


def test_raters_with_numbers_and_own_notes_are_people_of_one_row(tmp_path: Path) -> None:
    rows = [row(label="yes", annotator=number, lead_time=number * 1.5, notes=f"note {number}") for number in range(3)]
    (labelled,) = read(tmp_path, rows).rows
    assert labelled.labels == {"0": "yes", "1": "yes", "2": "yes"}


def test_a_named_key_leads_into_objects_and_replaces_other_labels(tmp_path: Path) -> None:
    rows = [row(label="yes", label_ann="yes", data={"verdict": "no"}), row(2, label="yes", data={})]
    labelled = read(tmp_path, rows, label="data.verdict")
    assert [labelled_row.labels for labelled_row in labelled.rows] == [{"1": "no"}]
    assert labelled.n_unlabelled == 1


def test_labels_of_a_rubric_may_be_numbers_in_any_spelling(tmp_path: Path) -> None:
    rubric = tmp_path / "rubric.yaml"
    rubric.write_text("prompt: '{{ answer }}'\nlabels: {1.0: 0, 2.0: 1}\n", encoding="utf-8")
    labelled = read(tmp_path, [row(1, label=1), row(2, label="2.0"), row(3, label=2.0)], str(rubric))
    assert [[*labelled_row.labels.values()] for labelled_row in labelled.rows] == [["1.0"], ["2.0"], ["2.0"]]


def test_a_table_has_the_same_rows(tmp_path: Path) -> None:
    path = tmp_path / "labels.csv"
    path.write_text('q,output,contexts,verdict_1,verdict_2\nWhy?,Because.,"[""It is so.""]",yes,\nHow?,So.,[],,\n')
    keys = {"question": "q", "answer": "output", "label": "verdict"}
    labelled = read_labelled_rows(path, rubric_of("idk"), keys)
    assert labelled.n_unlabelled == 1
    assert labelled.rows[0].labels == {"1": "yes"}
    assert labelled.rows[0].response.text == "Because."
    assert [passage.text for passage in labelled.rows[0].response.passages] == ["It is so."]


def test_a_named_key_replaces_the_built_in_one(tmp_path: Path) -> None:
    rows = [row(label="other", label_1="words", verdict="yes", verdict_b="no")]
    assert read(tmp_path, rows, label="verdict").rows[0].labels == {"1": "yes", "b": "no"}
    with pytest.raises(BenchmarkFileError, match="no label in 1 rows"):
        read(tmp_path, [row(label="yes")], label="verdict")


def test_numbers_are_labels_of_a_rubric_with_numbers(tmp_path: Path) -> None:
    share = read(tmp_path, [row(1, label=1), row(2, label="0.50"), row(3, label="no")], "rl_f")
    assert share.scale == {"0": 0, "0.5": 0.5, "1": 1}
    rating = read(tmp_path, [row(n, label=n, reference="So.") for n in (2, 10)], "rb_llm")
    assert rating.scale == {"2": 0.2, "10": 1}


def test_the_cluster_is_the_conversation_or_the_row(tmp_path: Path) -> None:
    rows = [
        row(1, label="no", conversation_id="c"),
        row(2, label="no", conversation_id="c"),
        row(3, label="no", cluster="d"),
        row(4, label="no"),
        row(5, label="no", cluster=0),
    ]
    labelled = read(tmp_path, rows).rows
    assert [labelled_row.cluster for labelled_row in labelled] == ["c", "c", "d", "row-4", "0"]
    assert len(labelled[1].response.task.messages) == 3, "rows of a conversation are its turns, as in `score`"


def test_a_pair_has_a_second_answer_with_its_passages(tmp_path: Path) -> None:
    second = {"answer_b": "So.", "contexts_2": ["Other."]}
    labelled = read(tmp_path, [row(label="tie", **second), row(2, label="b", answer_2="")], "pairwise").rows
    assert labelled[0].second.text == "So."
    assert labelled[0].second.passages[0].text == "Other."
    assert (labelled[1].second.text, labelled[1].second.passages) == ("", labelled[1].response.passages)


@pytest.mark.parametrize(
    ("rows", "rubric"),
    [
        ([row(1, label="maybe"), row(2, label="yes")], "idk"),
        ([row(1, label=11)], "rb_llm"),
        ([row(1, label=""), row(2)], "idk"),
        ([row(1, label="no", id="a"), row(2, label="no", id="a")], "idk"),
        ([{"question": "Why?", "answer": "So.", "label": 1}], "rl_f"),
        ([row(1, label=3)], "rb_llm"),
        ([row(1, label="a")], "pairwise"),
        ([row(1, label="no", rater="ann"), row(1, label="yes", rater="ann")], "idk"),
        ([row(1, label="no", conversation_id="c"), row(1, answer="No.", label="yes", conversation_id="c")], "idk"),
        ([row(n, label=n / 20) for n in range(20)], "rl_f"),
        ([row(1, label=10**400)], "rl_f"),
        ([{"Question": "Why?", "Answer": "So.", "Label": "no"}], "idk"),
        ([row(1, Label="no")], "idk"),
    ],
)
def test_rows_that_cannot_be_used_are_errors(tmp_path: Path, rows: Sequence[Mapping[str, Any]], rubric: str) -> None:
    with raises(BenchmarkFileError):
        read(tmp_path, rows, rubric)


def test_ragcheckers_pairs_are_labels(mtrag_root: Path) -> None:
    path = mtrag_root.parent / "ragchecker" / "human_labeled_data.json"
    if not path.is_file():
        pytest.skip(f"no real RAGChecker data at {path}")
    labelled = read_labelled_rows(path, rubric_of("pairwise"))
    counts = [label for labelled_row in labelled.rows for label in labelled_row.labels.values()]
    assert len(labelled.rows) == 280
    # Counted in the file: a label below 0 prefers the first answer.
    assert [counts.count(label) for label in ("a", "tie", "b")] == [205, 170, 185]
    correct = read_labelled_rows(path, rubric_of("pairwise"), {"label": "correctness"})
    assert [row.labels for row in correct.rows] != [row.labels for row in labelled.rows]
    with pytest.raises(ConfigurationError, match="overall"):
        read_labelled_rows(path, rubric_of("pairwise"), {"label": "overal"})


def test_mtrags_ratings_are_labels(mtrag_root: Path) -> None:
    faithful = read_labelled_rows(mtrag_root, rubric_of("rl_f"))
    assert len(faithful.rows) == 318, "without the reference answers"
    assert list(faithful.scale) == ["0", "0.33", "0.67", "1"]
    assert faithful.rows[0].cluster in faithful.rows[0].name
    rated = read_labelled_rows(mtrag_root, rubric_of("rb_llm"))
    assert list(rated.scale) == [str(number) for number in range(1, 11)]
    pairs = read_labelled_rows(mtrag_root, rubric_of("pairwise"))
    assert len(pairs.rows) + pairs.n_unlabelled == 159
    assert {len(pair.labels) for pair in pairs.rows} <= {1, 2, 3}
