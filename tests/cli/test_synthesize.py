"""From documents to a scored evaluation by commands alone, with a scripted model."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ragtasks.harness.tasks import task_folder
from tests._commands import run_command
from tests._shared import harness_without_tasks
from tests.cli.test_retrieve import printed
from tests.clients._server import chat_server
from tests.synthesis._documents import PLACES, town, write_towns
from tests.synthesis._scripted import FAULTS, script
from tests.synthesis.test_multihop import articles

DEBIAN = Path("/usr/share/doc")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RAGTASKS_RUNS", str(tmp_path / "store"))
    return tmp_path


@pytest.mark.slow
def test_documents_are_made_validated_counted_and_run(here: Path) -> None:
    write_towns(here / "docs", 3)
    with chat_server(script) as server:
        body = {"top_k": 1, "response_format": {"type": "json_object"}}
        writer = {"model": "writer", "base_url": server.base_url, "extra_body": body}
        made = printed(
        "synthesize", "docs", "--output", "town", "--model", json.dumps(writer),
            "--size", "60", "--overlap", "10", "--metadata", "list_size=8", "--metadata", "turns=5",
            "--metadata", 'question_types=["Factoid", "Keyword"]',
        )  # fmt: skip
        assert all(body["response_format"] == {"type": "json_object"} for body in server.bodies)
        assert all(body["top_k"] == 1 for body in server.bodies)
    assert "3 documents" in made[0]
    assert "requested at" in made[-2]
    assert made[-1] == "next: ragtasks check town"
    assert printed("check", "town")[0] == "town: no error"
    assert "All dialogues" in "\n".join(printed("review", "quality", "town"))
    lines = printed(
        "run", "--model", "ragtasks-extractive", "--tasks", "custom_reference,custom_full_rag",
        "--metadata", json.dumps({"data": "town", "encoder": "minilm"}), "--limit", "4", "--full",
    )  # fmt: skip
    assert any("custom_full_rag" in line and "ans_acc" in line for line in lines)


def test_articles_become_harness_tasks(here: Path) -> None:
    articles(here / "news.json")
    with chat_server(script) as server:
        model = ("--model", json.dumps({"model": "writer", "base_url": server.base_url}))
        made = printed("synthesize", "news.json", "--kind", "multihop", "--output", "news", *model)
    assert "2 inference_query" in made[0]
    assert printed("check", "news")[:2] == [
        "news: no error",
        "in the form of multihop_rag, with statistics of its own: 7 tasks",
    ]
    printed("retrieve", "--benchmark", "multihop_rag", "--data", "news", "--retriever", "bm25", "--name", "mine")


def real_documents(folder: Path, n: int) -> list[Path]:
    """Copy some documentation of Debian packages, and return the copies."""
    found = [path for path in sorted(DEBIAN.glob("*/*")) if path.suffix in {".txt", ".md", ".html"} and path.is_file()]
    small = [path for path in found if 2_000 < path.stat().st_size < 12_000][:n]
    if len(small) < 3:
        pytest.skip(f"no documentation of packages at {DEBIAN}")
    folder.mkdir()
    return [Path(shutil.copyfile(path, folder / f"{number}{path.suffix}")) for number, path in enumerate(small)]


def test_real_documents_of_debian_make_a_benchmark(here: Path) -> None:
    real_documents(here / "docs", 6)
    with chat_server(script) as server:
        model = ("--model", json.dumps({"model": "writer", "base_url": server.base_url}))
        printed("synthesize", "docs", "--output", "debian", *model, "--dialogues", "4", "--cut-by", "sentences")
    assert printed("check", "debian")[0] == "debian: no error"


@pytest.mark.engine
def test_real_documents_with_every_fault_make_a_benchmark_that_the_stock_command_runs(here: Path) -> None:
    first, *_ = real_documents(here / "docs", 3)
    faults = sorted(FAULTS.keys() - {"refused"})  # a server that refuses ends the work, which another test covers
    for place, word in zip(PLACES * 2, faults, strict=False):
        text = town(f"{place}-{word}", more=f"A sign says fault-{word} here.")
        (here / "docs" / f"model-{word}.txt").write_text(text, "utf-8")
    broken = {
        "again.txt": first.read_bytes(),
        "binary.txt": b"\x7fELF\x00\x01\x02",
        "blank.txt": b" \n",
        "broken.pdf": b"%PDF-1.4 and nothing more",
        "nothing.html": b"<html><body></body></html>",
    }
    for name, content in broken.items():
        (here / "docs" / name).write_bytes(content)
    with (here / "docs" / "huge.txt").open("wb") as huge:
        huge.truncate(10**9)
    old = "Die Bäckerei öffnet früh, und der Müller mahlt das Korn für die Brötchen über Nacht. " * 4
    (here / "docs" / "old.txt").write_bytes(old.encode("latin-1"))
    with chat_server(script) as server:
        model = ("--model", json.dumps({"model": "writer", "base_url": server.base_url}))
        lines = printed("synthesize", "docs", "--output", "debian", *model, "--cut-by", "sentences")
    told = "\n".join(lines)
    for name in (*broken, "huge.txt"):
        assert name in told, f"{name} is named"
    assert "1,000,000,000 bytes" in told
    left_out = (here / "debian" / "synthesis" / "left_out.jsonl").read_text("utf-8")
    for reason in ("prose instead", "JSON that cannot be read", "JSON without the key", "no list of texts", "10,000"):
        assert reason in left_out
    assert "passages without propositions" in told
    assert "in another language" in told
    assert printed("check", "debian")[0] == "debian: no error"
    done = subprocess.run(
        [sys.executable, "-m", "lm_eval", "run", "--model", "dummy", "--include_path", str(task_folder()), "--tasks",
         "custom_reference", "--limit", "3", "--output_path", "results",
         "--metadata", json.dumps({"data": "debian", "encoder": "none"})],
        capture_output=True, text=True, cwd=here, check=False,
        env=os.environ | {"PYTHONPATH": harness_without_tasks(here / "harness")},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    (results,) = (here / "results").rglob("results_*.json")
    assert json.loads(results.read_text("utf-8"))["n-samples"]["custom_reference"]["effective"] == 3


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("synthesize", "none", "--output", "x", "--model", "openai/m"), "no such folder"),
        (("synthesize", "docs", "--output", "x", "--model", "m"), "base_url"),
        (("synthesize", "docs", "--output", "x", "--model", "openai/m", "--metadata", "unit=words"), "unit 'words'"),
        (("synthesize", "docs", "--output", "x", "--model", "openai/m", "--metadata", "lst_size=5"), "'list_size'"),
        (("synthesize", "docs", "--output", "x", "--model", "openai/m", "--metadata", "turns=x"), "a whole number"),
        (("train", "rewriter", "docs", "--output", "x", "--base", "t5", "--seeds", "a"), "expected integers"),
        (("train", "rewriter", "docs", "--output", "x", "--base", "t5"), "passages.jsonl"),
    ],
)
def test_errors_are_one_clear_line(
    here: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], words: str
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-not-a-real-key")
    write_towns(here / "docs", 1)
    done = run_command(*arguments)
    assert done.status == 1
    error = done.err
    assert words in error
    assert "sk-not" not in error
    assert not (here / "x").exists()


def test_a_missing_key_is_named_before_anything_starts(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    done = run_command("synthesize", "nowhere", "--output", "x", "--model", "openai/m")
    assert done.status == 1
    assert "writer openai/m: OPENAI_API_KEY is not set" in done.err


@pytest.mark.parametrize(
    ("command", "option", "new"),
    [
        ("synthesize", "--list-size", "--metadata list_size=VALUE"),
        ("synthesize", "--json-mode", "response_format"),
        ("train", "--epochs", "--metadata epochs=VALUE"),
        ("retrieve", "--base-url", "--rewriter NAME,base_url=ADDRESS"),
        ("run", "--tokenizer", "--set estimate.tokenizer=VALUE"),
        ("score", "--nuggets", "--metadata nuggets=VALUE"),
        ("gate", "--until-decided", "--judge implies it"),
    ],
)
def test_an_option_that_is_a_key_now_names_the_key(command: str, option: str, new: str) -> None:
    done = run_command(command, option, "1")
    assert done.status == 2
    assert f"no option {option}. Next step: " in done.err
    assert new in done.err
