"""The sample in the package: rebuilt, and checked against the rules for its contents."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path

import pytest

from ragtasks.benchmarks import Benchmark, benchmark_folder, open_benchmark
from ragtasks.records import Answerability, Setting
from tests.benchmarks.mtrag._official import DOMAINS, QUERY_FORMS, RETRIEVAL, official_passages, official_queries

ROOT = benchmark_folder("mtrag", "sample", Path())
QUESTION_TYPES = {"Comparative", "Composite", "Explanation", "Factoid", "How-To", "Keyword", "Non-Question"} | {
    "Opinion",
    "Summarization",
    "Troubleshooting",
}
LONGEST_COPY = 12  # longest common sequence of words of a reference answer and a passage
COMMANDS = re.compile(r"\b\w+(?: [\w-]+)* --[\w-]+(?: [\w.:/=-]+)*")


@pytest.fixture(scope="module")
def sample() -> Benchmark:
    return open_benchmark("mtrag", ROOT)


def test_the_sample_is_large_and_varied_enough(sample: Benchmark) -> None:
    assert len({task.conversation_id for task in sample.tasks}) >= 12
    assert len(sample.tasks) >= 72
    assert {task.domain for task in sample.tasks} == set(DOMAINS)
    assert sum(1 for domain in DOMAINS for _ in official_passages(ROOT, domain)) >= 160
    assert {task.answerability for task in sample.tasks} == set(Answerability) - {Answerability.UNDERSPECIFIED}
    assert {label for task in sample.tasks for label in task.question_types} == QUESTION_TYPES
    assert {task.multi_turn for task in sample.tasks} == {"N/A", "Follow-up", "Clarification"}
    for domain in DOMAINS:
        counts = Counter(task.answerability for task in sample.tasks if task.domain == domain)
        assert min(counts[label] for label in set(Answerability) - {Answerability.UNDERSPECIFIED}) >= 1


def test_only_first_turns_have_no_multi_turn_type(sample: Benchmark) -> None:
    assert all((task.turn == 1) == (task.multi_turn == "N/A") for task in sample.tasks)


def test_many_questions_need_the_conversation() -> None:
    path = ROOT / "mtrag-human/generation_tasks/reference.jsonl"
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    dependent = [row for row in rows if row["Standalone Type"] == ["Non-standalone"]]
    assert len(dependent) >= len(rows) / 4
    assert all(int(row["turn"]) > 1 for row in dependent)
    rewritten = 0
    for domain in DOMAINS:
        last, rewrite = (official_queries(ROOT, domain, form) for form in ("last_turn", "rewrite"))
        rewritten += sum(last[row["task_id"]] != rewrite[row["task_id"]] for row in dependent if row["task_id"] in last)
    assert rewritten >= 30


@pytest.mark.parametrize("domain", DOMAINS)
def test_references_are_passages_of_the_corpus(sample: Benchmark, domain: str) -> None:
    corpus = {passage.passage_id: passage for passage in official_passages(ROOT, domain)}
    for setting in (Setting.REFERENCE, Setting.REFERENCE_RAG, Setting.FULL_RAG):
        contexts = sample.read_contexts(setting).passages
        for task in sample.tasks:
            if task.domain == domain:
                assert all(corpus[p.passage_id] == p for p in contexts.get(task.task_id, ()))


@pytest.mark.parametrize("domain", DOMAINS)
def test_judgements_are_the_references_and_queries_their_tasks(sample: Benchmark, domain: str) -> None:
    tasks = [task for task in sample.tasks if task.domain == domain]
    references = [(task.task_id, passage.passage_id, 1) for task in tasks for passage in task.references]
    assert [(q.query_id, q.passage_id, q.relevance) for q in RETRIEVAL.load_qrels(ROOT, domain)] == references
    judged = [task.task_id for task in tasks if task.references]
    for form in QUERY_FORMS:
        assert list(official_queries(ROOT, domain, form)) == judged
    assert official_queries(ROOT, domain, "last_turn") == {t.task_id: t.question for t in tasks if t.references}


def test_only_answerable_tasks_have_references(sample: Benchmark) -> None:
    with_answer = (Answerability.ANSWERABLE, Answerability.PARTIAL)
    assert all(bool(task.references) == (task.answerability in with_answer) for task in sample.tasks)


def test_reference_answers_are_neither_empty_nor_copied(sample: Benchmark) -> None:
    copied = []
    for task in sample.tasks:
        assert task.target.strip()
        answer = re.findall(r"\w+", COMMANDS.sub(" _ ", task.target.lower()))
        sources = [" ".join(re.findall(r"\w+", passage.text.lower())) for passage in task.references]
        starts = range(len(answer) - LONGEST_COPY)
        windows = [" ".join(answer[start : start + LONGEST_COPY + 1]) for start in starts]
        copied += [(task.task_id, window) for window in windows if any(window in source for source in sources)]
    assert copied == []


@pytest.mark.parametrize("domain", DOMAINS)
def test_runs_are_in_rank_order_and_provide_the_full_rag_setting(sample: Benchmark, domain: str) -> None:
    lines = (ROOT / "runs/bm25_rewrite" / f"{domain}.trec").read_text(encoding="utf-8").splitlines()
    ranked: dict[str, list[tuple[int, float, str]]] = {}
    for line in lines:
        query_id, _, passage_id, rank, score, name = line.split(" ")
        assert name == "bm25-rewrite"
        ranked.setdefault(query_id, []).append((int(rank), float(score), passage_id))
    assert list(ranked) == [task.task_id for task in sample.tasks if task.domain == domain]
    contexts = sample.read_contexts(Setting.FULL_RAG).passages
    for query_id, entries in ranked.items():
        assert [rank for rank, _, _ in entries] == list(range(1, len(entries) + 1))
        scores = [score for _, score, _ in entries]
        assert scores == sorted(scores, reverse=True)
        assert len({passage_id for _, _, passage_id in entries}) == len(entries) == 10
        assert [p.passage_id for p in contexts[query_id]] == [passage_id for _, _, passage_id in entries[:5]]


def test_retrieval_finds_some_references_and_misses_others(sample: Benchmark) -> None:
    contexts = sample.read_contexts(Setting.FULL_RAG).passages
    is_retrieved = [p in contexts[task.task_id] for task in sample.tasks for p in task.references]
    assert 0.3 < sum(is_retrieved) / len(is_retrieved) < 0.95
