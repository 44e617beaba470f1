"""The suites of rewriting models on the sample, with a search that returns the relevant passages."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

import pytest

from ragtasks.benchmarks import CONTRACTS, NO_REWRITE, benchmark_folder, open_benchmark
from ragtasks.benchmarks.mtrag import rewriting_tasks
from ragtasks.files import Ranked
from ragtasks.metrics import NgramIdk, Scores, Search, SearchResult, Semantics
from ragtasks.records import Response, Task
from ragtasks.suites import ScoringInputs, suite_named

SAMPLE = open_benchmark("mtrag", benchmark_folder("mtrag", "sample", Path()).resolve())
TASKS = {name: rewriting_tasks(SAMPLE, contract).tasks for name, contract in CONTRACTS.items()}
SUITES = {"json": suite_named("rewriting"), "conditional": suite_named("rewriting_conditional")}
RETRIEVAL = {"ndcg_5", "recall_5"}


def clairvoyant(domain: str, texts: Collection[str]) -> SearchResult:
    """Return the references of a question for its official rewrite, and no passage for any other text."""
    by_rewrite = {task.extra["rewrite"]: task.references for task in TASKS["json"] if task.domain == domain}
    ranked = {text: tuple(Ranked(p.passage_id, 1.0) for p in by_rewrite.get(text, ())) for text in texts}
    return SearchResult(ranked)


def scored(name: str, tasks: list[Task], texts: list[str], search: Search | None = clairvoyant) -> list[Scores]:
    responses = [Response(task, (), text) for task, text in zip(tasks, texts, strict=True)]
    labels = NgramIdk().detect(responses)
    evidence = ScoringInputs(SAMPLE, responses, labels, Semantics(None, "encoder: none"), search=search)
    return SUITES[name].score(evidence)


@pytest.mark.parametrize("name", SUITES)
def test_the_suite_returns_exactly_its_metrics(name: str) -> None:
    suite = SUITES[name]
    assert suite.uses_retriever
    assert not suite.uses_encoder
    (own,) = scored(name, [TASKS[name][0]], [TASKS[name][0].target])
    assert list(own) == [metric.name for metric in suite.metrics]


@pytest.mark.parametrize("name", SUITES)
def test_the_target_reaches_the_official_scores(name: str) -> None:
    tasks = list(TASKS[name])
    for task, own in zip(tasks, scored(name, tasks, [task.target for task in tasks]), strict=True):
        unchanged = task.extra["rewrite"] == task.question
        assert own["recall_5"].value == own["recall_5_official"].value == pytest.approx(1)
        assert own["recall_5_last_turn"].value == (pytest.approx(1) if unchanged else 0)
        assert (own["invalid_reply"].value, own["coverage"].value) == (0, 1)


@pytest.mark.parametrize("name", SUITES)
def test_a_reply_that_breaks_the_contract_is_counted_and_the_last_turn_searched(name: str) -> None:
    tasks = list(TASKS[name])
    for own in scored(name, tasks, ["I cannot say."] * len(tasks)):
        assert own["invalid_reply"].value == 1
        assert all(own[one_score].value == own[f"{one_score}_last_turn"].value for one_score in RETRIEVAL)
        assert own["length_ratio"].value is None
        assert own["unneeded_rewrite"].value is None
        assert own["reply_words"].value == 3


def test_scores_by_label_are_of_labelled_later_turns() -> None:
    later = next(task for task in TASKS["json"] if task.turn > 1)
    first = next(task for task in TASKS["json"] if task.turn == 1)
    tasks = [replace(later, extra={**later.extra, "standalone": label}) for label in (True, False, None)] + [first]
    rows = scored("json", tasks, [task.target for task in tasks])
    standalone = [row["ndcg_5_standalone"].value is not None for row in rows]
    non_standalone = [row["ndcg_5_non_standalone"].value is not None for row in rows]
    assert (standalone, non_standalone) == ([True, False, False, False], [False, True, False, False])
    assert rows[1]["ndcg_5_standalone"].reason == "not labelled so"


def test_a_rewrite_of_a_standalone_question_is_unneeded() -> None:
    later = next(task for task in TASKS["json"] if task.turn > 1)
    first = next(task for task in TASKS["json"] if task.turn == 1)
    tasks = [replace(later, extra={**later.extra, "standalone": label}) for label in (True, False, None)]
    tasks.append(replace(first, extra={**first.extra, "standalone": None}))
    kept = scored("json", tasks, [CONTRACTS["json"].write(t.question, t.question.upper()) for t in tasks])
    changed = scored("json", tasks, [CONTRACTS["json"].write(t.question, f"{t.question} Please.") for t in tasks])
    assert [row["unneeded_rewrite"].value for row in kept] == [0, None, None, 0]
    assert [row["unneeded_rewrite"].value for row in changed] == [1, None, None, 1]
    assert [row["length_ratio"].value for row in changed] == [1 + 1 / len(task.question.split()) for task in tasks]


def test_saved_words_are_those_of_the_official_rewrite() -> None:
    task = next(task for task in TASKS["conditional"] if task.extra["rewrite"] != task.question)
    declined, written, broken = scored("conditional", [task] * 3, [NO_REWRITE, task.target, "Hm."])
    assert declined["saved_words"].value == len(task.extra["rewrite"].split())
    assert [row["no_rewrite"].value for row in (declined, written, broken)] == [1, 0, 0]
    assert [row["saved_words"].value for row in (written, broken)] == [0, 0]
    assert declined["length_ratio"].value == 1
    assert declined["recall_5"].value == declined["recall_5_last_turn"].value == 0
    assert (declined["reply_words"].value, broken["reply_words"].value) == (1, 1)


@pytest.mark.parametrize("search", [None, lambda *_: SearchResult(None, "no corpus")])
def test_without_a_search_other_scores_remain(search: Search | None) -> None:
    task = TASKS["json"][0]
    (own,) = scored("json", [task], [task.target], search)
    missing = {name for name, score in own.items() if score.reason in ("no retriever", "no corpus")}
    assert missing >= {f"{one_score}{form}" for one_score in RETRIEVAL for form in ("", "_last_turn", "_official")}
    assert (own["coverage"].value, own["invalid_reply"].value) == (0, 0)
    assert own["length_ratio"].value is not None
