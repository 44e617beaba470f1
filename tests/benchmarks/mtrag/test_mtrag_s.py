"""MTRAG-S: its sample, the properties of its file, and the official counts if the file is available."""

from __future__ import annotations

import json
import re
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ragtasks.benchmarks import Benchmark, benchmark_folder
from ragtasks.benchmarks.mtrag._mtrag_s import SOURCE, load
from ragtasks.errors import BenchmarkFileError, ConfigurationError
from ragtasks.records import Answerability, Setting
from tests._messages import raises
from tests.benchmarks.mtrag._official import DOMAINS, official_passages
from tests.conftest import REAL_DATA

SAMPLE = benchmark_folder("mtrag_s", "sample", Path())
TASK_FILE = "mtrag-synthetic/generation_tasks/synthetic.jsonl"
LONGEST_COPY = 12  # longest common sequence of words of a sample answer and a passage


@pytest.fixture(scope="module")
def sample() -> Benchmark:
    return load(SAMPLE)


@pytest.fixture
def changed(tmp_path: Path) -> Callable[[Callable[[list[dict[str, Any]]], None]], Path]:
    """Return a copy of the sample with rows changed by a function."""

    def change(edit: Callable[[list[dict[str, Any]]], None]) -> Path:
        shutil.copytree(SAMPLE, tmp_path, dirs_exist_ok=True)
        rows = [json.loads(line) for line in (tmp_path / TASK_FILE).read_text(encoding="utf-8").splitlines()]
        edit(rows)
        (tmp_path / TASK_FILE).write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        return tmp_path

    return change


def test_the_official_file_has_the_papers_counts() -> None:
    root = REAL_DATA / "mt-rag-benchmark"
    if not (root / TASK_FILE).is_file():
        pytest.skip(f"no real MTRAG-S data at {root / TASK_FILE}")
    tasks = load(root).tasks
    conversations = {task.conversation_id for task in tasks}
    assert (len(tasks), len(conversations)) == (1181, 200)
    assert round(len(tasks) / len(conversations), 1) == 5.9
    assert max(task.turn for task in tasks) == 8
    passages = {(task.conversation_id, passage.passage_id) for task in tasks for passage in task.references}
    assert round(len(passages) / len(conversations), 1) == 4.6
    assert {task.multi_turn for task in tasks} <= {"N/A", "Follow-up", "Clarification"}


def test_the_sample_has_the_shape_of_the_official_data(sample: Benchmark) -> None:
    assert (sample.is_sample, sample.suite, sample.label) == (True, "mtrag_s", "mtrag_s (sample)")
    assert len(sample.tasks) == 25
    assert len({task.conversation_id for task in sample.tasks}) == 6
    assert {task.domain for task in sample.tasks} == set(DOMAINS)
    assert Counter(task.answerability for task in sample.tasks) == {
        Answerability.ANSWERABLE: 22,
        Answerability.PARTIAL: 2,
        Answerability.UNANSWERABLE: 1,
    }
    assert all((task.turn == 1) == (task.multi_turn == "N/A") for task in sample.tasks)
    assert {task.multi_turn for task in sample.tasks} == {"N/A", "Follow-up", "Clarification"}
    assert all(re.fullmatch("[0-9a-f]{64}", passage.passage_id) for task in sample.tasks for passage in task.references)
    assert any(not task.question_types for task in sample.tasks)


def test_sample_rows_have_the_official_keys_in_their_order() -> None:
    row = json.loads((SAMPLE / TASK_FILE).read_text(encoding="utf-8").splitlines()[0])
    assert list(row) == [
        "conversation_id", "task_id", "task_type", "turn", "dataset", "contexts", "input", "targets", "Question Type",
        "Multi-Turn", "Answerability", "Collection",
    ]  # fmt: skip
    assert list(row["contexts"][0]) == ["document_id", "text"]


def test_sample_passages_are_those_of_the_shared_corpora_and_answers_are_not_copied(sample: Benchmark) -> None:
    root = benchmark_folder("mtrag", "sample", Path())
    corpora = {domain: {passage.text for passage in official_passages(root, domain)} for domain in DOMAINS}
    for task in sample.tasks:
        assert {passage.text for passage in task.references} <= corpora[task.domain]
        words = re.findall(r"\w+", task.target.lower())
        sources = [" ".join(re.findall(r"\w+", passage.text.lower())) for passage in task.references]
        windows = [" ".join(words[start : start + LONGEST_COPY + 1]) for start in range(len(words) - LONGEST_COPY)]
        assert not [window for window in windows if any(window in source for source in sources)], task.task_id


def test_a_repeated_passage_is_read_once(sample: Benchmark) -> None:
    rows = [json.loads(line) for line in (SAMPLE / TASK_FILE).read_text(encoding="utf-8").splitlines()]
    (twice,) = [row for row in rows if len(row["contexts"]) == 2 and row["contexts"][0] == row["contexts"][1]]
    (task,) = [task for task in sample.tasks if task.task_id == twice["task_id"]]
    assert [passage.text for passage in task.references] == [twice["contexts"][0]["text"]]


def test_one_id_with_two_texts_is_a_problem(changed: Callable[..., Path]) -> None:
    def edit(rows: list[dict[str, Any]]) -> None:
        rows[2]["contexts"] = [{**rows[2]["contexts"][0], "text": text} for text in ("one", "two")]

    with raises(BenchmarkFileError):
        load(changed(edit))


def test_every_problem_is_named_with_its_line(changed: Callable[..., Path]) -> None:
    def edit(rows: list[dict[str, Any]]) -> None:
        rows[0]["Answerability"] = ["VAGUE"]
        rows[1]["contexts"] = None
        rows[3]["targets"] = []
        rows[4]["Collection"] = "mt-rag-sports"

    with pytest.raises(BenchmarkFileError) as caught:
        load(changed(edit))
    text = str(caught.value)
    assert text.startswith("MTRAG-S file: ")
    for line, expected in ((1, "`Answerability"), (2, "`contexts` as a list"), (4, "`targets`"), (5, "`Collection`")):
        assert re.search(rf"line {line} .*{expected}", text)
    assert "expected 25 tasks, found 21" in text
    assert "ragtasks data fetch mtrag_s" in text


def test_another_number_of_conversations_is_a_problem(changed: Callable[..., Path]) -> None:
    def edit(rows: list[dict[str, Any]]) -> None:
        rows[-1] |= {"conversation_id": "f" * 32, "task_id": "f" * 32 + "<::>4"}

    with raises(BenchmarkFileError):
        load(changed(edit))


def test_only_the_passages_of_the_task_file_exist(sample: Benchmark) -> None:
    contexts = sample.read_contexts(Setting.REFERENCE)
    assert contexts.passages == {task.task_id: task.references for task in sample.tasks}
    for setting in (Setting.REFERENCE_RAG, Setting.FULL_RAG):
        with raises(ConfigurationError):
            sample.read_contexts(setting)


def test_its_only_file_is_in_the_repository_of_mtrag() -> None:
    assert [file.path for file in SOURCE.files] == [TASK_FILE]
    assert (SOURCE.folder, SOURCE.commit) == ("mt-rag-benchmark", "cc5b1d481b391181b89f7ced860308482e785463")
