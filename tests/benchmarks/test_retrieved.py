"""Retrieval results as Ragnarok reads them: a run, its passages, and the texts for judging citations."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ragtasks.benchmarks.trec_rag import N_PASSAGES, TRACK_2024, load_segments, read_retrieved
from ragtasks.errors import BenchmarkFileError, CacheError, ConfigurationError
from ragtasks.files import read_run
from ragtasks.records import Setting
from retrieval_cache import read_corpus
from tests._commands import run_command
from tests._messages import raises
from tests.conftest import REAL_DATA

REAL = REAL_DATA / "trec_rag" / "retrieve_results"


def segment(n: int, score: float) -> dict[str, Any]:
    doc = {"url": "u", "title": "t", "headings": "h", "segment": f"Text {n}.", "start_char": 0, "end_char": 7}
    return {"docid": f"msmarco_v2.1_doc_00_0#{n}_{n}", "score": score, "doc": doc}


def topic(topic_id: Any, *candidates: dict[str, Any]) -> dict[str, Any]:
    return {"query": {"qid": topic_id, "text": f"question {topic_id}"}, "candidates": list(candidates)}


def written(path: Path, *rows: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def folder(root: Path, file: Path) -> Path:
    """A benchmark folder whose researchy set has the topics of a file of retrieval results."""
    rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    (root / "topics").mkdir(parents=True)
    lines = "".join(f"{row['query']['qid']}\t{row['query']['text']}\n" for row in rows)
    (root / "topics/topics.rag24.researchy-dev.txt").write_text(lines, encoding="utf-8")
    counts = {"researchy": len(rows)}
    (root / "sample.json").write_text(json.dumps({"version": "1", "counts": counts}))
    return root


def test_retrieval_results_serve_as_run_corpus_and_segment_texts(tmp_path: Path) -> None:
    path = written(tmp_path / "r.jsonl", topic(1, segment(0, 2.0), segment(1, 1.5)), topic("2", segment(1, 9)))
    assert {key: [ranked.passage_id[-3:] for ranked in passages] for key, passages in read_run(path).items()} == {
        "1": ["0_0", "1_1"],
        "2": ["1_1"],
    }
    assert [passage.text for passage in read_corpus(str(path))] == ["Text 0.", "Text 1."]
    assert len(load_segments(tmp_path, {"msmarco_v2.1_doc_00_0#1_1"}, path)) == 1
    assert [len(passages) for passages in read_retrieved(path, {"1", "2"}).values()] == [2, 1]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"query": {}, "candidates": []}, "`query` with a `qid`"),
        (topic("2") | {"candidates": {}}, "a list `candidates`"),
        (topic("2", {"score": 1}), "candidates with a `docid`"),
        (topic("2", {**segment(0, 1), "score": "1"}), "a finite `score`"),
        (topic("2", {**segment(0, 1), "doc": 1}), "`doc` of"),
        (topic("2", segment(0, 1), segment(0, 1)), "each candidate of a topic once"),
    ],
)
def test_every_reader_names_an_invalid_line(tmp_path: Path, row: Any, message: str) -> None:
    path = written(tmp_path / "r.jsonl", topic("1", segment(0, 2.0)), row)
    with pytest.raises(CacheError, match="line 2") as as_run:
        read_run(path)
    with pytest.raises(BenchmarkFileError, match="line 2") as as_passages:
        read_retrieved(path, {"1", "2"})
    with pytest.raises(BenchmarkFileError, match="line 2") as as_corpus:
        list(read_corpus(str(path)))
    assert all(message in str(error.value) for error in (as_run, as_passages, as_corpus))


def test_retrieval_results_in_the_data_folder_are_the_passages_of_the_tasks(tmp_path: Path) -> None:
    path = written(tmp_path / "r.jsonl", topic("1", *(segment(n, -n) for n in range(25))), topic("2", segment(0, 1)))
    root = folder(tmp_path / "data", path)
    with pytest.raises(ConfigurationError, match=r"retrieve_results_\*"):
        TRACK_2024.load(root).read_contexts(Setting.FULL_RAG)
    own = written(root / "runs/retrieve_results_x.rag24.researchy-dev_top100.jsonl", topic("1", segment(0, 1)))
    with pytest.raises(BenchmarkFileError, match="a line for every topic"):
        TRACK_2024.load(root).read_contexts(Setting.FULL_RAG)
    own.write_bytes(path.read_bytes())
    shown = TRACK_2024.load(root).read_contexts(Setting.FULL_RAG).passages
    assert {key: len(passages) for key, passages in shown.items()} == {"1": N_PASSAGES, "2": 1}
    (root / "runs/run.rag24.researchy-dev.txt").write_text("1 Q0 a 1 1 t\n")
    with raises(ConfigurationError):
        TRACK_2024.load(root).read_contexts(Setting.FULL_RAG)


@pytest.mark.parametrize("name", ["bm25.researchy_small.jsonl", "rzrho.researchy_tiny.jsonl"])
def test_real_retrieval_results_become_a_stored_run_with_their_texts(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not REAL.is_dir():
        pytest.skip(f"no real retrieval results at {REAL}")
    monkeypatch.setenv("RAGTASKS_RUNS", str(tmp_path / "store"))
    root = folder(tmp_path / "data", REAL / name)
    rows = [json.loads(line) for line in (REAL / name).read_text(encoding="utf-8").splitlines()]
    options = ["--benchmark", "trec_rag24", "--data", str(root), "--corpus", f"researchy={REAL / name}"]
    done = run_command("retrieve", "--retriever", f"run:{REAL / name}", "--name", "mine", *options)
    assert done.status == 0
    (file,) = (tmp_path / "store").glob("runs/mine/contexts/full_rag.jsonl")
    stored = file.read_text(encoding="utf-8")
    first = rows[0]["candidates"][0]["doc"]
    assert json.dumps(first["segment"], ensure_ascii=False)[1:40] in stored
    assert sum(map(len, read_run(REAL / name).values())) == 100 * len(rows)
    for row in rows:
        ids = [ranked.passage_id for ranked in read_run(REAL / name)[row["query"]["qid"]]]
        assert ids == [candidate["docid"] for candidate in row["candidates"]]
