"""Document ids from the corpora."""

from __future__ import annotations

import dataclasses
import zipfile
from pathlib import Path

import pytest

from ragtasks.benchmarks import Benchmark
from ragtasks.errors import BenchmarkFileError
from ragtasks.submissions.mtrageval._inputs import document_ids_by_domain
from tests._messages import raises
from tests.benchmarks.mtrag._official import official_passages
from tests.files._limits import shorten_lines
from tests.submissions.mtrageval._files import sample


def test_the_documents_are_those_of_the_corpora_that_both_benchmarks_share() -> None:
    mtrag = sample()
    expected = {
        domain: frozenset(passage.passage_id for passage in official_passages(mtrag.root, domain))
        for domain in ("clapnq", "fiqa", "govt", "cloud")
    }
    assert document_ids_by_domain(mtrag) == expected
    assert document_ids_by_domain(sample("mtrag_un")) == expected


def zipped_corpora(root: Path, content: bytes) -> Benchmark:
    """Return a benchmark in which every corpus is a zipped file."""
    folder = root / "corpora/passage_level"
    folder.mkdir(parents=True)
    for domain in ("clapnq", "fiqa", "govt", "cloud"):
        with zipfile.ZipFile(folder / f"{domain}.jsonl.zip", "w") as archive:
            archive.writestr(f"{domain}.jsonl", content)
    return dataclasses.replace(sample(), root=root)


@pytest.mark.parametrize("content", [b"no zip", b'{"_id": "a"}\n{"id": "b"}\n', b"[1]\n"])
def test_a_broken_corpus_is_named(content: bytes, tmp_path: Path) -> None:
    benchmark = zipped_corpora(tmp_path, content)
    if content == b"no zip":
        (tmp_path / "corpora/passage_level/clapnq.jsonl.zip").write_bytes(content)
    with raises(BenchmarkFileError):
        document_ids_by_domain(benchmark)


def test_a_line_without_an_end_is_not_read_into_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shorten_lines(monkeypatch)
    with raises(BenchmarkFileError):
        document_ids_by_domain(zipped_corpora(tmp_path, b'{"_id": "' + b"a" * 300 + b'"}'))
