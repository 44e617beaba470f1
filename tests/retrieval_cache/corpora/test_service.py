"""The commands on corpora, and a run over a custom corpus."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ragtasks.benchmarks import Benchmark
from ragtasks.errors import BenchmarkFileError, ConfigurationError
from retrieval_cache.corpora.passages import describe_corpus, describe_duplicates, segment_corpus
from retrieval_cache.service import Workspace, retrieve
from retrieval_cache.stage import read_run
from retrieval_cache.store import RunStore
from tests._messages import raises
from tests.benchmarks.mtrag._official import official_passages


def test_corpus_of_the_sample_is_described(sample: Benchmark) -> None:
    (counts, checksum) = describe_corpus(str(sample.root / "corpora/passage_level/clapnq.jsonl.zip"))
    assert counts.startswith("54 passages")
    assert len(checksum.split()[-1]) == 64


def test_near_duplicate_passages_are_listed(tmp_path: Path) -> None:
    text = "the ferry leaves the harbour of Pellin at nine every morning and comes back at noon"
    rows = [
        {"_id": "a", "text": text},
        {"_id": "b", "text": text + " daily"},
        {"_id": "c", "text": "something else here"},
    ]
    path = tmp_path / "corpus.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    *counts, head, group = describe_duplicates(str(path), 0.7)
    assert counts == ["groups at a Jaccard similarity of 0.7: 1", "near-duplicates of another passage: 1 of 3"]
    assert head == "one group per line, with the similarity to its first passage:"
    assert group.startswith("a (1.00), b (0.")


def test_passages_without_words_and_hidden_groups_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "corpus.jsonl"
    texts = [f"the ferry to place{number} leaves the harbour at nine" for number in range(21)] * 2
    rows = [{"_id": f"p{index}", "text": text} for index, text in enumerate([*texts, "?!"])]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    lines = describe_duplicates(str(path), 1.0)
    assert lines[:4] == [
        "groups at a Jaccard similarity of 1.0: 21",
        "near-duplicates of another passage: 21 of 43",
        "passages without words, not compared: 1",
        "groups not shown: 1",
    ]
    assert lines[5:] == [f"p{index} (1.00), p{index + 21} (1.00)" for index in range(20)]


def test_a_corpus_without_any_text_is_refused(tmp_path: Path) -> None:
    path, target = tmp_path / "corpus.jsonl", tmp_path / "passages.jsonl"
    path.write_text('{"_id": "a", "text": " "}\n{"_id": "b", "text": ""}\n')
    for call in (
        lambda: describe_corpus(str(path)),
        lambda: describe_duplicates(str(path), 0.8),
        lambda: segment_corpus(str(path), target, 40, 10, None),
    ):
        with raises(BenchmarkFileError):
            call()
    assert not target.exists()


def test_documents_are_cut_into_passages_that_can_be_read_back(tmp_path: Path) -> None:
    document = {"_id": "page", "title": "Page", "text": " ".join(f"word{number}" for number in range(100))}
    source, target = tmp_path / "documents.jsonl", tmp_path / "passages.jsonl"
    source.write_text(json.dumps(document) + "\n")
    assert segment_corpus(str(source), target, 40, 10, None) == 3
    rows = [json.loads(line) for line in target.read_text().splitlines()]
    assert rows[0]["_id"].startswith("page-0-")
    assert describe_corpus(str(target))[0].startswith("3 passages")
    assert [path.name for path in tmp_path.iterdir() if path.suffix == ".part"] == []


def test_run_over_another_corpus_is_another_run(sample: Benchmark, tmp_path: Path) -> None:
    workspace = Workspace("mtrag", "sample", tmp_path / "data", tmp_path / "store")
    kept = list(official_passages(sample.root, "fiqa"))[:10]
    corpus = tmp_path / "fiqa.jsonl"
    corpus.write_text("".join(json.dumps({"_id": ranked.passage_id, "text": ranked.text}) + "\n" for ranked in kept))
    own = retrieve(workspace, "bm25", "rewrite", depth=20)
    run = retrieve(workspace, "bm25", "rewrite", depth=20, corpora={"fiqa": str(corpus)}, name="small")
    assert run.manifest.key != own.manifest.key
    rankings = read_run(RunStore(workspace.store).named("small"))
    domain_of = {task.task_id: task.domain for task in sample.tasks}
    ids = {ranked.passage_id for query, ranking in rankings.items() if domain_of[query] == "fiqa" for ranked in ranking}
    assert ids <= {ranked.passage_id for ranked in kept}
    with pytest.raises(ConfigurationError, match="fiqa"):
        retrieve(workspace, "bm25", "rewrite", depth=20, corpora={"fika": str(corpus)})
