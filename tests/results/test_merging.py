"""Merging evaluations of one model: all data is kept, and different requests or scorings stay apart."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ragtasks.files import canonical_hash
from ragtasks.reports.page_parts import name_evaluations
from ragtasks.results import (
    Evaluation,
    comparable_evaluations,
    merge_evaluations,
    model_names,
    read_evaluations,
    request_differences,
    scored_on,
)
from tests.reports._saved import TASKS, Change, facts, facts_of, save, scoring, top

RUBRICS = {"rl_f": "faithfulness (01)"}


def configuration(**fields: object) -> Change:
    return lambda results: facts_of(results)["configuration"].update(fields)


def options(**fields: object) -> Change:
    return lambda results: results["configs"]["mtrag_reference"].update(generation_kwargs=fields)


def read(*folders: Path) -> list[Evaluation]:
    return [item for folder in folders for item in read_evaluations([folder])]


def two_models(folder: Path, change: Change) -> list[Evaluation]:
    """Return an evaluation of `A`, and one of `B` with other results."""
    save(folder / "a", "A")
    save(folder / "b", "B", change=change)
    return read(folder)


def test_parts_of_one_harness_task_keep_their_answers_and_facts(tmp_path: Path) -> None:
    for name, tasks in (("1", TASKS[2:]), ("2", TASKS[:1]), ("3", TASKS[1:2])):
        save(tmp_path / name, tasks=tasks, change=facts(part=name))
    (merged,) = merge_evaluations(read(tmp_path))
    assert [row.response.text for row in merged.rows] == [
        f"answer to {conversation} {turn}" for conversation, turn in (*TASKS[2:], *TASKS[:2])
    ]
    assert (
        list(merged.samples)
        == list(merged.provenance)
        == ["mtrag_reference", "mtrag_reference #2", "mtrag_reference #3"]
    )
    assert [own["part"] for own in merged.provenance.values()] == ["1", "2", "3"]


def test_a_repeat_is_numbered_and_settings_share_a_name(tmp_path: Path) -> None:
    save(tmp_path, day=1)
    save(tmp_path, day=2, setting="full_rag")
    save(tmp_path, day=3)
    save(tmp_path, "other", day=4)
    evaluations = read(tmp_path)
    assert model_names(evaluations) == ["org/model", "org/model", "org/model #2", "other"]
    assert [item.model for item in merge_evaluations(evaluations)] == ["org/model", "org/model #2", "other"]


def test_numbered_names_are_listed_with_their_files(tmp_path: Path) -> None:
    for name, model, day, setting in (
        ("1", "A", 1, "reference"),
        ("2", "A", 1, "reference"),
        ("2", "A", 2, "full_rag"),
        ("3", "B", 1, "reference"),
    ):
        save(tmp_path / name, model, day=day, setting=setting)
    (together,) = comparable_evaluations(read_evaluations([tmp_path]))
    assert [item.model for item in together] == ["A", "A #2", "B"]
    assert request_differences(together) == {
        "files": "A is 1/results_2026-01-01.json and 2/results_2026-01-02.json, A #2 is 2/results_2026-01-01.json"
    }
    (together,) = comparable_evaluations(read_evaluations([tmp_path / "2", tmp_path / "1"]))
    assert request_differences(together) == {
        "files": "A is 2/results_2026-01-01.json and 2/results_2026-01-02.json, A #2 is 1/results_2026-01-01.json"
    }


def test_differences_in_search_and_scoring_are_named(tmp_path: Path) -> None:
    def change(results: dict[str, Any]) -> None:
        tools = {"retriever": "minilm", "k": 9, "calls": 8, "protocol": "text"}
        facts(tools=tools, configuration={"run": "official", "system_role": "user"})(results)
        scoring(scored_by="ragtasks 0.2.0")(results)

    (together,) = comparable_evaluations(two_models(tmp_path, change))
    assert request_differences(together) == {
        "search retriever": "- for A, but minilm for B",
        "search calls": "- for A, but 8 for B",
        "search k": "- for A, but 9 for B",
        "search protocol": "- for A, but text for B",
        "system_role": "- for A, but user for B",
        "scored by": "ragtasks 0.1.0 for A, but ragtasks 0.2.0 for B",
    }


def test_settings_of_one_model_scored_by_different_versions_are_separate(tmp_path: Path) -> None:
    save(tmp_path, day=1, change=scoring(scored_by="ragtasks 0.1.0"))
    save(tmp_path, day=2, setting="full_rag", change=scoring(scored_by="ragtasks 0.2.0"))
    assert model_names(read(tmp_path)) == ["org/model", "org/model #2"]


def test_a_numbered_name_is_explained_if_the_plain_name_is_in_another_table(tmp_path: Path) -> None:
    save(tmp_path / "1")
    save(tmp_path / "2", change=facts(revision="other"))
    groups = comparable_evaluations(read_evaluations([tmp_path]))
    assert [request_differences(own) for own in groups] == [{}, {"files": "org/model #2 is 2/results_2026-01-01.json"}]


@pytest.mark.parametrize(
    "change",
    [
        facts(revision="other"),
        scoring(rescaled=True),
        scoring(rubrics=RUBRICS),
        facts(prompts={"system": "generation/system (ab)", "plain": "generation/plain (bb)"}),
        configuration(max_words=50),
        facts(run_key="0123"),
    ],
)
def test_settings_with_different_requests_or_scoring_are_not_merged(tmp_path: Path, change: Change) -> None:
    save(tmp_path / "1")
    save(tmp_path / "2", setting="full_rag", change=change)
    assert model_names(read(tmp_path)) == ["org/model", "org/model #2"]


def test_the_page_names_models_as_the_tables_do_and_measures_no_loss_across(tmp_path: Path) -> None:
    save(tmp_path / "1")
    save(tmp_path / "2", setting="full_rag")
    save(tmp_path / "3", setting="full_rag", change=facts(revision="other"))
    own, same, other = name_evaluations(read(tmp_path))
    assert [item.model for item in (own, same, other)] == ["org/model", "org/model", "org/model #2"]
    assert [same.loss(row) for row in same.evaluation.rows] == [0.0] * 4
    assert [other.loss(row) for row in other.evaluation.rows] == [None] * 4


@pytest.mark.parametrize(
    ("change", "field", "text"),
    [
        (facts(revision="other"), "data revision", "other"),
        (scoring(rescaled=True), "encoder of BERTScore", "minilm, rescaled"),
        (scoring(rubrics=RUBRICS), "rubrics", canonical_hash(json.dumps(RUBRICS))[:16]),
        (scoring(retriever={"line": "bm25 k1=2"}), "retriever", "bm25 k1=2"),
    ],
)
def test_scores_with_different_scoring_are_not_comparable(
    tmp_path: Path, change: Change, field: str, text: str
) -> None:
    groups = comparable_evaluations(two_models(tmp_path, change))
    assert sorted([item.model for item in own] for own in groups) == [["A"], ["B"]]
    headings = {own[0].model: scored_on(own[0]) for own in groups}
    usual = {"data revision": "cc5b1d4", "metrics": "mtrag"}
    usual |= {"encoder of BERTScore": "minilm", "IDK detector": "ngrams-2"}
    assert headings["A"] == usual
    assert headings["B"] == usual | {field: text}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda results: None, {}),
        (configuration(max_words=50), {"max_words": "- for A, but 50 for B"}),
        (configuration(conversational=True), {"conversational": "- for A, but true for B"}),
        (
            facts(prompts={"system": "/home/someone/mine.jinja (cc)", "plain": "generation/plain (bb)"}),
            {"system prompt": "system (aa) for A, but mine.jinja (cc) for B"},
        ),
        (
            facts(prompts={"system": "official/system (aa)", "plain": "generation/plain (bb)"}),
            {"system prompt": "system (aa) for A, but official/system (aa) for B"},
        ),
        (
            facts(prompts={"system": "generation/clarification + /home/someone/mine.jinja (cc)", "plain": "p (bb)"}),
            {
                "system prompt": "system (aa) for A, but clarification + mine.jinja (cc) for B",
                "plain prompt": "plain (bb) for A, but p (bb) for B",
            },
        ),
        (configuration(data="/elsewhere", encoder_device="cpu"), {}),
        (
            top(system_instruction_sha="0123456789abcdef0123"),
            {"system instruction": "- for A, but 0123456789abcdef for B"},
        ),
        (top(versions={"mtrag_reference": 2.0}), {"harness task version": "1.0 for A, but 2.0 for B"}),
        (top(chat_template=""), {"chat template applied": "- for A, but yes for B"}),
        (top(chat_template=None), {"chat template applied": "- for A, but no for B"}),
        (options(temperature=0.5), {"generation options": '- for A, but {"temperature": 0.5} for B'}),
        (top(**{"n-shot": {"mtrag_reference": 5}}), {}),  # our tasks take no examples
    ],
)
def test_answers_to_different_requests_are_compared_with_a_remark(
    tmp_path: Path, change: Change, said: dict[str, str]
) -> None:
    (together,) = comparable_evaluations(two_models(tmp_path, change))
    assert request_differences(together) == said


def test_run_keys_are_listed_if_one_name_has_several_runs(tmp_path: Path) -> None:
    for model, run, key in (("A", "mine", "k1"), ("B", "mine", "k2"), ("C", "theirs", "k3"), ("D", "official", None)):

        def change(results: dict[str, Any], run: str = run, key: str | None = key) -> None:
            configuration(run=run)(results)
            facts(run_key=key)(results)

        save(tmp_path / model, model, change=change)
    (together,) = comparable_evaluations(read(tmp_path))
    assert request_differences(together) == {"key of run mine": "k1 for A (run mine), but k2 for B (run mine)"}
