"""A single reader with a limit handles all lines from others, so no line without an end fills the memory."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from ragtasks.benchmarks.custom import read_folder
from ragtasks.errors import RagtasksError
from ragtasks.files import Manifest, Problems, json_lines, read_contexts, read_run, write_manifest
from ragtasks.records import Setting
from ragtasks.submissions import SubmissionTask
from ragtasks.submissions.mtrageval import check
from ragtasks.submissions.trec_rag import check_answers
from retrieval_cache import read_corpus
from tests.files._limits import shorten_lines
from tests.files.test_runs import SPEC

LINE = '{"_id": "' + "a" * 300 + '"}'
READERS = {
    "json lines": lambda folder: list(json_lines(Problems(folder / "x.jsonl", "rows", "none"))),
    "corpus": lambda folder: list(read_corpus(str(folder / "x.jsonl"))),
    "zipped corpus": lambda folder: list(read_corpus(str(folder / "corpora/passage_level/govt.jsonl.zip"))),
    "submission": lambda folder: check(folder / "x.jsonl", SubmissionTask.A, None, None, documents=False),
    "TREC answers": lambda folder: check_answers(folder / "x.jsonl", {}),
    "own benchmark": lambda folder: [str(problem) for problem in read_folder(folder)[1]],
    "run file": lambda folder: read_run(folder / "x.jsonl"),
    "stored run": lambda folder: read_contexts(folder, Setting.FULL_RAG),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder in which every file is a long line without an end."""
    for name in ("x.jsonl", "passages.jsonl", "conversations.jsonl", "contexts/full_rag.jsonl"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(LINE)
    corpus = tmp_path / "corpora" / "passage_level" / "govt.jsonl.zip"
    corpus.parent.mkdir(parents=True)
    with zipfile.ZipFile(corpus, "w") as archive:
        archive.writestr("govt.jsonl", LINE)
    write_manifest(tmp_path, Manifest("r", SPEC))
    return tmp_path


@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
def test_a_line_without_an_end_is_reported_and_not_read(
    read: Callable[[Path], object], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shorten_lines(monkeypatch)
    try:
        text = str(read(folder))
    except RagtasksError as error:
        text = str(error)
    assert "more than 200 bytes without a line end" in text
