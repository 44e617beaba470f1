"""The table of MTRAG's files, compared with the real files."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import pytest

from ragtasks.benchmarks import source_of
from ragtasks.benchmarks.download import FileStatus, verify

MTRAG_SOURCE = source_of("mtrag")
SCRIPTS = MTRAG_SOURCE.in_groups(["judge_prompts", "generation_prompts"])
PINNED = [file for file in MTRAG_SOURCE.files if file.sha256 is not None and file not in SCRIPTS]
UNSEEN = [file for file in MTRAG_SOURCE.files if file.sha256 is None]


def test_the_table_contains_each_official_file_once() -> None:
    counts = {name: len(MTRAG_SOURCE.in_groups([name])) for name in MTRAG_SOURCE.groups}
    assert counts == {
        "tasks": 20,
        "evaluations": 1,
        "corpora": 4,
        "judge_prompts": 2,
        "generation_prompts": 1,
        "mtrag_un": 5,
    }
    assert len({file.path for file in MTRAG_SOURCE.files}) == len(MTRAG_SOURCE.files)


def test_only_the_large_files_are_pinned_by_blob_id() -> None:
    assert [file.path for file in UNSEEN] == [
        "mtrag-human/generation_tasks/RAG.jsonl",
        "mtrag-human/generation_tasks/reference+RAG.jsonl",
        *(f"corpora/passage_level/{domain}.jsonl.zip" for domain in ("clapnq", "cloud", "fiqa", "govt")),
    ]
    assert all(file.n_bytes is None and re.fullmatch("[0-9a-f]{40}", file.git_blob or "") for file in UNSEEN)


def test_the_address_is_that_of_the_pinned_commit() -> None:
    assert MTRAG_SOURCE.base_url == (
        "https://raw.githubusercontent.com/IBM/mt-rag-benchmark/cc5b1d481b391181b89f7ced860308482e785463/"
    )
    assert MTRAG_SOURCE.commit in MTRAG_SOURCE.base_url


@pytest.mark.parametrize("file", PINNED, ids=lambda file: file.path)
def test_real_files_have_the_pinned_bytes(file, mtrag_root: Path) -> None:
    content = (mtrag_root / file.path).read_bytes()
    assert len(content) == file.n_bytes
    assert hashlib.sha256(content).hexdigest() == file.sha256


@pytest.mark.parametrize("file", SCRIPTS, ids=lambda file: file.path)
def test_real_scripts_have_the_pinned_bytes(file, mtrag_checkout: Path) -> None:
    content = (mtrag_checkout / file.path).read_bytes()
    assert (len(content), hashlib.sha256(content).hexdigest()) == (file.n_bytes, file.sha256)


@pytest.mark.parametrize("as_checkout", [True, False])
def test_verify_distinguishes_official_files_from_rebuilt_files(
    mtrag_root: Path, tmp_path: Path, as_checkout: bool
) -> None:
    root = tmp_path / MTRAG_SOURCE.folder
    root.mkdir()
    for folder in ("corpora", "mtrag-human", "mtragun-human"):
        # Linked, so that a record of checksums next to the real files has no effect.
        (root / folder).symlink_to(mtrag_root / folder)
    states = verify(MTRAG_SOURCE, root if as_checkout else tmp_path)
    assert [state.file for state in states if state.status is FileStatus.OK] == PINNED
    assert [state.file for state in states if state.status is FileStatus.WRONG] == UNSEEN
