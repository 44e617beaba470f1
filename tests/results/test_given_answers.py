"""Answers of the user's own system as a file: every spelling of the keys, and all errors at once, by line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ragtasks.benchmarks import Benchmark, benchmark_folder, open_benchmark
from ragtasks.errors import BenchmarkFileError, ConfigurationError
from ragtasks.files import OFFICIAL
from ragtasks.records import Passage, Setting
from ragtasks.results import CONTEXTS_OF_FILE, GivenAnswer, contexts_of_answers, read_answers
from tests._messages import raises

FIRST, SECOND = "sample-clapnq-01<::>1", "sample-clapnq-01<::>2"


def sample(name: str) -> Benchmark:
    return open_benchmark(name, benchmark_folder(name, "sample", Path()).resolve())


def written(path: Path, *rows: Any) -> Path:
    path.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows))
    return path


@pytest.mark.parametrize(
    "row",
    [
        {"id": FIRST, "answer": "Two miles.", "contexts": [{"id": "p", "text": "Far.", "title": "T"}]},
        {"task_id": FIRST, "text": "Two miles.", "passages": [{"passage_id": "p", "text": "Far.", "title": "T"}]},
        {
            "task_id": FIRST.replace("<::>", "::"),
            "predictions": [{"text": "Two miles."}],
            "contexts": [{"document_id": "p", "text": "Far.", "title": "T", "score": 3.5}],
            "messages": [],
        },
    ],
)
def test_every_spelling_is_the_same_answer(tmp_path: Path, row: dict[str, Any]) -> None:
    given = read_answers(written(tmp_path / "a.jsonl", row), sample("mtrag"))
    assert given == {FIRST: GivenAnswer("Two miles.", (Passage("p", "Far.", "T"),))}


def test_contexts_may_be_texts_or_none(tmp_path: Path) -> None:
    rows = [
        {"id": FIRST, "answer": "", "contexts": ["One.", {"page_content": "Two.", "metadata": {}}]},
        {"id": SECOND, "answer": "I do not know.", "contexts": []},
    ]
    given = read_answers(written(tmp_path / "a.jsonl", *rows), sample("mtrag"))
    assert given[FIRST] == GivenAnswer("", (Passage("context-1", "One."), Passage("context-2", "Two.")))
    assert given[SECOND].passages == ()


def test_a_conversation_of_one_task_may_be_named(tmp_path: Path) -> None:
    benchmark = sample("trec_rag24")
    task = benchmark.tasks[0]
    given = read_answers(written(tmp_path / "a.jsonl", {"id": task.conversation_id, "answer": "x"}), benchmark)
    assert list(given) == [task.task_id]


def test_all_errors_are_listed_by_line(tmp_path: Path) -> None:
    file = written(
        tmp_path / "a.jsonl",
        {"id": "sample-clapnq-01<::>11", "answer": "x"},
        {"id": FIRST, "answer": 3},
        {"id": FIRST, "answer": "x"},
        {"answer": "x"},
        {"id": SECOND, "answer": "x", "contexts": [{"id": "p"}]},
        '{"id": ',
        {"id": "sample-clapnq-01<::>3", "answer": "x", "contexts": 5},
        {"id": "sample-clapnq-02<::>1"},
        {"id": "sample-clapnq-02<::>2", "answer": None},
    )
    with pytest.raises(BenchmarkFileError) as caught:
        read_answers(file, sample("mtrag"))
    lines = str(caught.value).splitlines()
    for number, parts in enumerate(
        (
            ["did you mean 'sample-clapnq-01<::>1'"],
            [f"({FIRST})", "`answer`: a text", "found 3"],
            [f"({FIRST})", "each task once", "line 2'"],
            ["`id`", "found no `id`"],
            ["context 1: a text, or an object with `text`", "found no text"],
            ["one JSON object"],
            ["`contexts`: a list", "found 'int'"],
            ["found no `answer`"],
            ["found no text: `answer` is null"],
        ),
        start=1,
    ):
        assert lines[number].startswith(f"  line {number}")
        assert all(part in lines[number] for part in parts), lines[number]
    assert "docs/score-your-system.md" in lines[-1]


def test_answers_of_another_benchmark_are_one_error_that_names_it(tmp_path: Path) -> None:
    answered = sample("multihop_rag").tasks
    file = written(tmp_path / "a.jsonl", *({"id": task.task_id, "answer": "x"} for task in answered))
    with pytest.raises(BenchmarkFileError) as caught:
        read_answers(file, sample("mtrag"))
    text = str(caught.value)
    assert f"{len(answered)} of {len(answered)} ids of other tasks, such as '{answered[0].task_id}' in line 1" in text
    assert "these are tasks of multihop_rag (sample)\n" in text
    assert "`benchmark: multihop_rag` and `data: sample` in evaluation.yaml" in text
    assert "--benchmark multihop_rag --data sample on the command line" in text


def test_unknown_ids_are_one_error_with_example_ids(tmp_path: Path) -> None:
    rows = [{"id": f"question {n}", "answer": "x"} for n in range(4)]
    with pytest.raises(BenchmarkFileError, match="4 of 6 ids of other tasks") as caught:
        read_answers(
            written(tmp_path / "a.jsonl", *rows, *({"id": FIRST, "answer": "x"} for _ in range(2))), sample("mtrag")
        )
    assert f"ids are such as '{FIRST}'" in str(caught.value)
    few = written(tmp_path / "few.jsonl", *rows[:3])
    with raises(BenchmarkFileError):
        read_answers(few, sample("mtrag"))


def test_an_id_may_be_a_number(tmp_path: Path) -> None:
    task = sample("trec_rag25").tasks[0]
    file = written(tmp_path / "a.jsonl", {"id": int(task.task_id), "answer": "x"})
    assert list(read_answers(file, sample("trec_rag25"))) == [task.task_id]


def test_passages_of_answers_have_precedence_over_those_of_the_setting(tmp_path: Path) -> None:
    benchmark = sample("mtrag")
    published = benchmark.read_contexts(Setting.FULL_RAG).passages
    own = (Passage("mine", "Mine."),)

    def contexts(**given: GivenAnswer) -> Any:
        answers = {FIRST: given["first"], SECOND: given["second"]}
        return contexts_of_answers(answers, benchmark, Setting.FULL_RAG, OFFICIAL, tmp_path)

    bare = GivenAnswer("x")
    assert contexts(first=bare, second=bare).passages == published
    both = contexts(first=GivenAnswer("x", own), second=bare)
    assert (both.run, both.passages[FIRST], both.passages[SECOND]) == (OFFICIAL, own, published[SECOND])
    assert contexts(first=GivenAnswer("x", own), second=GivenAnswer("x", ())).run == CONTEXTS_OF_FILE
    same = contexts(first=GivenAnswer("x", published[FIRST]), second=GivenAnswer("x", published[SECOND]))
    assert same.run == OFFICIAL


def test_a_setting_without_passages_takes_answers_with_their_own(tmp_path: Path) -> None:
    benchmark = sample("mtrag_un")
    task = benchmark.tasks[0].task_id
    own = {task: GivenAnswer("x", (Passage("p", "P."),))}
    assert (
        contexts_of_answers(own, benchmark, Setting.FULL_RAG, OFFICIAL, tmp_path).passages[task] == own[task].passages
    )
    with pytest.raises(ConfigurationError, match="1 answers without"):
        contexts_of_answers({task: GivenAnswer("x")}, benchmark, Setting.FULL_RAG, OFFICIAL, tmp_path)
