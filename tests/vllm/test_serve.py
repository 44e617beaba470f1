"""`vllm serve` as a user meets it: evaluation, judges, tool calls, refusals, two models, and a restart."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ragtasks.clients import OpenAIClient, Outcome, Prompt
from tests._commands import CommandResult, run_command
from tests.clients._server import closed_port
from tests.clients.test_vllm_replies import RECORDED
from tests.vllm._processes import RAGTASKS, started
from tests.vllm._server import CONTEXT, MODELS, OF_OTHER_SERVER, TOOLS, WITH_TOOLS, Server, serving

pytestmark = pytest.mark.vllm
TASK = "mtrag_reference_fiqa"
SHORT = {"max_gen_toks": 12, "until": [".", "\n"]}
"""A base model continues without an end, so a reply ends at a sentence or a line."""
LIMIT, OVER = "the reply reached the token limit", "the server's context is too short"
Command = Callable[..., CommandResult]


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("template") / "tools.jinja"
    path.write_text(WITH_TOOLS, encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def server(model_folder: Path, template: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    log = tmp_path_factory.mktemp("log") / "server.txt"
    with serving(model_folder, template, closed_port(), log, *TOOLS) as running:
        yield running


def samples_in(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for file in folder.rglob("samples_*.jsonl") for line in file.read_text().splitlines()]


def arguments(server: Server, output: Path, *further: str, model: str = MODELS[0], task: str = TASK) -> list[str]:
    """Return the arguments of `ragtasks run` for a model behind the server."""
    model_arguments = {"model": model, "base_url": server.chat_url, "num_concurrent": 4}
    return [
        "--model", "local-chat-completions", "--apply_chat_template", "--tasks", task, "--log_samples",
        "--model_args", json.dumps(model_arguments), "--output_path", str(output), *further,
    ]  # fmt: skip


def generation(**options: Any) -> tuple[str, str]:
    return "--gen_kwargs", json.dumps({**SHORT, **options})


def check(done: CommandResult, output: Path, n_rows: int, reasons: set[str]) -> list[dict[str, Any]]:
    """Check that each task has an answer, or a reason that fails the command, and return the samples."""
    rows = samples_in(output)
    assert len(rows) == n_rows, done.err[-2000:]
    found = {row["doc"].get("no_answer", "") for row in rows} - {""}
    assert found <= reasons
    assert done.status == bool(found), done.err[-2000:]
    return rows


def shape(value: Any) -> Any:
    """Return the keys of a reply; texts and counts depend on the prompt."""
    if isinstance(value, dict):
        return {name: shape(part) for name, part in value.items()}
    return [shape(part) for part in value] if isinstance(value, list) else None


def post(server: Server, request: dict[str, Any]) -> tuple[int, Any]:
    fields = {"model": MODELS[0], "messages": [{"role": "user", "content": "Hi."}], "temperature": 0, **request}
    path = fields.pop("path", "/chat/completions")
    if n_words := fields.pop("n_words", 0):
        fields["messages"] = [{"role": "user", "content": "word " * n_words}]
    sent = urllib.request.Request(
        server.base_url + path, json.dumps(fields).encode(), {"Content-Type": "application/json"}
    )
    try:
        with urllib.request.urlopen(sent, timeout=600) as reply:
            return reply.status, json.load(reply)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


def check_recorded(server: Server, name: str) -> None:
    """Check that the server still sends a recorded reply."""
    row = RECORDED[name]
    status, body = post(server, row["request"])
    assert status == row["status"]
    if status != 200:
        assert body == row["body"]
        return
    assert shape(body) == shape(row["body"])
    assert body["choices"][0]["finish_reason"] == row["body"]["choices"][0]["finish_reason"]


@pytest.mark.parametrize("name", sorted(RECORDED.keys() - OF_OTHER_SERVER))
def test_the_recorded_replies_are_those_of_the_server(server: Server, name: str) -> None:
    check_recorded(server, name)


@pytest.mark.parametrize("further", [{"frobnicate": 3}, {"seed": 7}, {"reasoning_effort": "low"}, {"id": "x"}])
def test_unknown_fields_and_our_settings_are_accepted(server: Server, further: dict[str, Any]) -> None:
    status, _ = post(server, {**further, "max_tokens": 2})
    assert status == 200


def test_an_evaluation_file_gives_a_page(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    init = run_command("init", "--model", MODELS[0], "--server", server.base_url, "--data", "sample")
    assert init.status == 0, init.err
    changes = {"model.limit": 1, "model.generation": SHORT, "options.encoder": "none", "output": "out"}
    overrides = [word for key, value in changes.items() for word in ("--set", f"{key}={json.dumps(value)}")]
    refused = run_command("eval", "evaluation.yaml", "--set", "options.encoder=none")
    assert refused.status == 1
    assert f"and the model's context is {CONTEXT:,}. Next step: " in refused.err
    done = run_command("eval", "evaluation.yaml", *overrides, "--set", "options.too_long=drop_passages")
    check(done, tmp_path, 12, {LIMIT})
    (page,) = tmp_path.rglob("page.html")
    assert MODELS[0] in page.read_text(encoding="utf-8")


def test_a_prompt_over_the_context_has_that_as_its_reason(server: Server, command: Command, tmp_path: Path) -> None:
    """A wrong `context_tokens` stands for an estimate that is too low."""
    longer = ("--limit", "2", "--system_instruction", "word " * 1500, *generation(max_gen_toks=1024, until=[]))
    done = command(*arguments(server, tmp_path, *longer), metadata={"context_tokens": 8192})
    assert done.status == 1
    reasons = sorted(row["doc"]["no_answer"] for row in samples_in(tmp_path))
    assert all(reason.startswith(OVER) for reason in reasons)
    assert "HTTP 400: This model's maximum context length is 2048 tokens." in reasons[-1]
    assert "too_long=drop_passages and a smaller context_tokens" in done.err
    assert "max_gen_toks" not in done.err


def test_two_models_at_one_address_are_two_rows(server: Server, command: Command, tmp_path: Path) -> None:
    for model in MODELS:
        done = command(*arguments(server, tmp_path / model, "--limit", "1", *generation(), model=model))
        check(done, tmp_path / model, 1, {LIMIT})
    report = run_command("report", tmp_path)
    assert all(f"| {model}" in report.out for model in MODELS), report.out
    wrong = command(*arguments(server, tmp_path / "wrong", "--limit", "1", model="gemma-c"))
    assert wrong.status == 1
    assert "The model `gemma-c` does not exist" in wrong.err
    assert "the server has gemma, gemma-b. Next step: correct the model's name" in " ".join(wrong.err.split())


def test_a_judge_with_a_schema_gives_verdicts(server: Server, tmp_path: Path) -> None:
    row = {"question": "When?", "answer": "At nine.", "contexts": ["It opens at nine."], "reference": "At nine."}
    (tmp_path / "rows.jsonl").write_text(json.dumps(row), encoding="utf-8")
    judge = {"model": MODELS[0], "base_url": server.base_url, "max_tokens": 64, "structured": True}
    done = run_command(
        "score", tmp_path / "rows.jsonl", "--encoder", "none", "--force", "--output", tmp_path / "out",
        "--judge", json.dumps(judge),
    )  # fmt: skip
    assert "Traceback" not in done.err
    (sample,) = samples_in(tmp_path / "out")
    verdicts = sample["doc"]["scoring"]["verdicts"]
    assert any(verdict["outcome"] == "given" for verdict in verdicts), done.err
    for verdict in verdicts:
        assert (verdict["value"] is None) == (verdict["outcome"] != "given")
        assert verdict["value"] is not None or verdict["reason"]
        assert verdict["served_model"] == MODELS[0]


def test_a_judge_s_limit_over_the_context_is_reported_before_the_evaluation(server: Server, tmp_path: Path) -> None:
    row = {"question": "When?", "answer": "At nine.", "reference": "At nine."}
    (tmp_path / "rows.jsonl").write_text(json.dumps(row), encoding="utf-8")
    judge = {"model": MODELS[0], "base_url": server.base_url, "reasoning_effort": "low"}
    done = run_command("score", tmp_path / "rows.jsonl", "--encoder", "none", "--judge", json.dumps(judge))
    assert done.status == 1
    assert "Next step: lower max_tokens and thinking_tokens" in done.err


def test_a_real_call_searches_and_its_results_reach_the_model(server: Server, command: Command, tmp_path: Path) -> None:
    options = generation(max_gen_toks=80, until=[], tool_choice="required")
    done = command(
        *arguments(server, tmp_path, "--limit", "1", *options, task="mtrag_agentic_govt"),
        metadata={"search_protocol": "tool_calls", "search_calls": 1, "search_k": 2},
    )  # fmt: skip
    (row,) = check(done, tmp_path, 1, set())
    trajectory, calls = row["doc"]["trajectory"], row["doc"]["usage"]["calls"]
    assert trajectory["steps"][0]["tool"] == "search"
    assert trajectory["steps"][0]["passages"]
    assert trajectory["ending"] == "out_of_calls"  # the model has to call again instead of an answer
    # The template shows tools and examples only in the first request, and the second is still longer.
    assert calls[1]["input_tokens"] > calls[0]["input_tokens"]


def test_tags_in_plain_text_work_without_tools(server: Server, command: Command, tmp_path: Path) -> None:
    done = command(
        *arguments(server, tmp_path, "--limit", "1", *generation(), task="mtrag_agentic_govt"),
        metadata={"search_calls": 1},
    )  # fmt: skip
    (row,) = check(done, tmp_path, 1, {LIMIT})
    assert row["doc"]["trajectory"]["ending"] in {"answered", "gave_up", "out_of_calls", "error"}


def test_an_evaluation_survives_a_restart_of_the_server(
    server: Server, model_folder: Path, template: Path, tmp_path: Path
) -> None:
    """Last in this module, because it kills the server. Two answers arrived before; the others wait for the restart."""
    port = int(server.base_url.split(":")[2].split("/")[0])
    output = tmp_path / "out"
    metadata = json.dumps({"data": "sample", "encoder": "none", "max_implausible": 1})
    evaluation = arguments(server, output, "--limit", "8", *generation(), "--metadata", metadata)
    evaluation[evaluation.index("--model_args") + 1] = json.dumps(
        {"model": MODELS[0], "base_url": server.chat_url, "num_concurrent": 1}
    )
    due = server.n_replies() + 4  # to the two tests before an evaluation, and two answers
    with started(*RAGTASKS, "run", *evaluation, log=tmp_path / "run.txt") as child:
        while server.n_replies() < due and child.process.poll() is None:
            time.sleep(0.1)
        server.child.kill()
        with serving(model_folder, template, port, tmp_path / "server.txt", *TOOLS) as again:
            status = child.process.wait(timeout=900)
            (reply,) = OpenAIClient({"model": MODELS[0], "base_url": again.base_url, "max_tokens": 2}).answer(
                [Prompt.of("Hi.")]
            )
        assert reply.outcome is Outcome.TRUNCATED
    done = CommandResult(status, "", child.output())
    check(done, output, 8, {LIMIT})
