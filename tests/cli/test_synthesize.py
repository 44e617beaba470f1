"""From documents to a scored evaluation by commands alone, on a scripted model."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ragtasks.cli import main
from tests.cli.test_retrieve import printed
from tests.clients._server import chat_server
from tests.synthesis._documents import write_towns
from tests.synthesis._scripted import script
from tests.synthesis.test_multihop import articles

DEBIAN = Path("/usr/share/doc")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RAGTASKS_RUNS", str(tmp_path / "store"))
    return tmp_path


@pytest.mark.slow
def test_documents_are_made_validated_counted_and_run(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_towns(here / "docs", 3)
    with chat_server(script) as server:
        writer = {"model": "writer", "extra_body": {"top_k": 1}}
        model = ("--model", json.dumps(writer), "--base-url", server.base_url)
        made = printed(
            capsys, "synthesize", "docs", "--out", "town", *model, "--size", "60", "--overlap", "10",
            "--list-size", "8",
            "--types", "Factoid,Keyword", "--json-mode", "--turns", "5",
        )  # fmt: skip
        assert all(body["response_format"] == {"type": "json_object"} for body in server.bodies)
        assert all(body["top_k"] == 1 for body in server.bodies)
    assert "3 documents" in made[0]
    assert "asked at" in made[-2]
    assert made[-1] == "next: ragtasks check town"
    assert printed(capsys, "check", "town")[0] == "town: no error"
    assert "All dialogues" in "\n".join(printed(capsys, "quality", "town"))
    lines = printed(
        capsys, "run", "--model", "ragtasks-extractive", "--tasks", "custom_reference,custom_full_rag",
        "--metadata", json.dumps({"data": "town", "encoder": "minilm"}), "--limit", "4",
    )  # fmt: skip
    assert any("custom_full_rag" in line and "ans_acc" in line for line in lines)


def test_articles_become_harness_tasks(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    articles(here / "news.json")
    with chat_server(script) as server:
        model = ("--model", "writer", "--base-url", server.base_url)
        made = printed(capsys, "synthesize", "news.json", "--kind", "multihop", "--out", "news", *model)
    assert "2 inference_query" in made[0]
    printed(
        capsys, "retrieve", "--benchmark", "multihop_rag", "--data", "news", "--retriever", "bm25", "--name", "mine"
    )


def test_real_documents_of_debian_make_a_benchmark(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = [path for path in sorted(DEBIAN.glob("*/*")) if path.suffix in {".txt", ".md", ".html"} and path.is_file()]
    small = [path for path in found if 2_000 < path.stat().st_size < 12_000][:6]
    if len(small) < 3:
        pytest.skip(f"no documentation of packages at {DEBIAN}")
    for number, path in enumerate(small):
        target = here / "docs" / f"{number}{path.suffix}"
        target.parent.mkdir(exist_ok=True)
        target.write_bytes(path.read_bytes())
    with chat_server(script) as server:
        model = ("--model", "writer", "--base-url", server.base_url)
        printed(capsys, "synthesize", "docs", "--out", "debian", *model, "--dialogues", "4", "--cut-by", "sentences")
    assert printed(capsys, "check", "debian")[0] == "debian: no error"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("synthesize", "none", "--out", "x", "--model", "openai/m"), "no such folder"),
        (("synthesize", "docs", "--out", "x", "--model", "m"), "base_url"),
        (("synthesize", "docs", "--out", "x", "--model", "openai/m", "--unit", "words"), "unit 'words'"),
        (
            ("train", "rewriter", "docs", "--out", "x", "--base", "t5", "--seeds", "a"),
            "passages.jsonl",
        ),
    ],
)
def test_errors_are_one_clear_line(
    here: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    words: str,
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-not-a-real-key")
    write_towns(here / "docs", 1)
    with pytest.raises(SystemExit) as stop:
        main(list(arguments))
    assert stop.value.code == 1
    error = capsys.readouterr().err
    assert words in error
    assert "sk-not" not in error
    assert not (here / "x").exists()
