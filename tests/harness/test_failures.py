"""Failures after the answers arrive: the answers are saved, scores are missing, and the evaluation fails."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ragtasks.scoring import record_failure
from tests._commands import CommandResult
from tests.clients._server import forget_certificates
from tests.harness._endpoint import Endpoint, Request
from tests.judges._demo import DemoServer

TASK = "mtrag_reference_fiqa"
KEY = "clé-4711"
"""Invalid in a header."""
Evaluating = Callable[..., CommandResult]


@pytest.fixture
def evaluating(
    command: Callable[..., CommandResult], endpoint: Endpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Evaluating:
    """Evaluate the model of the loopback endpoint on two tasks, into `out`."""
    monkeypatch.setenv("RAGTASKS_RUNS", str(tmp_path / "store"))
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)

    def run(**metadata: Any) -> CommandResult:
        return command(
            "--model", "local-chat-completions", "--apply_chat_template", "--tasks", TASK, "--limit", "2",
            "--model_args", f"base_url={endpoint.chat_url},model=loopback,eos_string=</s>", "--log_samples",
            "--output_path", str(tmp_path / "out"), metadata=metadata,
        )  # fmt: skip

    return run


def samples_in(folder: Path) -> list[dict[str, Any]]:
    (file,) = folder.rglob("samples_*.jsonl")
    return [json.loads(line) for line in file.read_text().splitlines()]


def encoder_folder(folder: Path) -> Path:
    """Return a folder whose model is not a text encoder: it loads, without the layers that are cut."""
    from tokenizers import Tokenizer, models
    from transformers import CLIPConfig, CLIPModel, PreTrainedTokenizerFast

    sizes: dict[str, Any] = {
        "hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1,
    }  # fmt: skip
    CLIPModel(
        CLIPConfig(text_config={**sizes, "vocab_size": 4}, vision_config=sizes, projection_dim=8)
    ).save_pretrained(folder)
    words = Tokenizer(models.WordLevel({"[UNK]": 0, "the": 1}, unk_token="[UNK]"))
    PreTrainedTokenizerFast(tokenizer_object=words, unk_token="[UNK]").save_pretrained(folder)
    return folder


@pytest.mark.parametrize("device", ["gpu", "cuda:99", "meta"])
def test_a_missing_device_is_an_error_before_the_model_runs(
    evaluating: Evaluating, endpoint: Endpoint, device: str
) -> None:
    done = evaluating(encoder="minilm", encoder_device=device)
    assert (done.status, endpoint.requests) == (1, [])
    assert repr(device) in done.err
    assert "omit encoder_device" in done.err
    assert "Traceback" not in done.err


def test_a_missing_device_is_ignored_without_an_encoder(evaluating: Evaluating) -> None:
    assert evaluating(encoder="none", encoder_device="gpu").status == 0


def test_an_unexpected_encoder_failure_keeps_the_answers(
    evaluating: Evaluating, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    done = evaluating(encoder=str(encoder_folder(tmp_path / "encoder")))
    assert done.status == 1
    assert f"everything is saved in {tmp_path / 'out'}" in done.err
    assert "encoder failed: AttributeError: " in done.err
    assert "Traceback" in caplog.text  # it may be a bug in ragtasks
    for row in samples_in(tmp_path / "out"):
        assert row["filtered_resps"] == ["It takes three days."]
        assert row["rouge_l"] > 0
        assert math.isnan(row["rb_alg"])
        assert row["doc"]["scoring"]["unscored"]["rb_alg"].startswith("encoder failed: AttributeError: ")


def test_a_key_invalid_in_a_header_is_an_error_before_the_model_runs(
    evaluating: Evaluating, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("JUDGE_KEY", KEY)
    with DemoServer() as server:
        done = evaluating(judges=[server.judge("steady", api_key_env="JUDGE_KEY")])
    assert (done.status, endpoint.requests, server.asked) == (1, [], [])
    assert "JUDGE_KEY contains characters that an HTTP header cannot contain" in done.err
    assert KEY not in done.out + done.err + caplog.text


def test_a_failing_judge_client_keeps_the_answers(
    evaluating: Evaluating, endpoint: Endpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def answer(_: Request) -> str:
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "missing.pem"))
        forget_certificates()
        return "It takes three days."

    endpoint.answer = answer
    with DemoServer() as server:
        done = evaluating(judges=[server.judge("steady")])
    assert (done.status, server.asked) == (1, [])
    assert f"everything is saved in {tmp_path / 'out'}" in done.err
    for row in samples_in(tmp_path / "out"):
        assert row["filtered_resps"] == ["It takes three days."]
        assert row["rouge_l"] > 0
        assert (str(row["rb_llm"]), row["judge_coverage"]) == ("nan", 0)
        assert row["doc"]["scoring"]["unscored"]["rb_llm"] == "no judge could be reached"


def test_half_of_a_surrogate_pair_in_a_reply_loses_no_answer(
    evaluating: Evaluating, endpoint: Endpoint, tmp_path: Path
) -> None:
    def cut_off(_: Request) -> str:
        return "It takes three days \ud83d"  # what is left of an emoji that a token limit cuts

    endpoint.answer = cut_off
    with DemoServer() as server:
        done = evaluating(encoder="minilm", judges=[server.judge("steady")])
    assert done.status == 0, done.err
    for row in samples_in(tmp_path / "out"):
        assert row["filtered_resps"] == ["It takes three days \ufffd"]
        assert row["resps"] == [["It takes three days \ufffd"]]
        assert not math.isnan(row["bert_recall"])
        assert row["judge_coverage"] == 1


def test_a_failed_save_of_the_harness_fails_the_evaluation(
    evaluating: Evaluating, endpoint: Endpoint, tmp_path: Path
) -> None:
    def fill(_: Request) -> str:
        folder = tmp_path / "out" / "loopback"
        if not folder.exists():
            folder.write_text("in the way")
        return "It takes three days."

    endpoint.answer = fill
    done = evaluating()
    assert done.status == 1
    assert "not everything could be saved" in done.err
    assert "everything is saved" not in done.err
    assert "rouge_l" in done.out


def test_an_output_folder_that_cannot_be_created_is_an_error_before_the_model_runs(
    evaluating: Evaluating, endpoint: Endpoint, tmp_path: Path
) -> None:
    (tmp_path / "out").write_text("a file")
    done = evaluating()
    assert (done.status, endpoint.requests) == (1, [])
    assert f"{tmp_path / 'out'} is a file" in done.err
    assert "Traceback" not in done.err


def test_problems_of_an_earlier_evaluation_are_not_repeated(evaluating: Evaluating) -> None:
    record_failure("left behind")
    done = evaluating()
    assert (done.status, "left behind" in done.err) == (0, False)
