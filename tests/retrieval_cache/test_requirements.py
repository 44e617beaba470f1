"""Requirements of a run: corpora, and disk space for indexes and vectors, estimated from the files."""

from __future__ import annotations

import re
import shutil
import zipfile
from collections import namedtuple
from collections.abc import Sequence
from pathlib import Path

import pytest

from ragtasks.files import written_lines
from ragtasks.requirements import checked
from retrieval_cache import Rewriter, Workspace, retrieval_requirements

PASSAGE_BYTES = 1_000


@pytest.fixture(autouse=True)
def _full_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    usage = namedtuple("usage", "free")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(-1.0))


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """Return a compressed corpus of 20 MB: twenty thousand passages of 1 kB."""
    file = tmp_path / "corpus.jsonl.zip"
    lines = written_lines([{"_id": f"p{n}", "text": "word " * 200} for n in range(20_000)])
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("corpus.jsonl", lines)
    return file


def problems(folder: Path, line: str, forms: Sequence[str] = ("last_turn",), **corpora: str) -> list[str]:
    workspace = Workspace("mtrag", "sample", folder / "data", folder / "store")
    checks = checked(retrieval_requirements(workspace, line, forms, rewriter=Rewriter(None), corpora=corpora))
    return [result.problem for result in checks if result.problem]


def megabytes(folder: Path, line: str, corpus: Path) -> float:
    (problem,) = problems(folder, line, clapnq=str(corpus))
    match = re.search(r"runs will take about ([\d.]+) GB", problem)
    assert match is not None, problem
    return 1000 * float(match[1])


def test_disk_space_is_estimated_from_passages_and_the_width_of_vectors(tmp_path: Path, corpus: Path) -> None:
    text = 20_000 * PASSAGE_BYTES / 1e6
    vectors = 20_000 * 384 * 2 / 1e6
    assert megabytes(tmp_path, "bm25", corpus) == pytest.approx(text, abs=10)
    assert megabytes(tmp_path, "dense:minilm", corpus) == pytest.approx(vectors, abs=10)
    assert megabytes(tmp_path, "hybrid(bm25,dense:minilm)", corpus) == pytest.approx(text + vectors, abs=10)
    served = "dense:m,base_url=http://127.0.0.1:9/v1,dimensions=1536"
    workspace = Workspace("mtrag", "sample", tmp_path / "data", tmp_path / "store")
    wanted = retrieval_requirements(
        workspace, served, ["last_turn"], rewriter=Rewriter(None), corpora={"clapnq": str(corpus)}
    )
    (disk,) = [check.problem for check in checked(wanted, with_requests=False) if check.requirement.category == "disk"]
    assert "about 0.2" in disk


def test_shards_need_no_disk_space_if_a_run_names_their_passages(tmp_path: Path) -> None:
    shards, trec = tmp_path / "shards", tmp_path / "all.trec"
    shards.mkdir()
    rows = [{"docid": f"p{n}", "segment": "word " * 200} for n in range(20_000)]
    (shards / "segmented_00.jsonl").write_bytes(written_lines(rows))
    trec.write_text("clapnq<::>1 Q0 p1 1 1.0 run\n")
    text = 20_000 * PASSAGE_BYTES / 1e6
    assert megabytes(tmp_path, f"rerank(run:{trec},cross-encoder:minilm)", shards) == 0
    assert megabytes(tmp_path, f"hybrid(bm25,run:{trec})", shards) == pytest.approx(text, abs=10)


def test_existing_indexes_need_no_further_disk_space(tmp_path: Path, corpus: Path) -> None:
    stored = tmp_path / "store" / "indexes" / "key"
    stored.mkdir(parents=True)
    (stored / "index").write_bytes(b"0" * 15_000_000)
    assert megabytes(tmp_path, "bm25", corpus) == pytest.approx(10, abs=10)


def test_problems_with_several_corpora_are_one_error(tmp_path: Path) -> None:
    lines = problems(tmp_path, "bm25", clapnq=str(tmp_path / "none.jsonl"), other="hf:x")
    assert any("mtrag has no domain 'other'" in line and "none.jsonl" in line for line in lines)
