"""Before the first request: whatever lacks is said at once with its cure, and nothing is evaluated."""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections import namedtuple
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from tests._commands import CommandResult
from tests.clients._server import ChatServer, chat_server, closed_port, completion, refusal
from tests.evaluation.conftest import Command
from tests.judges._demo import DemoServer

HEAD = "data: sample\nmodel: ragtasks-oracle\nsettings: [reference]\n"
LIGHT = "options: {encoder: none}\n"


def evaluate(command: Command, text: str, *arguments: str) -> CommandResult:
    Path("evaluation.yaml").write_text(text, encoding="utf-8")
    return command("eval", "evaluation.yaml", *arguments)


def problems(done: CommandResult) -> list[str]:
    """Return the problems that a command was stopped by, and look that it evaluated nothing."""
    assert done.status == 1, done.out
    head, *rows = done.err.split("\n- ")
    assert head.endswith("before the first request; nothing was evaluated:"), done.err
    assert not list(Path().glob("results/*/*/results_*"))
    return [row.strip() for row in rows]


@pytest.fixture
def server() -> Iterator[ChatServer]:
    with chat_server(lambda _text, _n: completion("fine")) as running:
        yield running


def test_all_problems_are_one_message(command: Command) -> None:
    nowhere = f"http://127.0.0.1:{closed_port()}/v1"
    text = (
        f"model: {{name: m, server: '{nowhere}'}}\n"
        f"judges: [openai/gpt-4o-mini, {{model: mine, base_url: '{nowhere}'}}]\n"
        "options: {encoder: nobody/has-this}\n"
    )
    found = problems(evaluate(command, text))
    assert [row.partition(":")[0].partition(" at ")[0] for row in found] == [
        "data of mtrag",
        "encoder nobody/has-this",
        "judge openai/gpt-4o-mini",
        "judge mine",
        "model m",
    ]
    assert all("next step: " in row.lower() for row in found)


def test_a_key_that_is_not_set_is_found_before_the_model_runs(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    (found,) = problems(evaluate(command, HEAD + LIGHT + "judges: openai/gpt-4o-mini\n"))
    assert "OPENAI_API_KEY is not set" in found
    named = "judges: {model: m, base_url: 'http://127.0.0.1:9/v1', api_key_env: MY_KEY}\n"
    (found,) = problems(evaluate(command, HEAD + LIGHT + named))
    assert "api_key_env names MY_KEY, which is not set" in found
    monkeypatch.setenv("MY_KEY", "sk-secret-0123456789")
    (found,) = problems(evaluate(command, HEAD + LIGHT + named))
    assert "no server answers" in found
    assert "sk-secret" not in found
    served = "data: sample\nmodel: {name: m, server: 'http://127.0.0.1:9/v1', api_key_env: NO_KEY}\n" + LIGHT
    (missing,) = problems(evaluate(command, served))
    assert missing.startswith("model m: api_key_env names NO_KEY, which is not set")
    (found,) = problems(evaluate(command, LIGHT + "data: sample\nmodel: openai/gpt-4o-mini\n"))
    assert found.startswith("model gpt-4o-mini: OPENAI_API_KEY is not set")


def test_an_encoder_that_cannot_be_had_is_an_error_with_its_cure(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    (found,) = problems(evaluate(command, HEAD + "options: {encoder: nobody/has-this}\n"))
    assert "the main score rb_alg would be unscored" in found
    assert "`options: {encoder: none}` in the file" in found
    with monkeypatch.context() as without:
        for library in ("torch", "onnxruntime"):
            without.setitem(sys.modules, library, None)
        (found,) = problems(evaluate(command, HEAD))
        assert "pip install 'ragtasks[semantic" in found
        done = command("run", "--model", "ragtasks-oracle", "--tasks", "mtrag_reference", "--data", "sample")
        assert "pip install 'ragtasks[semantic" in problems(done)[0]
        (found,) = problems(evaluate(command, HEAD + "options: {encoder: nobody/has-this}\n"))
        assert "Next step: pip install 'ragtasks[semantic]'" in found
    assert evaluate(command, HEAD + LIGHT, "--set", "report.html=null").status == 0


def test_a_model_s_server_is_asked_one_question(command: Command, server: ChatServer) -> None:
    model = f"data: sample\nmodel: {{name: m, server: '{server.base_url}'}}\nsettings: [reference]\n" + LIGHT
    server.script = lambda _text, _n: refusal(401)
    (found,) = problems(evaluate(command, model))
    assert "does not accept the key" in found
    server.script = lambda _text, _n: refusal(404)
    (found,) = problems(evaluate(command, model))
    assert "no such model or address" in found
    assert len(server.asked) == 2, "one question each, and no prompt"
    judge = f"judges: {{model: j, base_url: '{server.base_url}'}}\n"
    (found,) = problems(evaluate(command, HEAD + LIGHT + judge))
    assert found.startswith(f"judge j at {server.base_url}: ")


def test_a_dry_run_asks_nobody_and_prints_what_it_will_take(command: Command, server: ChatServer) -> None:
    text = (
        f"data: sample\nmodel: {{name: m, server: '{server.base_url}'}}\nsettings: [reference]\n{LIGHT}"
        f"judges: {{model: j, base_url: '{server.base_url}', price: [1, 2]}}\n"
    )
    done = evaluate(command, text, "--dry-run", "--set", "estimate.prompts_per_minute=108")
    assert done.status == 0, done.err
    assert server.paths == []
    assert "answers take: 0.0 hours at 108 prompts a minute" in done.out
    assert "| mtrag (sample), reference |     108 |" in done.out
    assert "$ at most" in done.out
    assert "no request was sent and nothing was evaluated" in done.out.splitlines()[-1]
    assert not Path("results").exists()
    for other in ("answers: nothing-yet.jsonl\n", "retriever: bm25\n"):
        done = evaluate(command, "data: sample\n" + other + LIGHT, "--dry-run")
        assert done.status == 0, done.err
        assert not Path("results").exists()


@pytest.mark.parametrize("protocol", ["plain", "openai"])
def test_ones_own_system_must_answer(command: Command, protocol: str) -> None:
    nowhere = f"http://127.0.0.1:{closed_port()}"
    text = f"data: sample\nendpoint: {{base_url: '{nowhere}', protocol: {protocol}}}\n" + LIGHT
    (found,) = problems(evaluate(command, text))
    assert found.startswith(f"endpoint {nowhere} ({protocol} protocol): no connection")


def test_a_disk_without_room_for_the_results_is_found(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(10**9, 10**9 - 5, 5))
    (found,) = problems(evaluate(command, HEAD + LIGHT))
    assert "has 0.00 GB left" in found
    assert "name another folder by `output`" in found


def test_data_and_runs_that_are_not_there_are_named(command: Command) -> None:
    (found,) = problems(evaluate(command, "model: ragtasks-oracle\n" + LIGHT))
    assert "run `ragtasks data fetch mtrag`" in found
    text = "data: sample\nmodel: ragtasks-oracle\nsettings: [full_rag]\noptions: {encoder: none, run: nothere}\n"
    (found,) = problems(evaluate(command, text))
    assert found.startswith("no run 'nothere' in ")


class Listing(BaseHTTPRequestHandler):
    """A server that answers, and says how long its model's context is."""

    def do_GET(self) -> None:
        self._send({"data": [{"id": "m", "max_model_len": 2048}]})

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self._send({"choices": [{"index": 0, "message": {"role": "assistant", "content": "ready"}}]})

    def _send(self, content: dict[str, Any]) -> None:
        body = json.dumps(content).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Stay quiet."""


@pytest.mark.slow
def test_a_context_that_does_not_hold_the_prompts_is_found(command: Command) -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Listing)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        model = f"{{name: m, server: 'http://127.0.0.1:{server.server_port}/v1'}}"
        text = f"data: sample\nmodel: {model}\nsettings: [reference]\n{LIGHT}"
        (found,) = problems(evaluate(command, text))
        short = evaluate(command, text, "--set", "model.generation.max_gen_toks=20", "--set", "model.limit=1")
        assert "do not fit" not in short.err
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
    assert re.match(r"context: \d+ of 108 prompts of mtrag \(sample\), reference do not fit", found)
    assert "the model's context is 2,048" in found
    assert "too_long: drop_passages" in found


def test_tokens_are_counted_by_a_tokeniser_where_one_is_named(command: Command) -> None:
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    words = Tokenizer(models.WordLevel({"[UNK]": 0}, unk_token="[UNK]"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    PreTrainedTokenizerFast(tokenizer_object=words, unk_token="[UNK]").save_pretrained("words")
    text = (
        HEAD.replace("ragtasks-oracle", "{name: nobody/has, kind: hf}")
        + "options: {encoder: none, context_tokens: 1100}\n"
    )
    (found,) = problems(evaluate(command, text, "--no-probe"))
    assert "the longest has about " in found
    (counted,) = problems(evaluate(command, text, "--no-probe", "--set", "estimate.tokenizer=words"))
    assert "the longest has about " not in counted
    assert "the longest has " in counted


def test_a_folder_of_results_is_not_taken_for_weights(command: Command) -> None:
    Path("gpt2").mkdir()
    (found,) = problems(evaluate(command, "data: sample\nmodel: {name: gpt2, kind: hf}\n" + LIGHT))
    assert found.startswith("model gpt2: the folder ")
    assert "contains no model" in found


def test_a_mistyped_task_is_named_before_anything_is_loaded(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_model(*_: object, **__: object) -> None:
        raise AssertionError("the model is loaded")

    monkeypatch.setattr("ragtasks.harness.run.ClearLoading", no_model)
    done = command("run", "--model", "hf", "--model_args", "pretrained=x", "--tasks", "mtrag_fullrag")
    assert done.status == 1
    assert "Tasks not found: mtrag_fullrag. Next step: did you mean 'mtrag_full_rag'" in done.err


def test_a_judge_with_a_price_is_said_to_cost_before_it_is_asked(command: Command, server: ChatServer) -> None:
    judge = f"judges: {{model: j, base_url: '{server.base_url}', price: [1, 2]}}\n"
    text = "data: sample\nmodel: ragtasks-oracle\ntasks: [mtrag_full_rag_govt]\n" + LIGHT + judge
    done = evaluate(command, text, "--set", "model.limit=1", "--set", "report.html=null")
    assert "judge j: 4 calls, about $" in done.err  # of the one answer that the limit leaves


ROW = {"question": "How long is it?", "answer": "Two years.", "contexts": ["It lasts two years."]}


def test_score_looks_at_everything_before_it_asks_a_judge(command: Command, server: ChatServer) -> None:
    Path("rows.jsonl").write_text(json.dumps(ROW), encoding="utf-8")
    judge = json.dumps({"model": "j", "base_url": f"http://127.0.0.1:{closed_port()}/v1"})
    done = command("score", "rows.jsonl", "--judge", judge, "--judge", "openai/gpt-4o-mini", "--encoder", "nobody/has")
    encoder, key, down = problems(done)
    assert encoder.startswith("encoder nobody/has: BERTScore would be unscored")
    assert key.startswith("judge openai/gpt-4o-mini: OPENAI_API_KEY is not set")
    assert down.endswith("; --no-probe skips this request, if all replies are cached")
    (unfetched,) = problems(command("score", "rows.jsonl", "--encoder", "none", "--benchmark", "mtrag"))
    assert "ragtasks data fetch mtrag" in unfetched
    nowhere = f"http://127.0.0.1:{closed_port()}"
    (found,) = problems(command("score", nowhere, "--data", "sample", "--encoder", "none"))
    assert found.startswith(f"endpoint {nowhere} (openai protocol): no connection")


def test_a_judge_that_is_down_stops_nothing_where_its_replies_are_cached(command: Command) -> None:
    Path("rows.jsonl").write_text(json.dumps(ROW), encoding="utf-8")
    with DemoServer() as server:
        line = ("score", "rows.jsonl", "--encoder", "none", "--judge", json.dumps(server.judge("steady")))
        assert command(*line, "--output", "first").status == 0
    assert "--no-probe skips this request" in problems(command(*line, "--output", "again"))[0]
    assert not Path("again").exists()
    done = command(*line, "--output", "again", "--no-probe")
    assert done.status == 0, done.err
    first, again = (
        json.loads(Path(f"{name}/rows/results_rows-rows.json").read_text("utf-8")) for name in ("first", "again")
    )
    assert first["results"] == again["results"]


def test_saved_results_are_looked_at_before_they_are_scored_again(command: Command) -> None:
    text = HEAD + LIGHT + "output: results\n"
    assert evaluate(command, text, "--set", "report.html=null", "--set", "model.limit=1").status == 0
    done = command("score", "results", "--output", "again", "--data", "sample", "--judge", "openai/gpt-4o-mini")
    assert problems(done)[0].startswith("judge openai/gpt-4o-mini: OPENAI_API_KEY is not set")
    assert not Path("again").exists()


def test_a_retriever_s_needs_are_found_before_its_rewriter_is_paid(command: Command) -> None:
    asked = (
        "retrieve",
        "--retriever",
        "dense:nobody/has",
        "--queries",
        "llm_rewrite",
        "--rewriter",
        "openai/gpt-4o-mini",
    )
    encoder, key = problems(command(*asked, "--data", "sample"))
    assert encoder.startswith("encoder nobody/has of the retriever: ")
    assert key.startswith("rewriter openai/gpt-4o-mini: OPENAI_API_KEY is not set")
    (found,) = problems(command("retrieve", "--retriever", "bm52", "--data", "sample"))
    assert "did you mean 'bm25'" in found
    text = "data: sample\nretriever: dense:nobody/has\n"
    assert problems(evaluate(command, text))[0].startswith("encoder nobody/has of the retriever: ")
