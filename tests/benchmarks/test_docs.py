"""Docs: the flat dictionaries that templates, models and logs see."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ragtasks.benchmarks import (
    Benchmark,
    Doc,
    benchmark_folder,
    build_doc,
    build_docs,
    contexts_for,
    open_benchmark,
    response_of,
)
from ragtasks.files import OFFICIAL
from ragtasks.records import Answerability, Contexts, Passage, Setting
from tests.benchmarks.mtrag._official import DOMAINS


@pytest.fixture(scope="module")
def sample() -> Benchmark:
    return open_benchmark("mtrag", benchmark_folder("mtrag", "sample", Path()))


def docs_of(benchmark: Benchmark, setting: Setting, domain: str, *, conversational: bool = False) -> list[Doc]:
    contexts = contexts_for(benchmark, setting, OFFICIAL, Path())
    return build_docs(benchmark, setting, domain, conversational=conversational, contexts=contexts)


@pytest.mark.parametrize("setting", Setting)
@pytest.mark.parametrize("domain", DOMAINS)
def test_docs_are_the_tasks_of_a_domain_in_a_setting(sample: Benchmark, setting: Setting, domain: str) -> None:
    covered = contexts_for(sample, setting, OFFICIAL, Path()).passages
    expected = [task for task in sample.tasks if task.domain == domain and task.task_id in covered]
    everything = docs_of(sample, setting, domain, conversational=True)
    assert [doc["task_id"] for doc in everything] == [task.task_id for task in expected]
    kept = [task for task in expected if task.answerability is not Answerability.CONVERSATIONAL]
    assert [doc["task_id"] for doc in docs_of(sample, setting, domain)] == [task.task_id for task in kept]
    assert len(kept) < len(expected)


def test_a_doc_survives_json_and_converts_back_to_its_task(sample: Benchmark) -> None:
    for setting in Setting:
        contexts = contexts_for(sample, setting, OFFICIAL, Path())
        tasks = {task.task_id: task for task in sample.tasks}
        for doc in docs_of(sample, setting, "fiqa", conversational=True):
            response = response_of(json.loads(json.dumps(doc)), "an answer")
            task = tasks[doc["task_id"]]
            for name in ("task_id", "conversation_id", "turn", "domain", "messages", "target", "answerability"):
                assert getattr(response.task, name) == getattr(task, name)
            assert response.task.question_types == task.question_types
            assert response.task.multi_turn == task.multi_turn
            assert [p.passage_id for p in response.task.references] == [p.passage_id for p in task.references]
            shown = [(p.passage_id, p.title, p.text) for p in contexts.passages[task.task_id]]
            assert [(p.passage_id, p.title, p.text) for p in response.passages] == shown
            assert response.text == "an answer"


@pytest.mark.parametrize("text", ["an answer", " an answer\n", "", " \n"])
def test_a_response_is_scored_without_surrounding_blanks_and_keeps_the_original(sample: Benchmark, text: str) -> None:
    doc, *_ = docs_of(sample, Setting.REFERENCE, "fiqa")
    response = response_of(doc, text)
    assert response.text == text.strip()
    assert (response.text if response.verbatim is None else response.verbatim) == text


def test_a_doc_contains_benchmark_setting_and_run(sample: Benchmark) -> None:
    task = next(task for task in sample.tasks if task.turn == 3)
    passage = Passage("p-0-4", "text", "title", "https://x.example")
    doc = build_doc(sample, task, Setting.FULL_RAG, "bm25", (passage,))
    assert (doc["benchmark"], doc["is_sample"]) == ("mtrag", True)
    assert (doc["setting"], doc["run"]) == ("full_rag", "bm25")
    assert doc["passages"] == [{"passage_id": "p-0-4", "title": "title", "text": "text"}]
    assert [message["role"] for message in doc["history"]] == ["user", "assistant"] * 2
    assert doc["question"] == task.question


def test_a_task_without_context_has_no_doc(sample: Benchmark) -> None:
    contexts = Contexts("bm25", Setting.FULL_RAG, {sample.tasks[0].task_id: ()})
    domain = sample.tasks[0].domain
    (doc,) = build_docs(sample, Setting.FULL_RAG, domain, conversational=True, contexts=contexts)
    assert doc["passages"] == []
    assert build_docs(sample, Setting.FULL_RAG, "nowhere", conversational=True, contexts=contexts) == []


def test_real_docs_have_the_paper_s_numbers(mtrag_root: Path) -> None:
    benchmark = open_benchmark("mtrag", mtrag_root)
    sizes = {s.value: sum(len(docs_of(benchmark, s, domain)) for domain in DOMAINS) for s in Setting}
    # Without the ten conversational tasks, which the paper leaves out.
    assert sizes == {"reference": 832, "reference_rag": 426, "full_rag": 832, "agentic": 832}
