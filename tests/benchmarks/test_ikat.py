"""TREC iKAT: its topics and their errors, its facts, its sample, and the real data's counts."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ragtasks.benchmarks import benchmark_folder, open_benchmark, source_of
from ragtasks.errors import BenchmarkFileError, ConfigurationError
from ragtasks.records import Setting
from tests.conftest import REAL_DATA

SAMPLE = benchmark_folder("ikat23", "sample", Path())
YEARS = {"ikat23": (25, 332), "ikat24": (17, 218), "ikat25": (17, 188)}


@pytest.fixture
def official(tmp_path: Path) -> Path:
    """The official topics in the layout of the checkout, without NIST's judgements of the facts."""
    files = REAL_DATA / "ikat"
    if not files.is_dir():
        pytest.skip(f"no real iKAT data at {files}")
    for file in files.glob("*_test_topics*"):
        folder = tmp_path / file.name[:4] / "data"
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, folder / file.name)
    (tmp_path / "2023/evaluation").mkdir()
    (tmp_path / "2023/evaluation/ptkb_rel_nist").write_text("9-1_1 0 4 1\n9-1_1 0 5 0\n", encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize("name", YEARS)
def test_the_official_topics_have_their_counts(name: str, official: Path) -> None:
    tasks = open_benchmark(name, official).tasks
    assert (len({task.conversation_id for task in tasks}), len(tasks)) == YEARS[name]
    relevant = sum(bool(task.extra["relevant_facts"]) for task in tasks)
    assert relevant == {"ikat23": 112, "ikat24": 95, "ikat25": 64}[name]
    referenced = sum(bool(task.references) for task in tasks)
    assert referenced == (280 if name == "ikat23" else 0)
    file = source_of(name).files[0]
    assert (official / file.path).stat().st_size == file.n_bytes


def test_a_task_contains_its_conversation_and_the_facts() -> None:
    task = open_benchmark("ikat23", SAMPLE).tasks[1]
    assert (task.task_id, task.turn, len(task.messages)) == ("1-1<::>2", 2, 3)
    assert task.extra["official_id"] == "1-1_2"
    assert len(task.extra["facts"]) == 4
    assert task.references[0].passage_id == "clueweb22-en0100-01-00002:3"


def test_nist_s_judgements_replace_those_of_the_topics() -> None:
    relevant = {task.task_id: task.extra["relevant_facts"] for task in open_benchmark("ikat23", SAMPLE).tasks}
    assert relevant["1-1<::>1"] == [1, 3]
    assert relevant["3-1<::>2"] == [2, 3]  # unjudged: uses the topic's facts


def test_facts_are_identified_by_number_or_by_text() -> None:
    (first, second) = open_benchmark("ikat25", SAMPLE).tasks
    assert (first.extra["relevant_facts"], second.extra["relevant_facts"]) == ([2, 3], [])
    assert open_benchmark("ikat24", SAMPLE).tasks[0].task_id == "0<::>1"


def test_the_settings_are_those_that_the_track_publishes() -> None:
    first = open_benchmark("ikat23", SAMPLE)
    passages = first.read_contexts(Setting.REFERENCE).passages
    assert len(passages) == 6 < len(first.tasks) == 7
    assert all(passages.values())
    for name, setting in (("ikat23", Setting.FULL_RAG), ("ikat24", Setting.REFERENCE)):
        with pytest.raises(ConfigurationError, match="ClueWeb22-B"):
            open_benchmark(name, SAMPLE).read_contexts(setting)


def test_fact_selection_covers_every_turn_without_passages() -> None:
    facts = open_benchmark("ikat23_facts", SAMPLE)
    contexts = facts.read_contexts(Setting.REFERENCE).passages
    assert [task.target for task in facts.tasks][:3] == ["1, 3", "1", "none"]
    assert (facts.suite, len(contexts), set(contexts.values())) == ("ikat_facts", 7, {()})
    assert facts.count_tasks(Setting.REFERENCE, ["clueweb22"], conversational=False) == {"clueweb22": 7}


def first_topic(content: list[dict[str, Any]]) -> dict[str, Any]:
    return content[0]


@pytest.mark.parametrize(("edit", "message"), [
    (lambda topic: topic.pop("ptkb"), "found no `ptkb`"),
    (lambda topic: topic.update(ptkb={"1": "I row.", "3": "I sail."}), "`ptkb` as facts with the numbers from 1"),
    (lambda topic: topic["turns"][1].update(turn_id=5), "turns with the numbers from 1 as `turn_id`"),
    (lambda topic: topic["turns"][0].update(response=" "), r"`turns\[0\].response` as a text that is not blank"),
    (lambda topic: topic["turns"][0].update(ptkb_provenance=[9]), r"facts of `ptkb` in turn 1, not \[9\]"),
    (lambda topic: topic["turns"][0].update(response_provenance=["clueweb22-en0-0-0:1"]), "passages with a text"),
    (lambda topic: topic["turns"].pop(), "3 topics with 7 turns"),
])  # fmt: skip
def test_every_problem_of_the_topics_is_named(
    edit: Callable[[dict[str, Any]], object], message: str, tmp_path: Path
) -> None:
    shutil.copytree(SAMPLE, tmp_path, dirs_exist_ok=True)
    file = tmp_path / "2023/data/2023_test_topics.json"
    content = json.loads(file.read_text("utf-8"))
    edit(first_topic(content))
    file.write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(BenchmarkFileError, match=message):
        open_benchmark("ikat23", tmp_path)


@pytest.mark.parametrize(("file", "message"), [
    ("2023/evaluation/ptkb_rel_nist", "the number of a fact, and its grade"),
    ("2023/data/2023_test_topics_psg_text.jsonl", "expected"),
])  # fmt: skip
def test_every_problem_of_the_other_files_is_named(file: str, message: str, tmp_path: Path) -> None:
    shutil.copytree(SAMPLE, tmp_path, dirs_exist_ok=True)
    (tmp_path / file).write_text("one two\n", encoding="utf-8")
    with pytest.raises(BenchmarkFileError, match=message):
        open_benchmark("ikat23", tmp_path)
