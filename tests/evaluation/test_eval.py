"""`ragtasks init` writes a file that `ragtasks eval` runs as it is, whatever is evaluated."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

import pytest
import yaml
from packaging.version import Version
from typer.testing import CliRunner

from ragtasks.cli import app
from ragtasks.results import read_evaluations
from tests._commands import CommandResult
from tests._messages import raises
from tests.clients._server import Action, ChatServer, chat_server, completion
from tests.evaluation.conftest import Command

LIGHT = ("--set", "options.encoder=none", "--set", "options.max_implausible=1", "--set", "report.html=null")
"""Without BERTScore and the page, which other tests are about; these models say one thing to everybody."""


@pytest.fixture
def model_server() -> Iterator[ChatServer]:
    with chat_server(lambda _text, _n: completion("It takes three days.")) as running:
        yield running


@pytest.fixture
def system() -> Iterator[str]:
    answer = Action(json.dumps({"answer": "It takes three days.", "contexts": []}).encode())
    with chat_server(lambda *_: answer) as running:
        yield running.base_url


def written_folder(done: CommandResult) -> Path:
    """Return the folder that an evaluation wrote."""
    *_, line = [line for line in done.out.splitlines() if line.startswith("wrote results/")]
    return Path(line.removeprefix("wrote "))


def assert_ended_well(done: CommandResult, name: str, main: str = "ans_acc") -> Path:
    """Return the folder that the last lines name, after a look at the conclusion above them."""
    assert done.status == 0, done.err
    assert "fatal" not in done.err
    assert "|Tasks" not in done.out
    assert f"| {name}" in done.out
    assert main in done.out
    folder = written_folder(done)
    assert done.out.count("next: ragtasks ") == 1
    assert folder.parent == Path("results")
    assert folder.name.startswith(f"{name}-mtrag-20")
    return folder


def test_a_model_behind_a_server(command: Command, model_server: ChatServer) -> None:
    done = command("init", "--model", "loopback", "--server", model_server.base_url, "--data", "sample")
    assert done.out.endswith("next: ragtasks eval evaluation.yaml\n")
    light = (*LIGHT, "--set", "settings=[reference]", "--set", "model.limit=1")
    folder = assert_ended_well(command("eval", "evaluation.yaml", *light), "loopback")
    assert len(model_server.asked) == 1 + 4, "a short question, and one prompt a domain"
    (results,) = folder.glob("loopback/results_*.json")
    content = json.loads(results.read_text("utf-8"))
    asked_for = yaml.safe_load((folder / "evaluation.yaml").read_text("utf-8"))
    assert content["evaluation_file"]["name"] == "evaluation.yaml"
    assert asked_for["model"] == {
        "name": "loopback", "server": model_server.base_url, "concurrent": 32, "limit": 1
    }  # fmt: skip
    assert asked_for["options"]["encoder"] == "none"


def test_the_key_of_a_server_comes_from_the_environment_and_is_written_nowhere(
    command: Command, model_server: ChatServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = "sk-" + "9f8e7d6c" * 4
    monkeypatch.setenv("MY_KEY", key)
    command("init", "--model", "loopback", "--server", model_server.base_url, "--data", "sample")
    light = (*LIGHT, "--set", "settings=[reference]", "--set", "model.limit=1", "--set", "model.api_key_env=MY_KEY")
    done = command("eval", "evaluation.yaml", *light)
    folder = assert_ended_well(done, "loopback")
    assert {item["authorization"] for item in model_server.headers} == {f"Bearer {key}"}
    assert not [path for path in folder.rglob("*") if path.is_file() and key.encode() in path.read_bytes()]
    assert key not in done.out + done.err


def test_answers_of_ones_own_system(command: Command) -> None:
    command("tasks", "export", "--data", "sample", "--setting", "full_rag", "--output", "tasks.jsonl")
    tasks = [json.loads(line) for line in Path("tasks.jsonl").read_text("utf-8").splitlines()]
    rows = [json.dumps({"id": task["id"], "answer": "I do not know."}) for task in tasks]
    Path("answers.jsonl").write_text("\n".join(rows), encoding="utf-8")
    command("init", "--answers", "answers.jsonl", "--data", "sample")
    folder = assert_ended_well(command("eval", "evaluation.yaml", *LIGHT), "answers")
    (evaluation,) = read_evaluations([folder])
    assert len(evaluation.rows) == 108


def answers_of(write_answer: Callable[[dict[str, Any]], str]) -> None:
    """Write answers to the sample, and the file that evaluates them."""
    tasks = [json.loads(line) for line in Path("tasks.jsonl").read_text("utf-8").splitlines()]
    rows = [json.dumps({"id": task["id"], "answer": write_answer(task)}) for task in tasks]
    Path("answers.jsonl").write_text("\n".join(rows), encoding="utf-8")


def test_an_evaluation_ends_with_each_thing_once_and_in_order(command: Command) -> None:
    command("tasks", "export", "--data", "sample", "--setting", "full_rag", "--output", "tasks.jsonl")
    answers_of(lambda task: "I do not have specific information." if task["id"].endswith("1") else "It takes a day.")
    command("init", "--answers", "answers.jsonl", "--data", "sample")
    done = command("eval", "evaluation.yaml", *LIGHT[:4])
    assert done.status == 0, done.err
    parts = (
        "answers has ans_acc",
        "| setting ",
        "- Sample data:",
        "scored with: encoder none",
        "took ",
        "example of ",
    )
    parts += (
        "  question:",
        "  answer:",
        "  reference:",
        "wrote results/",
        "page: file:///",
        "next: ragtasks data fetch",
    )
    places = [done.out.index(part) for part in parts]
    assert places == sorted(places)
    assert [done.out.count(part) for part in parts] == [1] * len(parts)
    assert "took 0 s: 108 answers, 0 failed" in re.sub(r"took \d+ s", "took 0 s", done.out)
    example = done.out.partition("example of ")[2]
    assert example.startswith("false refusal (sample-")
    assert "  answer:    I do not have specific information.\n" in example
    (page,) = re.findall(r"^page: (file://\S+)$", done.out, re.MULTILINE)
    assert Path(url2pathname(urlsplit(page).path)).is_file()


def test_an_evaluation_that_fails_has_the_next_step_of_its_error_alone(command: Command) -> None:
    command("tasks", "export", "--data", "sample", "--setting", "full_rag", "--output", "tasks.jsonl")
    answers_of(lambda _: "The ferry takes three days and is not expensive.")
    command("init", "--answers", "answers.jsonl", "--data", "sample")
    done = command("eval", "evaluation.yaml", *LIGHT[:2], *LIGHT[4:])
    assert done.status == 3
    assert "next: " not in done.out
    assert done.err.count("Next step: ") == 1
    assert "word for word the same for different questions" in done.out
    assert "word for word" not in done.err, "the conclusion says that"


def test_tokens_are_shown_where_the_server_counts_them(command: Command) -> None:
    counted = completion("It takes three days.", usage={"prompt_tokens": 50, "completion_tokens": 5})
    with chat_server(lambda _text, _n: counted) as server:
        command("init", "--model", "loopback", "--server", server.base_url, "--data", "sample")
        light = (*LIGHT, "--set", "settings=[reference]", "--set", "model.limit=1")
        done = command("eval", "evaluation.yaml", *light)
    assert "tokens, model: spent 200 + 20 tokens in 4 replies" in done.out


def test_an_endpoint(command: Command, system: str) -> None:
    command("init", "--endpoint", system, "--protocol", "plain", "--data", "sample")
    done = command("eval", "evaluation.yaml", *LIGHT)
    folder = assert_ended_well(done, "rag-system")
    assert "contexts: 108 of 108 answers have no passages" in done.out
    assert len(read_evaluations([folder])[0].rows) == 108


def test_a_retriever(command: Command) -> None:
    command("init", "--retriever", "bm25", "--data", "sample")
    done = command("eval", "evaluation.yaml", "--set", "retriever.queries=[last_turn, rewrite]")
    assert done.status == 0, done.err
    assert done.out.splitlines()[-1].startswith("next: ragtasks compare bm25.last_turn.sample bm25.rewrite.sample ")
    # The last bit of a score orders two passages. Python 3.10 has tantivy 0.26 at most.
    is_new = Version(version("tantivy")) >= Version("0.27")
    rewrite, last_turn = (0.782, 0.679) if is_new else (0.786, 0.683)
    conclusion = f"bm25.rewrite.sample has nDCG@5 {rewrite} over 92 queries"
    assert f"{conclusion}, 0.102 ahead of bm25.last_turn.sample (significant" in done.out
    (folder,) = Path("results").iterdir()
    assert "## By domain" in (folder / "retrieval.md").read_text("utf-8")
    assert "## By domain" not in done.out
    page = (folder / "page.html").read_text("utf-8")
    assert "As Table 15 of the MTRAG paper." in page
    assert 'id="tab-conversations" hidden' in page, "a retriever answers nothing"
    alone = command("eval", "evaluation.yaml", "--set", "output=alone", "--set", "report.html=null")
    assert f"bm25.last_turn.sample has nDCG@5 {last_turn} over 92 queries.\n" in alone.out
    assert not Path("alone/page.html").exists()


ROWS = [
    {"question": "How long is it?", "answer": "Two years.", "contexts": ["It lasts two years."]},
    {"question": "Where is it?", "answer": "In Bonn.", "contexts": ["It is in Berlin."]},
]


def test_rows_of_ones_own_need_no_benchmark(command: Command) -> None:
    Path("mine.jsonl").write_text("\n".join(map(json.dumps, ROWS)), encoding="utf-8")
    assert command("init", "--answers", "mine.jsonl").status == 0
    assert "benchmark:" not in Path("evaluation.yaml").read_text("utf-8")
    done = command("eval", "evaluation.yaml", *LIGHT)
    assert done.status == 0, done.err
    assert "| k_precision " in done.out
    folder = written_folder(done)
    assert folder.name.startswith("mine-rows-20")
    (evaluation,) = read_evaluations([folder])
    assert [row.values["k_precision"] for row in evaluation.rows] == [1.0, 0.5]
    (results,) = folder.glob("*/results_*.json")
    asked_for = json.loads(results.read_text("utf-8"))["evaluation_file"]["content"]
    assert asked_for["answers"] == {"file": "mine.jsonl"}
    assert asked_for["options"]["encoder"] == "none", "with what --set gave"
    refused = command("init", "--answers", "mine.jsonl", "--data", "sample", "--force")
    assert (refused.status, "contains its own questions" in refused.err) == (1, True)
    refused = command("eval", "evaluation.yaml", "--set", "data=sample")
    assert (refused.status, "rows contain their contexts" in refused.err) == (1, True)


def test_traces_are_rows_of_ones_own(command: Command) -> None:
    def said(text: str) -> str:
        return json.dumps([{"role": "user", "parts": [{"type": "text", "content": text}]}])

    span = {
        "name": "chat",
        "context": {"trace_id": "0x1", "span_id": "0x2"},
        "start_time": "2026-01-01T00:00:00Z",
        "end_time": "2026-01-01T00:00:02Z",
        "attributes": {
            "gen_ai.operation.name": "chat",
            "gen_ai.input.messages": said("How long is it?"),
            "gen_ai.output.messages": said("Two years.").replace("user", "assistant"),
        },
    }
    Path("spans.jsonl").write_text(json.dumps(span), encoding="utf-8")
    command("init", "--traces", "spans.jsonl")
    done = command("eval", "evaluation.yaml", *LIGHT)
    assert done.status == 0, done.err
    folder = written_folder(done)
    (rows,) = folder.rglob("rows.jsonl")
    row = json.loads(rows.read_text("utf-8"))
    assert (row["question"], row["answer"], row["seconds"]) == ("How long is it?", "Two years.", 2.0)
    assert len(read_evaluations([folder])[0].rows) == 1
    refused = command("eval", "evaluation.yaml", "--set", "benchmark=mtrag")
    assert (refused.status, "leave out benchmark, settings and data" in refused.err) == (1, True)


@pytest.mark.slow
def test_a_baseline_in_another_process_without_torch_and_outside_of_any_repository(command: Command) -> None:
    """Weights of nobody are needed, so torch is not: importing it fails here."""
    command("init", "--model", "ragtasks-extractive", "--data", "sample")
    Path("torch.py").write_text("raise ImportError('torch is not to be imported here')\n", encoding="utf-8")
    settings = ("--set", "options.encoder=none", "--set", "settings=[full_rag]")
    line = [sys.executable, "-m", "ragtasks", "eval", "evaluation.yaml", *settings]
    done = subprocess.run(line, check=False, capture_output=True, text=True)
    folder = assert_ended_well(CommandResult(done.returncode, done.stdout, done.stderr), "ragtasks-extractive")
    assert f"page: {(folder / 'page.html').resolve().as_uri()}\n" in done.stdout
    assert "every conversation" not in done.stdout, "the page is written"
    assert (folder / "ragtasks-extractive").is_dir()


def test_a_file_that_somebody_wrote_is_not_written_over(command: Command) -> None:
    text = "# mine\ndata: sample\nmodel: ragtasks-oracle\nsettings: [reference]\noutput: .\n"
    Path("evaluation.yaml").write_text(text, encoding="utf-8")
    done = command("eval", "evaluation.yaml", *LIGHT, "--set", "model.limit=1")
    assert done.status == 0, done.err
    assert Path("evaluation.yaml").read_text("utf-8") == text
    assert list(Path("ragtasks-oracle").glob("results_*.json"))


def test_what_is_evaluated_must_be_named(command: Command) -> None:
    Path("evaluation.yaml").write_text("benchmark: mtrag\n", encoding="utf-8")
    done = command("eval", "evaluation.yaml")
    assert done.status == 1
    assert "names no system to evaluate" in done.err
    done = command("eval", "nowhere.yaml")
    assert "`ragtasks init` writes one" in done.err


def test_init_asks_nobody_without_a_terminal_and_replaces_nothing(command: Command) -> None:
    done = command("init")
    assert done.status == 1
    assert "--model, --answers, --traces, --endpoint or --retriever" in done.err
    command("init", "--model", "ragtasks-oracle")
    before = Path("evaluation.yaml").read_bytes()
    done = command("init", "--retriever", "bm25")
    assert done.status == 1
    assert "--force replaces it" in done.err
    assert Path("evaluation.yaml").read_bytes() == before
    assert command("init", "--retriever", "bm25", "--force").status == 0
    assert command("init", "--model", "a", "--answers", "b").status == 1


@pytest.mark.parametrize(
    ("replies", "key", "section"),
    [
        ("1\n\nqwen\n", "model", {"name": "qwen", "server": "http://localhost:8000/v1", "concurrent": 32}),
        ("2\n./weights\nvllm\n", "model", {"name": "./weights", "kind": "vllm"}),
        ("3\nmine.jsonl\n", "answers", {"file": "mine.jsonl"}),
        ("5\nhttp://x:1\nopenai\n", "endpoint", {"base_url": "http://x:1", "protocol": "openai"}),
        ("6\n\n", "retriever", {"line": "bm25", "queries": ["last_turn"]}),
        ("7\n", "model", {"name": "ragtasks-extractive"}),
    ],
)
def test_init_asks_at_a_terminal(
    replies: str, key: str, section: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ragtasks.cli.init.at_terminal", lambda: True)
    done = CliRunner().invoke(app, ["init"], input=replies + "\n" * 5)
    assert done.exit_code == 0, done.output
    content = yaml.safe_load(Path("evaluation.yaml").read_text("utf-8"))
    assert content[key] == section
    assert (content["benchmark"], content["data"]) == ("mtrag", "sample")
    assert "What do you want to evaluate?" in done.output


def test_init_takes_the_model_that_the_server_lists_and_the_v1_of_its_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ragtasks.cli.init.at_terminal", lambda: True)
    with chat_server(lambda *_: completion()) as server:
        server.listing = {"/v1/models": Action(b'{"data": [{"id": "small"}, {"id": "large"}]}')}
        replies = f"9\n1\n{server.base_url.removesuffix('/v1')}\n" + "\n" * 6
        done = CliRunner().invoke(app, ["init"], input=replies)
    assert done.exit_code == 0, done.output
    assert "expected a number from 1 to 7" in done.output
    assert f"{server.base_url} has small, large" in done.output
    section = yaml.safe_load(Path("evaluation.yaml").read_text("utf-8"))["model"]
    assert (section["name"], section["server"]) == ("small", server.base_url)


def test_init_asks_for_the_model_of_a_server_that_lists_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ragtasks.cli.init.at_terminal", lambda: True)
    with chat_server(lambda *_: completion()) as server:
        done = CliRunner().invoke(app, ["init"], input=f"1\n{server.base_url}\n\nqwen\n" + "\n" * 5)
    assert done.exit_code == 0, done.output
    assert "lists no models (HTTP 404" in done.output
    assert "expected a name" in done.output


def test_settings_become_the_harness_tasks_of_the_benchmark() -> None:
    from ragtasks.errors import ConfigurationError
    from ragtasks.harness.tasks import own_names, tasks_of
    from ragtasks.records import Setting

    assert tasks_of("mtrag") == ["mtrag"]
    assert tasks_of("mtrag", [Setting.FULL_RAG]) == ["mtrag_full_rag"]
    assert tasks_of("mtrag_un") == ["mtrag_un_reference", "mtrag_un_full_rag"]
    assert tasks_of("multihop_rag", [Setting.REFERENCE]) == ["multihop_rag_gold"]
    assert {name for found in ("mtrag", "mtrag_un", "custom") for name in tasks_of(found)} <= own_names()
    with raises(ConfigurationError):
        tasks_of("mtrag_un", [Setting.REFERENCE_RAG])
    with pytest.raises(ConfigurationError, match="did you mean 'mtrag'"):
        tasks_of("mtrg")
