"""Questions with relevance judgements as tasks of a rewriting model."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from ragtasks.benchmarks import (
    CONTRACTS,
    JSON_CONTRACT,
    Benchmark,
    Contract,
    benchmark_folder,
    open_benchmark,
    read_reply,
)
from ragtasks.benchmarks.mtrag import rewriting_tasks
from ragtasks.errors import ConfigurationError
from ragtasks.records import Setting
from tests._messages import raises
from tests.benchmarks.mtrag._official import DOMAINS, RETRIEVAL


def sample_of(name: str) -> Benchmark:
    return open_benchmark(name, benchmark_folder(name, "sample", Path()).resolve())


@pytest.mark.parametrize("contract", CONTRACTS.values(), ids=list(CONTRACTS))
def test_the_target_is_the_reply_with_the_official_rewrite(contract: Contract) -> None:
    sample = sample_of("mtrag")
    chosen = rewriting_tasks(sample, contract)
    official = {key: text for domain in DOMAINS for key, text in RETRIEVAL.load_rewrites(sample.root, domain).items()}
    judged = {qrel.query_id for domain in DOMAINS for qrel in RETRIEVAL.load_qrels(sample.root, domain)}
    assert [task.task_id for task in chosen.tasks] == [t.task_id for t in sample.tasks if t.task_id in judged]
    for task in chosen.tasks:
        reading = read_reply(contract, task.target, task.question)
        assert not reading.problem
        assert reading.query == task.extra["rewrite"] == official[task.task_id]


def test_a_rewriting_model_gets_no_passage() -> None:
    chosen = rewriting_tasks(sample_of("mtrag"), JSON_CONTRACT)
    for setting in (Setting.REFERENCE, Setting.REFERENCE_RAG, Setting.FULL_RAG):
        assert chosen.read_contexts(setting).passages == {task.task_id: () for task in chosen.tasks}


def test_labels_come_from_the_task_file() -> None:
    labels = Counter(task.extra["standalone"] for task in rewriting_tasks(sample_of("mtrag"), JSON_CONTRACT).tasks)
    assert set(labels) == {True, False}


def test_another_benchmark_with_rewrites_has_no_labels() -> None:
    chosen = rewriting_tasks(sample_of("multidoc2dial"), JSON_CONTRACT)
    assert chosen.tasks
    assert {task.extra["standalone"] for task in chosen.tasks} == {None}


def test_a_benchmark_without_rewrites_is_refused() -> None:
    with raises(ConfigurationError):
        rewriting_tasks(sample_of("mtrag_un"), JSON_CONTRACT)


def test_the_official_files_give_777_tasks(mtrag_root: Path) -> None:
    tasks = rewriting_tasks(open_benchmark("mtrag", mtrag_root), JSON_CONTRACT).tasks
    assert len(tasks) == 777
    assert Counter(task.domain for task in tasks) == {"clapnq": 208, "fiqa": 180, "govt": 201, "cloud": 188}
    first = [task for task in tasks if task.turn == 1]
    assert len(first) == 102
    assert all(task.extra["rewrite"] == task.question for task in first)
    assert Counter(task.extra["standalone"] for task in tasks) == {None: 772, False: 3, True: 2}
