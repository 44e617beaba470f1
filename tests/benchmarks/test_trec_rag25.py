"""TREC RAG 2025: narratives as tasks, nuggets with their part of the narrative, and the real files."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path

import pytest

from ragtasks.benchmarks import Benchmark, benchmark_folder, retrieval_side
from ragtasks.benchmarks.trec_rag import NARRATIVES, TRACK_2025, read_nuggets
from ragtasks.errors import BenchmarkFileError
from ragtasks.records import Setting
from tests.conftest import REAL_DATA

SAMPLE = benchmark_folder("trec_rag25", "sample", Path())
REAL = REAL_DATA / "trec_rag"


@pytest.fixture(scope="module")
def sample() -> Benchmark:
    return TRACK_2025.load(SAMPLE)


def test_a_task_is_a_narrative_with_its_nuggets_and_their_parts(sample: Benchmark) -> None:
    assert (sample.suite, sample.is_sample, len(sample.tasks)) == ("trec_rag25", True, 4)
    task = sample.tasks[0]
    assert (task.task_id, task.domain) == ("301", NARRATIVES)
    assert task.question.startswith("I want to know what towns win")
    parts = Counter(nugget["sub_narrative"] for nugget in task.extra["nuggets"])
    assert parts == {
        "What did free buses change in small towns?": 3,
        "What do free buses cost?": 2,
        "Did battery ferries pay off?": 2,
        "New: Noise and smoke at the quay": 1,
    }
    assert sample.tasks[-1].extra["nuggets"] == []


def test_every_narrative_gets_its_first_twenty_segments(sample: Benchmark) -> None:
    passages = sample.read_contexts(Setting.FULL_RAG).passages
    assert {len(shown) for shown in passages.values()} == {20}
    judged = {qrel.query_id for qrel in retrieval_side("trec_rag25").load_qrels(SAMPLE, NARRATIVES)}
    assert judged == {"301", "302", "303"}


@pytest.mark.parametrize(
    ("label", "part"),
    [
        ('"Key  advantages"', "Key advantages"),
        ('New: "What causes it?"', "New: What causes it?"),
        ("New: Security  risks", "New: Security risks"),
        ("What is New: here", "What is New: here"),
        ("", ""),
    ],
)
def test_parts_are_named_without_quotes(label: str, part: str, tmp_path: Path) -> None:
    file = tmp_path / "nuggets.jsonl"
    nugget = {"text": "Rain falls", "importance": "vital", "mapped_sub_narrative": label}
    file.write_text(json.dumps({"qid": "1", "nuggets": [nugget]}))
    assert read_nuggets(file)["1"].nuggets[0].sub_narrative == part


def test_the_real_files_are_a_benchmark(tmp_path: Path) -> None:
    if not REAL.is_dir():
        pytest.skip(f"no real TREC RAG data at {REAL}")
    for folder, file, name in (
        ("topics", "topics/topics.rag25.test.jsonl", "topics.rag25.test.jsonl"),
        ("qrels", "qrels/qrels.rag25.test.txt", "qrels.rag25.test.txt"),
        ("nuggets", "rag25-dev-nuggets.jsonl", "nuggets.rag25.test.jsonl"),
    ):
        (tmp_path / folder).mkdir()
        shutil.copy(REAL / file, tmp_path / folder / name)
    benchmark = TRACK_2025.load(tmp_path)
    assert (len(benchmark.tasks), benchmark.is_sample) == (105, False)
    nuggets = [nugget for task in benchmark.tasks for nugget in task.extra["nuggets"]]
    assert Counter(nugget["importance"] for nugget in nuggets) == {"vital": 925, "okay": 330}
    assert all(nugget["sub_narrative"] and '"' not in nugget["sub_narrative"] for nugget in nuggets)
    assert len(TRACK_2025.load_qrels(tmp_path, NARRATIVES)) == 10284
    (tmp_path / "topics/topics.rag25.test.jsonl").write_text(json.dumps({"id": "1", "title": "I ask."}))
    with pytest.raises(BenchmarkFileError, match="105 topics, found 1"):
        TRACK_2025.load(tmp_path)
