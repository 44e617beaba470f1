"""Decisions, the resulting benchmark, and agreement of reviewers."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from ragtasks.benchmarks import open_benchmark
from ragtasks.benchmarks.custom import check_folder
from ragtasks.errors import ConfigurationError
from ragtasks.records import Answerability
from ragtasks.synthesis.cutting import Cut
from ragtasks.synthesis.review import (
    DecisionError,
    Pair,
    Review,
    decide,
    export_reviewed,
    read_pairs,
    read_reviews,
    review_section,
    write_reviews,
)
from tests._messages import raises, same_message
from tests.clients._server import chat_server
from tests.synthesis._documents import write_towns
from tests.synthesis._making import make, rows
from tests.synthesis._scripted import script
from tests.synthesis._tiny import write_dialogues


def review(pair: Pair, choice: str, reviewer: str = "ann", time: float = 1.0, **texts: str) -> Review:
    return Review(reviewer, pair.pair_id, decide(pair, choice, {**pair.texts, **texts}), time)


def test_an_edit_requires_texts_and_without_changes_accepts(tmp_path: Path) -> None:
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


def test_the_last_decision_on_the_current_texts_counts(tmp_path: Path) -> None:
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
    result, n_others = read_reviews(pairs, kept)
    assert [(latest.reviewer, latest.decision.choice, latest.time) for latest in result] == [
        ("bob", "accept", 1.0),
        ("ann", "reject", 3.0),
    ]
    assert n_others == 2


def test_a_kept_question_stands_alone_after_a_removed_pair(tmp_path: Path) -> None:
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
    with pytest.raises(ConfigurationError, match="other contents"):
        export_reviewed(folder, tmp_path / "out", reviews[1:])
    with pytest.raises(ConfigurationError, match="no pair was accepted"):
        export_reviewed(folder, tmp_path / "none", reviews[:1])


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
    # Kept or rejected: 4 of 5 equal; by chance (3 * 4 + 2 * 1) / 25: (0.8 - 0.56) / 0.44.
    assert agreement.rows[0][:5] == ("ann and bob", "kappa", 5, "80.0 %", "0.545")
    assert agreement.rows[1][:3] == ("all reviewers", "alpha", 5)
    # By choice, kappa: (0.6 - 0.32) / 0.68; alpha: 1 - 0.2 / (42 / 90) and 1 - 0.4 / (66 / 90).
    assert agreement.rows[0][5] == "0.412"
    assert agreement.rows[1][3:] == ("-", "0.571", "0.455")
    assert (decisions.title, decisions.columns) == ("Decisions", ("reviewer", "accepted", "edited", "rejected", "left"))
    assert agreement.title == "Agreement of reviewers"
    assert agreement.columns == (
        *("reviewers", "measure", "pairs", "same"),
        *("kept or rejected", "accepted, edited or rejected"),
    )
    assert "Cohen's kappa" in agreement.note
    assert json.dumps(review_section("b", pairs, reviews[:1]).tables[1].rows) == "[]"


def test_texts_have_a_maximum_length_and_notes_are_truncated(tmp_path: Path) -> None:
    pair = read_pairs(write_dialogues(tmp_path / "b", 1))[1]
    longest = decide(pair, "edit", {**pair.texts, "answer": "x" * 20_000}, "n" * 3_000)
    assert (len(longest.texts["answer"]), len(longest.note)) == (20_000, 2_000)
    with raises(DecisionError):
        decide(pair, "edit", {"question": "q", "answer": "a"})
    for choice in ("accept", "reject"):
        assert decide(pair, choice, {"question": ""}).texts == {}, "only an edit checks the texts"


def test_a_decision_is_exported_without_default_values(tmp_path: Path) -> None:
    pair = read_pairs(write_dialogues(tmp_path / "b", 1))[1]
    plain, edited = review(pair, "accept"), review(pair, "edit", "bob", 2.0, answer="other")
    write_reviews(tmp_path / "reviews.jsonl", [plain, edited])
    same_message((tmp_path / "reviews.jsonl").read_text("utf-8"))


def test_the_version_of_a_pair_covers_everything_displayed(tmp_path: Path) -> None:
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
    versions = {Pair(pair.number, changed).version for changed in (task, *changes)}
    assert len(versions) == 1 + len(changes)
    assert Pair(pair.number + 1, task).version == pair.version
    assert Pair(1, replace(task, extra={})).texts["standalone"] == task.question


def test_reviewers_who_share_no_pair_have_no_agreement(tmp_path: Path) -> None:
    pairs = read_pairs(write_dialogues(tmp_path / "b", 1))
    section = review_section("b", pairs, [review(pairs[0], "accept"), review(pairs[1], "reject", "bob")])
    assert section.provenance == {"pairs": "3", "reviewed": "2"}
    assert section.tables[1].rows == (
        ("ann and bob", "kappa", 0, "-", "-", "-"),
        ("all reviewers", "alpha", 0, "-", "-", "-"),
    )


def test_three_reviewers_agree_two_by_two_and_all_together(tmp_path: Path) -> None:
    pairs = read_pairs(write_dialogues(tmp_path / "b", 2))
    reviews = [
        review(pairs[index], choice, name, answer="other")
        for name, choices in {
            "cid": {0: "accept", 1: "reject"},
            "ann": {0: "accept", 1: "reject", 2: "edit"},
            "bob": {1: "accept", 2: "accept", 5: "reject"},
        }.items()
        for index, choice in choices.items()
    ]
    section = review_section("towns", pairs, reviews)
    assert section.title == "review: towns"
    assert section.provenance == {"pairs": "6", "reviewed": "4"}
    decisions, agreement = section.tables
    assert decisions.rows == (("ann", 1, 1, 1, 3), ("bob", 2, 0, 1, 3), ("cid", 1, 0, 1, 4))
    assert [row[:4] for row in agreement.rows] == [
        ("ann and bob", "kappa", 2, "50.0 %"),
        ("ann and cid", "kappa", 2, "100.0 %"),
        ("bob and cid", "kappa", 1, "0.0 %"),
        ("all reviewers", "alpha", 3, "-"),
    ]
    assert agreement.rows[1][4:] == ("1.000", "1.000")
    assert agreement.rows[0][4:] == ("0.000", "0.000"), "an edited pair is kept too, but the choices differ"


def test_the_manifest_of_a_review_lists_its_inputs(tmp_path: Path) -> None:
    folder = write_dialogues(tmp_path / "b", 1)
    pairs = read_pairs(folder)
    export_reviewed(folder, tmp_path / "out", [review(pairs[0], "accept")])
    manifest = json.loads((tmp_path / "out" / "synthesis" / "manifest.json").read_bytes())
    assert manifest["made_by"] == {
        "version": 1,
        "reviewed": [pair.version for pair in pairs],
        "reviews": rows(tmp_path / "out" / "synthesis" / "reviews.jsonl"),
    }
    assert "counts" not in manifest
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "conversations.jsonl",
        "passages.jsonl",
        "synthesis",
    ], "a benchmark without judgements and dialogues gets none"
    assert (tmp_path / "out" / "passages.jsonl").read_bytes() == (folder / "passages.jsonl").read_bytes()


def test_the_last_edit_counts_despite_later_decisions_without_edits(tmp_path: Path) -> None:
    folder = write_dialogues(tmp_path / "b", 1)
    pairs = read_pairs(folder)
    reviews = [
        review(pairs[1], "edit", "ann", 5.0, answer="late", question="and its price", standalone="its price"),
        review(pairs[1], "edit", "bob", 4.0, answer="early"),
        review(pairs[1], "accept", "cid", 6.0),
        review(pairs[0], "accept"),
    ]
    export_reviewed(folder, tmp_path / "out", reviews)
    same_message((tmp_path / "out" / "conversations.jsonl").read_text("utf-8"))


def test_labels_of_a_turn_are_kept(tmp_path: Path) -> None:
    folder = write_dialogues(tmp_path / "b", 1)
    (row,) = rows(folder / "conversations.jsonl")
    row["turns"][1] |= {"multi_turn": "Clarification", "question_types": ["Opinion"], "answerability": "PARTIAL"}
    row["turns"][2] |= {"answerability": "UNANSWERABLE", "references": []}
    (folder / "conversations.jsonl").write_text(json.dumps(row) + "\n", "utf-8")
    pairs = read_pairs(folder)
    export_reviewed(folder, tmp_path / "whole", [review(pair, "accept") for pair in pairs])
    (kept,) = rows(tmp_path / "whole" / "conversations.jsonl")
    labels = [(turn["multi_turn"], turn["answerability"], turn.get("question_types")) for turn in kept["turns"]]
    assert labels == [
        ("N/A", "ANSWERABLE", None),
        ("Clarification", "PARTIAL", ["Opinion"]),
        ("Follow-up", "UNANSWERABLE", None),
    ]
    assert "references" not in kept["turns"][2]
    export_reviewed(folder, tmp_path / "later", [review(pair, "accept") for pair in pairs[1:]])
    (kept,) = rows(tmp_path / "later" / "conversations.jsonl")
    assert [turn["multi_turn"] for turn in kept["turns"]] == ["N/A", "Follow-up"], "the first kept turn is no follow-up"


def test_the_synthesis_details_include_the_review(tmp_path: Path) -> None:
    write_towns(tmp_path / "docs", 1, 8)
    with chat_server(script) as server:
        make(server.base_url, tmp_path, turns=4, cut=Cut())
    pairs = read_pairs(tmp_path / "out")
    assert len(pairs) == 4
    reviews = [
        review(pairs[0], "reject"),
        review(pairs[1], "edit", answer="other", standalone="alone", question="asked"),
        review(pairs[2], "accept"),
    ]
    export_reviewed(tmp_path / "out", tmp_path / "kept", reviews)
    (before,), (after,) = (
        rows(folder / "synthesis" / "dialogues.jsonl") for folder in (tmp_path / "out", tmp_path / "kept")
    )
    first, second, third, _ = before["turns"]
    edited = {**second, "contextualized": "alone", "decontextualized": "alone", "answer": "other"}
    assert after == {
        **before,
        "turns": [edited, third],
        "removed": [
            *before["removed"],
            {"question": first["decontextualized"], "answer": first["answer"], "reason": "rejected in review"},
        ],
    }, "a pair without a decision is neither kept nor rejected"
    export_reviewed(tmp_path / "out", tmp_path / "kept too", [review(pairs[2], "accept")])
    assert rows(tmp_path / "kept too" / "synthesis" / "dialogues.jsonl")[0]["removed"] == before["removed"]


def test_a_dialogue_without_kept_pairs_is_removed_from_the_details(tmp_path: Path) -> None:
    write_towns(tmp_path / "docs", 2, 8)
    with chat_server(script) as server:
        make(server.base_url, tmp_path, turns=2)
    pairs = read_pairs(tmp_path / "out")
    last = pairs[-1]
    export_reviewed(tmp_path / "out", tmp_path / "kept", [review(last, "accept"), review(pairs[0], "reject")])
    kept = rows(tmp_path / "kept" / "synthesis" / "dialogues.jsonl")
    assert [row["dialogue_id"] for row in kept] == [last.task.conversation_id]


def test_decisions_are_sorted_by_pair_and_time(tmp_path: Path) -> None:
    pairs = read_pairs(write_dialogues(tmp_path / "b", 1))
    kept = [
        (name, pairs[index].pair_id, decide(pairs[index], "accept", {}).model_dump_json(), time)
        for name, index, time in (("ann", 2, 1.0), ("bob", 0, 3.0), ("ann", 0, 2.0))
    ]
    result, n_others = read_reviews(pairs, [*kept, ("ann", "elsewhere", kept[0][2], 4.0)])
    assert [(sorted_review.reviewer, sorted_review.pair_id, sorted_review.time) for sorted_review in result] == [
        ("ann", "c0<::>1", 2.0),
        ("bob", "c0<::>1", 3.0),
        ("ann", "c0<::>3", 1.0),
    ]
    assert n_others == 1
    assert [pair.number for pair in pairs] == [1, 2, 3]
