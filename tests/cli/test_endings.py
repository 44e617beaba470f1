"""Exit of commands on failure: one error of limited length, and unchanged files."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from ragtasks.errors import RagtasksError
from retrieval_cache import RunStore
from tests._commands import run_command

SAMPLE = Path(__file__).resolve().parents[2] / "ragtasks" / "benchmarks" / "sample" / "custom"


def said(*arguments: str) -> str:
    done = run_command(*arguments)
    assert done.status == 1
    return done.err


def test_a_long_error_is_cut_with_a_count(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def fail(self: RunStore) -> None:
        raise RagtasksError("x" * 10_000 + "\n  next step: this")

    monkeypatch.setenv("RAGTASKS_RUNS", str(tmp_path))
    monkeypatch.setattr(RunStore, "all", fail)
    text = said("results", "list")
    assert len(text) < 6_100
    assert "\n[... 4,018 characters ...]\n" in text
    assert text.endswith("next step: this\n")


@pytest.mark.parametrize("printing", ["echo", "print"])
@pytest.mark.parametrize("more", [{"PYTHONIOENCODING": "cp1252"}, {"LC_ALL": "C", "PYTHONUTF8": "0"}])
def test_characters_outside_the_output_encoding_are_replaced(more: dict[str, str], printing: str) -> None:
    program = (
        "from ragtasks.cli.app import app, echo, main\n"
        f"app.command('x')(lambda: [{printing}(text) for text in ('\\u2191', '\\ud800', 'end')])\n"
        "main(['x'])"
    )
    environment = {**os.environ, "PYTHONCOERCECLOCALE": "0", **more}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.split()[1:] == [b"?", b"end"]


@pytest.mark.parametrize("value", [7, 1.5, True, [1, 2], [None], [["openai/x"]], {"model": 3}])
def test_judges_of_another_type_are_refused(value: object, tmp_path: Path) -> None:
    (tmp_path / "mine.jsonl").write_text("{}")
    metadata = json.dumps({"judges": value, "data": "sample"})
    places = ("--benchmark", "mtrag", "--setting", "reference", "--output_path", str(tmp_path / "out"))
    text = said("score", str(tmp_path / "mine.jsonl"), "--metadata", metadata, *places)
    assert text.startswith(("ragtasks: evaluation options: judges: ", "ragtasks: judges: ", "ragtasks: endpoint: "))


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 100_000, '{"run": "\\ud800"}', '{"run": 1e999}'])
def test_metadata_that_cannot_be_read_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "mine.jsonl").write_text("{}")
    out = ("--benchmark", "mtrag", "--setting", "reference", "--output_path", str(tmp_path / "out"))
    assert said("score", str(tmp_path / "mine.jsonl"), "--metadata", text, *out).startswith("ragtasks: ")


@pytest.mark.slow
@pytest.mark.parametrize("n_bytes", [1, 600, 2000])
def test_retrieve_on_a_full_disk_is_one_error_without_a_run(n_bytes: int, tmp_path: Path) -> None:
    line = ["retrieve", "--retriever", "bm25", "--benchmark", "custom", "--data", str(SAMPLE), "--name", "mine"]
    done = subprocess.run(
        [sys.executable, "-c", "import sys; from ragtasks.cli import main; main(sys.argv[1:])", *line],
        env={
            "RAGTASKS_RUNS": str(tmp_path),
            "PYTHONDONTWRITEBYTECODE": "1",
            "PATH": "/usr/bin:/bin",
            "HOME": str(tmp_path),
        },
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, n_bytes)),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    assert "Traceback" not in done.stderr
    assert done.stderr.startswith("ragtasks: ")
    assert not (tmp_path / "runs" / "mine").exists()


def test_a_run_that_cannot_be_removed_stays_complete(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "runs" / "mine"
    folder.mkdir(parents=True)
    (folder / "manifest.json").write_text("{}")
    (tmp_path / "building").write_text("a file where a folder belongs, as nobody can write here")
    monkeypatch.setenv("RAGTASKS_RUNS", str(tmp_path))
    assert "cannot remove run 'mine'" in said("results", "remove", "mine")
    assert (folder / "manifest.json").is_file()


def test_a_target_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    target = tmp_path / "nowhere" / "segments.jsonl"
    text = said("data", "segment", str(SAMPLE / "passages.jsonl"), str(target))
    assert text.startswith(f"ragtasks: cannot write {target}: ")
