"""TREC RAG 2024: the sample in the track's formats, and errors of invalid files."""

from __future__ import annotations

import importlib
import json
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from ragtasks.benchmarks import Benchmark, benchmark_folder, retrieval_side
from ragtasks.benchmarks.trec_rag import (
    N_PASSAGES,
    SEGMENT_ID,
    SHARDS,
    load_segments,
    read_qrels,
    read_ranking,
    read_segments,
    read_topics,
)
from ragtasks.benchmarks.trec_rag import TRACK_2024 as TRACK
from ragtasks.errors import BenchmarkFileError, ConfigurationError
from ragtasks.records import Answerability, Setting
from tests._messages import raises
from tests.conftest import REAL_DATA

SAMPLE = benchmark_folder("trec_rag24", "sample", Path())
SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"
RUN = "runs/run.rag24.test.txt"
A, B, C = (f"msmarco_v2.1_doc_00_0#{n}_{n}" for n in range(3))


@pytest.fixture(scope="module")
def sample() -> Benchmark:
    return TRACK.load(SAMPLE)


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(SCRIPTS))
    return importlib.import_module("build_sample_trec")


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    return Path(shutil.copytree(SAMPLE, tmp_path / "copy"))


def written(folder: Path, text: str) -> Path:
    path = folder / "file.txt"
    path.write_bytes(text.encode())
    return path


def test_the_sample_is_large_and_varied_enough(sample: Benchmark) -> None:
    assert (len(sample.tasks), sample.is_sample, sample.suite) == (10, True, "trec_rag24")
    assert Counter(task.domain for task in sample.tasks) == {"test": 6, "raggy": 2, "researchy": 2}
    assert len(load_segments(SAMPLE)) == 50
    assert {task.answerability for task in sample.tasks} == {Answerability.ANSWERABLE}
    assert {qrel.relevance for qrel in TRACK.load_qrels(SAMPLE, "test")} == {0, 1, 2, 3}
    bare = [task.domain for task in sample.tasks if not task.extra["nuggets"]]
    assert bare == ["researchy", "researchy"]


def test_a_task_is_a_topic(sample: Benchmark) -> None:
    task = sample.tasks[0]
    assert (task.task_id, task.conversation_id, task.turn) == ("2024-10007", "2024-10007", 1)
    assert task.question == "how does the orsa valley keep its drinking water clean"
    assert task.extra["nuggets"][0] == {"text": "Springs have protected zones of 300 metres", "importance": "vital"}
    assert task.target.startswith("Springs have protected zones of 300 metres. Water")
    assert sample.tasks[-1].target == ""


def test_every_topic_gets_its_first_twenty_segments(sample: Benchmark) -> None:
    contexts = sample.read_contexts(Setting.FULL_RAG)
    assert sample.n_passages == N_PASSAGES
    assert list(contexts.passages) == [task.task_id for task in sample.tasks]
    assert {len(passages) for passages in contexts.passages.values()} == {20}
    lines = [line.split() for line in (SAMPLE / RUN).read_text().splitlines()]
    first = [line[2] for line in lines if line[0] == "2024-10007"][:20]
    assert [passage.passage_id for passage in contexts.passages["2024-10007"]] == first
    assert all(passage.title and passage.url for passage in contexts.passages["2024-10007"])


def test_segments_match_their_offsets(script: ModuleType) -> None:
    topics = script.read_source("trec_rag24")
    bodies = {row["docid"]: row["body"] for row in script.documents_of(topics)}
    for line in (SAMPLE / "segments/segments.jsonl").read_text().splitlines():
        row = json.loads(line)
        assert SEGMENT_ID.fullmatch(row["docid"])
        assert bodies[row["docid"].partition("#")[0]][row["start_char"] : row["end_char"]] == row["segment"]


def test_every_nugget_of_a_judged_topic_occurs_in_a_relevant_segment(script: ModuleType) -> None:
    good = {(qrel.query_id, qrel.passage_id) for qrel in TRACK.load_qrels(SAMPLE, "test") if qrel.relevance >= 2}
    segments = load_segments(SAMPLE)
    for topic in script.read_source("trec_rag24"):
        for nugget in topic["nuggets"] if topic["set"] == "test" else []:
            sentence = topic["sentences"][nugget["sentence"]]
            assert any(sentence in segments[segment_id].text for query, segment_id in good if query == topic["topic"])


def test_the_derived_file_is_reproducible(copy: Path) -> None:
    made = copy / "derived/segments.jsonl"
    before = made.read_bytes()
    made.unlink()
    for domain in tuple(TRACK.sets):
        assert TRACK.corpus_file(copy, domain) == made
    assert made.read_bytes() == before
    assert json.loads(before.splitlines()[0]).keys() == {"_id", "title", "text", "url"}


def test_the_official_corpus_is_a_folder_of_shards(copy: Path) -> None:
    (copy / "sample.json").unlink()
    with pytest.raises(BenchmarkFileError, match="70 files"):
        TRACK.corpus_file(copy, "test")
    (copy / SHARDS).mkdir()
    assert TRACK.corpus_file(copy, "raggy") == copy / SHARDS


def test_the_retrieval_side_is_registered() -> None:
    side = retrieval_side("trec_rag24")
    assert side.domains == tuple(TRACK.sets)
    assert side.load_qrels(SAMPLE, "raggy") == ()
    assert {qrel.query_id for qrel in side.load_qrels(SAMPLE, "test")} <= set(read_topics(topics_file()))


def topics_file() -> Path:
    return SAMPLE / "topics/topics.rag24.test.txt"


def test_the_official_files_have_the_published_counts() -> None:
    root = REAL_DATA / TRACK.source.folder
    if not (root / TRACK.source.marker).is_dir():
        pytest.skip(f"no real TREC RAG data at {root}")
    counts = Counter(task.domain for task in TRACK.load(root).tasks)
    assert counts == {domain: TRACK.counts[domain] for domain in counts}
    grades = Counter(qrel.relevance for qrel in TRACK.load_qrels(root, "test"))
    assert grades in ({}, {0: 7712, 1: 6305, 2: 4663, 3: 1749})


def test_a_benchmark_without_sample_statistics_must_have_the_official_counts(copy: Path) -> None:
    (copy / "sample.json").unlink()
    with pytest.raises(BenchmarkFileError, match="301 topics, found 6"):
        TRACK.load(copy)


def test_missing_sets_are_omitted(copy: Path) -> None:
    (copy / "topics/topics.rag24.raggy-dev.txt").unlink()
    assert {task.domain for task in TRACK.load(copy).tasks} == {"test", "researchy"}
    for path in (copy / "topics").iterdir():
        path.unlink()
    with raises(BenchmarkFileError):
        TRACK.load(copy)


def test_only_full_rag_exists_and_requires_a_run(copy: Path) -> None:
    benchmark = TRACK.load(copy)
    with pytest.raises(ConfigurationError, match="setting full_rag"):
        benchmark.read_contexts(Setting.REFERENCE)
    for path in (copy / "runs").iterdir():
        path.unlink()
    with raises(ConfigurationError):
        benchmark.read_contexts(Setting.FULL_RAG)


def changed(path: Path, change: Callable[[list[str]], list[str]]) -> None:
    path.write_text("".join(change(path.read_text().splitlines(keepends=True))))


@pytest.mark.parametrize(
    ("file", "change", "message"),
    [
        ("nuggets/nuggets.rag24.test.jsonl", lambda rows: [rows[0].replace("2024-10007", "9")], "9): expected topics"),
        ("topics/topics.rag24.raggy-dev.txt", lambda rows: [rows[0], rows[0].replace("900101", "900201")], "researchy"),
        (RUN, lambda rows: [row for row in rows if "10031" not in row], "2024-10031): expected a line for every topic"),
        (RUN, lambda rows: [rows[0].replace("#2_1236", "#2_1237"), *rows[1:]], "msmarco_v2.1_doc_00_0#2_1237"),
        ("segments/segments.jsonl", lambda rows: rows[:5], "which is cited or retrieved"),
    ],
)
def test_inconsistent_files_are_named(
    copy: Path, file: str, change: Callable[[list[str]], list[str]], message: str
) -> None:
    changed(copy / file, change)
    with pytest.raises(BenchmarkFileError) as error:
        TRACK.load(copy).read_contexts(Setting.FULL_RAG)
    assert message in str(error.value)


@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_topics_are_read_with_either_line_end_and_a_byte_order_mark(tmp_path: Path, mark: str) -> None:
    assert read_topics(written(tmp_path, mark + "2024-1\tone two\r\n\r\n7\tthree\tfour\n")) == {
        "2024-1": "one two",
        "7": "three\tfour",
    }


@pytest.mark.parametrize("line", ["2 no tab", "\ttext", "2\t ", "1\tagain"])
def test_a_broken_topic_is_named(tmp_path: Path, line: str) -> None:
    with pytest.raises(BenchmarkFileError, match="line 2"):
        read_topics(written(tmp_path, f"1\tone\n{line}\n"))


def run_lines(*cells: str) -> str:
    return "".join(f"{cell}\n" for cell in cells)


def test_a_run_is_read_from_rank_0_or_1_topics_in_any_order(tmp_path: Path) -> None:
    text = run_lines(f"1 Q0 {A} 1 2.5 t", f"2\tQ0\t{B}\t0\t1e1\tt", f"1 Q0 {C} 2 2.5 t", f"2 Q0 {A} 1 -3 t")
    assert read_ranking(written(tmp_path, text), {"1", "2", "3"}) == {"1": (A, C), "2": (B, A)}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (f"1 Q0 {B} 2 1.0", "expected 6 cells"),
        (f"1 Q0 {B} two 1.0 t", "expected a rank"),
        (f"1 Q0 {B} 2 nan t", "expected a finite score"),
        (f"1 Q0 {B} 2 inf t", "expected a finite score"),
        (f"1 Q0 {A} 2 1.0 t", "each segment once"),
        (f"1 Q0 {B} 3 1.0 t", "expected rank 2, found 3"),
        (f"1 Q0 {B} 1 1.0 t", "expected rank 2, found 1"),
        (f"1 Q0 {B} 2 9.5 t", "at most 2.0"),
        (f"2 Q0 {B} 2 1.0 t", "expected rank 1, found 2"),
        (f"9 Q0 {B} 1 1.0 t", "a known topic"),
    ],
)
def test_a_broken_line_of_a_run_is_named(tmp_path: Path, line: str, message: str) -> None:
    with pytest.raises(BenchmarkFileError) as error:
        read_ranking(written(tmp_path, run_lines(f"1 Q0 {A} 1 2.0 t", line)), {"1", "2"})
    assert "line 2" in str(error.value)
    assert message in str(error.value)


def test_qrels_ignore_the_second_column(tmp_path: Path) -> None:
    qrels = read_qrels(written(tmp_path, f"1 3 {A} 0\n1 Q0 {B} 4\n"), {"1"})
    assert [(qrel.passage_id, qrel.relevance) for qrel in qrels] == [(A, 0), (B, 4)]
    for line in (f"1 0 {A}", f"1 0 {A} high", f"2 0 {A} 1", f"1 0 {B} 1\n1 0 {B} 1"):
        with pytest.raises(BenchmarkFileError, match="line"):
            read_qrels(written(tmp_path, f"{line}\n"), {"1"})


SEGMENT = {"docid": A, "url": "", "title": "", "headings": "", "segment": "text", "start_char": 0, "end_char": 4}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"docid": "msmarco_v2.1_doc_00_0"}, "`docid`"),
        ({"docid": A}, "each segment once"),
        ({"segment": None}, "`segment` as a text"),
        ({"title": 3}, "`title` as a text"),
        ({"start_char": "0"}, "`start_char` as a whole number"),
    ],
)
def test_a_broken_segment_is_named(tmp_path: Path, change: dict[str, object], message: str) -> None:
    text = json.dumps(SEGMENT) + "\n" + json.dumps({**SEGMENT, "docid": B, **change}) + "\n"
    with pytest.raises(BenchmarkFileError) as error:
        read_segments(written(tmp_path, text))
    assert "line 2" in str(error.value)
    assert message in str(error.value)


def test_all_missing_segments_are_named(tmp_path: Path) -> None:
    path = written(tmp_path, json.dumps(SEGMENT) + "\n")
    assert list(read_segments(path, {A})) == [A]
    with pytest.raises(BenchmarkFileError) as error:
        read_segments(path, {A, B, C})
    assert [segment_id in str(error.value) for segment_id in (B, C)] == [True, True]
