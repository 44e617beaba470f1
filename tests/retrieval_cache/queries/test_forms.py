from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragtasks.benchmarks import SAMPLE, Benchmark, benchmark_folder, open_benchmark, retrieval_side
from ragtasks.errors import ConfigurationError
from ragtasks.records import Answerability, Message, Role, Task
from retrieval_cache.queries import FORMS, build_queries, last_k_turns, selecting_form
from tests._messages import raises
from tests.benchmarks.mtrag._official import official_queries


def task_of(*texts: str) -> Task:
    messages = tuple(Message(Role.ASSISTANT if index % 2 else Role.USER, text) for index, text in enumerate(texts))
    turn = (len(texts) + 1) // 2
    return Task(f"c<::>{turn}", "c", turn, "d", messages, "", Answerability.ANSWERABLE, (), "N/A", ())


@pytest.fixture
def sample() -> Benchmark:
    return open_benchmark("mtrag", benchmark_folder("mtrag", SAMPLE, Path()))


@pytest.mark.parametrize(
    ("form", "text"),
    [
        ("last_turn", "q3"),
        ("all_questions", "q1\nq2\nq3"),
        ("full_conversation", "q1\na1\nq2\na2\nq3"),
        ("last_1_turns", "q3"),
        ("last_2_turns", "q2\na2\nq3"),
        ("last_9_turns", "q1\na1\nq2\na2\nq3"),
    ],
)
def test_form_selects_turns(form: str, text: str) -> None:
    select = selecting_form(form)
    assert select is not None
    assert select(task_of("q1", "a1", "q2", "a2", "q3")) == text


@given(st.lists(st.text(min_size=1), min_size=1, max_size=9).filter(lambda texts: len(texts) % 2 == 1))
def test_last_1_turns_is_the_last_turn_and_many_turns_are_the_conversation(texts: list[str]) -> None:
    task = task_of(*texts)
    assert last_k_turns(task, 1) == FORMS["last_turn"](task)
    assert last_k_turns(task, len(texts)) == FORMS["full_conversation"](task)


@pytest.mark.parametrize("form", [*FORMS, "rewrite", "last_3_turns"])
def test_every_task_of_the_sample_has_a_query(sample: Benchmark, form: str) -> None:
    queries = build_queries(sample, form)
    assert list(queries.texts) == [task.task_id for task in sample.tasks]
    assert all(text.strip() for text in queries.texts.values())
    assert queries.describe() == {"form": form}


def test_names_of_the_or_convqa_paper_are_aliases(sample: Benchmark) -> None:
    for name, ours in {"context": "last_2_turns", "contextualized": "last_turn", "decontextualized": "rewrite"}.items():
        queries = build_queries(sample, name)
        assert (queries.form, queries.texts) == (name, build_queries(sample, ours).texts)


def test_queries_can_be_limited_to_some_tasks(sample: Benchmark) -> None:
    chosen = sample.tasks[:2]
    assert list(build_queries(sample, "rewrite", chosen).texts) == [task.task_id for task in chosen]


@pytest.mark.parametrize(
    ("form", "message"),
    [("lastturn", "last_turn"), ("last_0_turns", "last_<k>_turns"), ("llm_rewrite", "needs a model"), ("", "known")],
)
def test_an_unknown_form_is_refused(sample: Benchmark, form: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        build_queries(sample, form)


def test_a_benchmark_without_rewrites_is_refused(sample: Benchmark) -> None:
    with raises(ConfigurationError):
        build_queries(replace(sample, name="multihop_rag"), "rewrite")


@pytest.mark.parametrize("form", ["last_turn", "all_questions"])
def test_official_files_contain_the_same_texts(mtrag_root: Path, form: str) -> None:
    ours = build_queries(open_benchmark("mtrag", mtrag_root), form).texts
    official = {
        key: text
        for domain in retrieval_side("mtrag").domains
        for key, text in official_queries(mtrag_root, domain, form).items()
    }
    assert (len(ours), len(official)) == (842, 777)
    assert {key: ours[key] for key in official} == official


def test_official_rewrites_cover_the_judged_tasks(mtrag_root: Path) -> None:
    benchmark = open_benchmark("mtrag", mtrag_root)
    queries = build_queries(benchmark, "rewrite")
    assert (len(queries.texts), len(queries.fallbacks)) == (842, 65)
    kinds = Counter(task.answerability.value for task in benchmark.tasks if task.task_id in queries.fallbacks)
    assert kinds == {"UNANSWERABLE": 55, "CONVERSATIONAL": 10}
    first = [task for task in benchmark.tasks if task.turn == 1]
    assert all(queries.texts[task.task_id] == task.question for task in first)
