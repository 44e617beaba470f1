"""Decisions, what they leave of a benchmark, and how far reviewers agree."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from ragtasks.benchmarks import open_benchmark
from ragtasks.benchmarks.custom import check_folder
from ragtasks.errors import ConfigurationError
from ragtasks.records import Answerability
from ragtasks.synthesis import (
    DecisionError,
    Pair,
    Review,
    decide,
    export_reviewed,
    quality_section,
    read_pairs,
    read_reviews,
    review_section,
    write_reviews,
)
from tests.clients._server import chat_server
from tests.synthesis._documents import write_towns
from tests.synthesis._making import make, rows
from tests.synthesis._scripted import script
from tests.synthesis._tiny import write_dialogues


def review(pair: Pair, choice: str, reviewer: str = "ann", time: float = 1.0, **texts: str) -> Review:
    return Review(reviewer, pair.pair_id, decide(pair, choice, {**pair.texts, **texts}), time)


def test_an_edit_needs_its_texts_and_one_that_changes_nothing_accepts(tmp_path: Path) -> None:
    pair = read_pairs(write_dialogues(tmp_path / "b", 1))[1]
    assert decide(pair, "edit", pair.texts).choice == "accept"
    edited = decide(pair, "edit", {**pair.texts, "answer": " Two\r\nlines. "}, " why ")
    assert (edited.choice, edited.texts["answer"], edited.note) == ("edit", "Two\nlines.", "why")
    for choice, texts, message in (
        ("edit", {"answer": " "}, "the answer is empty"),
        ("edit", {"question": "x" * 20_001}, "the question has more than 20,000"),
        ("maybe", {}, "accept, edit, reject"),
    ):
        with pytest.raises(DecisionError, match=message):
            decide(pair, choice, {**pair.texts, **texts})


def test_the_last_decision_of_each_counts_and_only_on_these_very_texts(tmp_path: Path) -> None:
    pairs = read_pairs(write_dialogues(tmp_path / "b", 1))
    accepted, rejected = (decide(pairs[0], choice, {}).model_dump_json() for choice in ("accept", "reject"))
    other = decide(pairs[1], "accept", {}).model_copy(update={"version": "another"}).model_dump_json()
    kept = [
        ("bob", pairs[0].pair_id, accepted, 1.0),
        ("ann", pairs[0].pair_id, accepted, 2.0),
        ("ann", pairs[0].pair_id, rejected, 3.0),
        ("ann", pairs[1].pair_id, other, 4.0),
        ("ann", pairs[0].pair_id, "{", 5.0),
    ]
    found, n_others = read_reviews(pairs, kept)
    assert [(one.reviewer, one.decision.choice, one.time) for one in found] == [
        ("bob", "accept", 1.0),
        ("ann", "reject", 3.0),
    ]
    assert n_others == 2


def test_what_is_left_stands_alone_where_the_pair_before_it_is_gone(tmp_path: Path) -> None:
    folder = write_dialogues(tmp_path / "b", 3)
    (folder / "qrels.tsv").write_text("c0<::>1\t0\t0-open\t1\nc0<::>2\t0\t0-cost\t2\nc0<::>3\t0\t0-age\t1\n")
    pairs = read_pairs(folder)
    reviews = [
        review(pairs[0], "reject"),
        review(pairs[1], "accept"),
        review(pairs[2], "edit", answer="quite old", time=1.0),
        review(pairs[2], "edit", "bob", answer="very old", time=2.0),
        review(pairs[3], "accept"),
        review(pairs[3], "reject", "bob"),
        review(pairs[5], "accept"),
    ]
    (line,) = export_reviewed(folder, tmp_path / "out", reviews)
    assert line.endswith("3 pairs kept, 1 of them edited; 2 rejected, 4 not decided on")
    assert check_folder(tmp_path / "out").passes
    tasks = {task.task_id: task for task in open_benchmark("custom", tmp_path / "out").tasks}
    assert list(tasks) == ["c0<::>1", "c0<::>2", "c1<::>1"]
    assert tasks["c0<::>1"].question == "what does the mill of arden cost"
    assert tasks["c0<::>2"].target == "very old"
    assert (tmp_path / "out" / "qrels.tsv").read_text() == "c0<::>1\t0\t0-cost\t2\nc0<::>2\t0\t0-age\t1\n"
    assert len(rows(tmp_path / "out" / "synthesis" / "reviews.jsonl")) == 7
    assert export_reviewed(folder, tmp_path / "out", reviews) == (line,)
    with pytest.raises(ConfigurationError, match="something else"):
        export_reviewed(folder, tmp_path / "out", reviews[1:])
    with pytest.raises(ConfigurationError, match="no pair was accepted"):
        export_reviewed(folder, tmp_path / "none", reviews[:1])


def test_a_reviewed_synthesis_keeps_its_details(tmp_path: Path) -> None:
    write_towns(tmp_path / "docs", 2, 8)
    with chat_server(script) as server:
        make(server.base_url, tmp_path, turns=6)
    pairs = read_pairs(tmp_path / "out")
    export_reviewed(tmp_path / "out", tmp_path / "kept", [review(pairs[0], "reject"), review(pairs[1], "accept")])
    (before,), (after,) = (
        [row for row in rows(folder / "synthesis" / "dialogues.jsonl") if row["dialogue_id"] == "d1"]
        for folder in (tmp_path / "out", tmp_path / "kept")
    )
    assert len(after["turns"]) == 1
    assert len(after["removed"]) == len(before["removed"]) + 1
    assert quality_section(tmp_path / "kept").tables[1].rows[0][:2] == ("d1", 1)


def test_agreement_of_two_and_of_all(tmp_path: Path) -> None:
    pairs = read_pairs(write_dialogues(tmp_path / "b", 2))
    ann = ["accept", "accept", "reject", "reject", "edit", "accept"]
    bob = ["accept", "edit", "reject", "accept", "edit"]
    reviews = [
        review(pair, choice, name, answer="other")
        for name, choices in (("ann", ann), ("bob", bob))
        for pair, choice in zip(pairs, choices, strict=False)
    ]
    decisions, agreement = review_section("b", pairs, reviews).tables
    assert decisions.rows == (("ann", 3, 1, 2, 0), ("bob", 2, 2, 1, 1))
    # Kept or rejected: 4 of 5 the same; by chance (3 * 4 + 2 * 1) / 25: (0.8 - 0.56) / 0.44.
    assert agreement.rows[0][:5] == ("ann, bob", "kappa", 5, "80.0 %", "0.545")
    assert agreement.rows[1][:3] == ("all reviewers", "alpha", 5)
    assert json.dumps(review_section("b", pairs, reviews[:1]).tables[1].rows) == "[]"


def test_a_text_may_be_as_long_as_it_says_and_a_note_is_cut(tmp_path: Path) -> None:
    pair = read_pairs(write_dialogues(tmp_path / "b", 1))[1]
    longest = decide(pair, "edit", {**pair.texts, "answer": "x" * 20_000}, "n" * 3_000)
    assert (len(longest.texts["answer"]), len(longest.note)) == (20_000, 2_000)
    with pytest.raises(DecisionError, match="the standalone question is empty"):
        decide(pair, "edit", {"question": "q", "answer": "a"})
    for choice in ("accept", "reject"):
        assert decide(pair, choice, {"question": ""}).texts == {}, "only an edit looks at the texts"


def test_a_decision_is_exported_with_what_it_says_and_no_more(tmp_path: Path) -> None:
    pair = read_pairs(write_dialogues(tmp_path / "b", 1))[1]
    plain, edited = review(pair, "accept"), review(pair, "edit", "bob", 2.0, answer="other")
    write_reviews(tmp_path / "reviews.jsonl", [plain, edited])
    assert rows(tmp_path / "reviews.jsonl") == [
        {"task_id": "c0<::>2", "reviewer": "ann", "time": 1.0, "choice": "accept", "version": pair.version},
        {
            **{"task_id": "c0<::>2", "reviewer": "bob", "time": 2.0, "choice": "edit", "version": pair.version},
            "texts": {**pair.texts, "answer": "other"},
        },
    ]


def test_a_pair_has_another_version_where_anything_that_is_shown_differs(tmp_path: Path) -> None:
    pair = read_pairs(write_dialogues(tmp_path / "b", 1))[1]
    task = pair.task
    assert task.references
    changes = [
        replace(task, target="other"),
        replace(task, extra={**task.extra, "rewrite": "another question"}),
        replace(task, answerability=Answerability.UNANSWERABLE),
        replace(task, references=task.references[:-1]),
        replace(task, references=(replace(task.references[0], text="another text"), *task.references[1:])),
    ]
    versions = {Pair(pair.number, other).version for other in (task, *changes)}
    assert len(versions) == 1 + len(changes)
    assert Pair(pair.number + 1, task).version == pair.version
    assert Pair(1, replace(task, extra={})).texts["standalone"] == task.question


def test_the_first_question_that_is_left_of_a_conversation_begins_it(tmp_path: Path) -> None:
    folder = write_dialogues(tmp_path / "b", 2)
    pairs = read_pairs(folder)
    export_reviewed(folder, tmp_path / "out", [review(pairs[1], "accept"), review(pairs[2], "accept")])
    first, second = open_benchmark("custom", tmp_path / "out").tasks
    assert [(task.turn, task.multi_turn) for task in (first, second)] == [(1, "N/A"), (2, "Follow-up")]
    assert first.question == pairs[1].texts["standalone"]
    assert second.question == pairs[2].texts["question"]
    for task, pair in zip((first, second), pairs[1:], strict=False):
        assert task.answerability is pair.task.answerability
        assert [item.passage_id for item in task.references] == [item.passage_id for item in pair.task.references]
        assert task.question_types == pair.task.question_types
        assert task.extra["rewrite"] == pair.texts["standalone"]


def test_reviewers_who_share_no_pair_have_no_agreement(tmp_path: Path) -> None:
    pairs = read_pairs(write_dialogues(tmp_path / "b", 1))
    section = review_section("b", pairs, [review(pairs[0], "accept"), review(pairs[1], "reject", "bob")])
    assert section.provenance == {"pairs": "3", "reviewed": "2"}
    assert section.tables[1].rows == (
        ("ann, bob", "kappa", 0, "-", "-", "-"),
        ("all reviewers", "alpha", 0, "-", "-", "-"),
    )
