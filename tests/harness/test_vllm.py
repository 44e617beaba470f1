"""The harness's vLLM model on a replacement of vLLM: requests to the engine, and the use of its answers."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ragtasks.clients import Decoding, Outcome, Prompt
from ragtasks.config import HarnessModel
from ragtasks.harness.conversation_task import ConversationTask
from ragtasks.harness.judge_model import JudgeModel
from tests._commands import CommandResult
from tests.harness._vllm import BOS, LLM, ModelFolder, model_folder, vllm
from tests.harness.conftest import CHATML

__all__ = ["vllm"]  # the fixture

TASK = "mtrag_full_rag_fiqa"
LIVE = "mtrag_live_reference_fiqa"
N_TASKS = 27
TEMPLATE = "{{ bos_token }}" + CHATML
NO_SYSTEM = "{% if messages[0].role == 'system' %}{{ raise_exception('no system role') }}{% endif %}" + TEMPLATE

Command = Callable[..., CommandResult]
Load = Callable[..., ConversationTask]


@pytest.fixture
def model(tmp_path: Path) -> ModelFolder:
    return model_folder(tmp_path / "model", TEMPLATE)


def last_question(prompt: str) -> str:
    """Return the last user text in a prompt of one of the templates here."""
    return prompt.rpartition("<|user|>")[2].partition("</s>")[0]


def answer(prompt: str) -> str:
    return f"Answer to: {last_question(prompt)}</s> and more"


def line(model: ModelFolder, output: Path, *more: str, arguments: str = "", task: str = TASK) -> list[str]:
    """Run the command for vLLM in docs/evaluate-a-model.md in this process, on the sample."""
    return [
        *("--model", "vllm", "--model_args", f"pretrained={model.path},tensor_parallel_size=4{arguments}"),
        *("--apply_chat_template", "--tasks", task, "--output_path", str(output), "--log_samples", *more),
    ]


def logged(output: Path, task: str = TASK) -> list[dict[str, Any]]:
    (file,) = output.rglob(f"samples_{task}_*.jsonl")
    return [json.loads(text) for text in file.read_text(encoding="utf-8").splitlines()]


def test_the_documented_line_sends_one_batch_of_complete_conversations(  # noqa: PLR0917 (fixtures)
    vllm: type[LLM],
    model: ModelFolder,
    command: Command,
    load_task: Load,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(vllm, "script", answer)
    done = command(*line(model, tmp_path / "out"))
    assert done.status == 0, done.err
    (engine,) = vllm.made
    assert engine.arguments["tensor_parallel_size"] == 4
    assert engine.arguments["trust_remote_code"] is False
    (call,) = engine.calls
    assert len(call.texts) == N_TASKS
    task = load_task(TASK)
    expected = [
        model.render(task.messages(doc), tokenize=False, add_generation_prompt=True) for doc in task.dataset["test"]
    ]
    assert sorted(call.texts) == sorted(expected), "passages in the system role, each turn in its own"
    assert all(ids.count(model.bos_id) == 1 and ids[0] == model.bos_id for ids in call.token_ids)
    for sampling in call.sampling:
        assert (sampling.temperature, sampling.max_tokens) == (0.0, 1024)
        assert {"</s>", "\nUser:"} <= set(sampling.stop or ())
    for sample in logged(tmp_path / "out"):
        assert sample["filtered_resps"] == [f"Answer to: {sample['doc']['question']}"], "in order, and cut at the stop"


def test_a_given_batch_size_bounds_each_call(
    vllm: type[LLM], model: ModelFolder, command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vllm, "script", answer)
    assert command(*line(model, tmp_path / "out", "--batch_size", "8")).status == 0
    (engine,) = vllm.made
    assert [len(call.texts) for call in engine.calls] == [8, 8, 8, 3]
    assert all(
        sample["filtered_resps"] == [f"Answer to: {sample['doc']['question']}"] for sample in logged(tmp_path / "out")
    )


def test_without_a_chat_template_the_text_has_one_bos(
    vllm: type[LLM], model: ModelFolder, command: Command, load_task: Load, tmp_path: Path
) -> None:
    plain = [word for word in line(model, tmp_path / "out") if word != "--apply_chat_template"]
    assert command(*plain).status == 0
    ((call,),) = (engine.calls for engine in vllm.made)
    task = load_task(TASK)
    assert sorted(call.texts) == sorted(BOS + task.doc_to_text(doc) for doc in task.dataset["test"])
    assert all(ids.count(model.bos_id) == 1 for ids in call.token_ids)


def test_without_a_system_role_no_passage_is_lost(
    vllm: type[LLM], command: Command, load_task: Load, tmp_path: Path
) -> None:
    model = model_folder(tmp_path / "model", NO_SYSTEM)
    assert command(*line(model, tmp_path / "out")).status == 0
    ((call,),) = (engine.calls for engine in vllm.made)
    passages = [[passage["text"].strip() for passage in doc["passages"]] for doc in load_task(TASK).dataset["test"]]
    assert all(any(all(text in prompt for text in texts) for prompt in call.texts) for texts in passages)
    assert all(prompt.startswith(f"{BOS}<|user|>") and "<|system|>" not in prompt for prompt in call.texts)


def test_prompts_over_the_context_are_an_error_before_the_engine_runs(
    vllm: type[LLM], model: ModelFolder, command: Command, tmp_path: Path
) -> None:
    done = command(*line(model, tmp_path / "out", arguments=",max_model_len=6000"))
    assert done.status == 1
    assert f"prompts of {TASK}" in done.err
    assert "a context of 6000 minus 1024 for the answer" in done.err
    assert [engine.calls for engine in vllm.made] == [[]]


def test_after_dropping_passages_every_prompt_fits_with_its_answer(
    vllm: type[LLM], model: ModelFolder, command: Command, tmp_path: Path
) -> None:
    arguments = line(model, tmp_path / "out", arguments=",max_model_len=6000")
    assert command(*arguments, metadata={"too_long": "drop_passages"}).status == 0
    ((call,),) = (engine.calls for engine in vllm.made)
    assert all(len(ids) + 1024 <= 6000 for ids in call.token_ids)
    assert all(text.startswith(f"{BOS}<|system|>Answer the user's last message") for text in call.texts), "none is cut"
    samples = logged(tmp_path / "out")
    assert min(len(sample["doc"]["passages"]) for sample in samples) < 5


def test_live_conversations_use_one_call_per_round(
    vllm: type[LLM], model: ModelFolder, command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vllm, "script", answer)
    done = command(*line(model, tmp_path / "out", task=LIVE))
    assert done.status == 0, done.err
    (engine,) = vllm.made
    turns = [{text.count("<|user|>") for text in call.texts} for call in engine.calls]
    assert turns == [{number} for number in range(1, len(turns) + 1)], "turn by turn, all conversations at once"
    assert len(engine.calls[0].texts) > 1
    for call in engine.calls:
        assert all(ids.count(model.bos_id) == 1 for ids in call.token_ids)
        for text in call.texts:
            questions = [part.partition("</s>")[0] for part in text.split("<|user|>")[1:]]
            replies = [part.partition("</s>")[0] for part in text.split("<|assistant|>")[1:-1]]
            assert replies == [f"Answer to: {question}" for question in questions[:-1]], "its own answers, not ours"


def test_an_unknown_vllm_argument_is_one_line(
    vllm: type[LLM], model: ModelFolder, command: Command, tmp_path: Path
) -> None:
    done = command(*line(model, tmp_path / "out", arguments=",max_modle_len=3000"))
    assert done.status == 1
    assert re.match("ragtasks: --model vllm cannot be loaded .*'max_modle_len'", done.err.splitlines()[-1])
    assert "Traceback" not in done.err


def test_a_local_judge_receives_only_complete_prompts_that_fit(
    vllm: type[LLM], model: ModelFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vllm, "script", lambda prompt: f"Rating of {last_question(prompt)}: 7")
    options = {"pretrained": str(model.path), "max_model_len": 200}
    judge = JudgeModel(HarnessModel.model_validate({"lm_eval": "vllm", "model_args": options}), Decoding(max_tokens=64))
    short, long = Prompt.of("this"), Prompt.of("a" * 150)
    first, refused, second = judge.answer([short, long, Prompt.of("that")])
    assert (first.text, second.text) == ("Rating of this: 7", "Rating of that: 7")
    assert refused.outcome is Outcome.FAILED
    assert "exceed the context of 200" in refused.reason
    ((call,),) = (engine.calls for engine in vllm.made)
    assert sorted(call.texts) == [f"{BOS}<|user|>{text}</s><|assistant|>" for text in ("that", "this")]
    assert all(ids.count(model.bos_id) == 1 for ids in call.token_ids)
    assert all((sampling.temperature, sampling.max_tokens) == (0.0, 64) for sampling in call.sampling)
