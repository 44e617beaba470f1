"""The documents that there are, from the corpora."""

from __future__ import annotations

import dataclasses
import zipfile
from pathlib import Path

import pytest

from ragtasks.errors import BenchmarkFileError
from ragtasks.submissions.mtrageval._inputs import document_ids_by_domain
from tests.benchmarks.mtrag._official import official_passages
from tests.submissions.mtrageval._files import sample


def test_the_documents_are_those_of_the_corpora_that_both_benchmarks_share() -> None:
    mtrag = sample()
    expected = {
        domain: frozenset(passage.passage_id for passage in official_passages(mtrag.root, domain))
        for domain in ("clapnq", "fiqa", "govt", "cloud")
    }
    assert document_ids_by_domain(mtrag) == expected
    assert document_ids_by_domain(sample("mtrag_un")) == expected


@pytest.mark.parametrize("content", [b"no zip", b'{"_id": "a"}\n{"id": "b"}\n', b"[1]\n"])
def test_a_broken_corpus_is_named(content: bytes, tmp_path: Path) -> None:
    benchmark = dataclasses.replace(sample(), root=tmp_path)
    folder = tmp_path / "corpora/passage_level"
    folder.mkdir(parents=True)
    for domain in ("clapnq", "fiqa", "govt", "cloud"):
        path = folder / f"{domain}.jsonl.zip"
        if content == b"no zip":
            path.write_bytes(content)
        else:
            with zipfile.ZipFile(path, "w") as archive:
                archive.writestr(f"{domain}.jsonl", content)
    with pytest.raises(BenchmarkFileError, match=r"clapnq\.jsonl\.zip, line \d(.|\n)*--no-documents"):
        document_ids_by_domain(benchmark)
