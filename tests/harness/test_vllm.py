"""The harness's vLLM model on a replacement of vLLM: requests to the engine, and the use of its answers."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from ragtasks.clients import Decoding, Outcome, Prompt
from ragtasks.config import HarnessModel
from ragtasks.errors import JudgeError
from ragtasks.harness.conversation_task import ConversationTask
from ragtasks.harness.judge_model import JudgeModel
from tests._commands import CommandResult
from tests.harness._vllm import BOS, LLM, EngineDeadError, ModelFolder, model_folder, vllm
from tests.harness.conftest import CHATML

__all__ = ["vllm"]  # the fixture

TASK = "mtrag_full_rag_fiqa"
LIVE = "mtrag_live_reference_fiqa"
N_TASKS = 27
TEMPLATE = "{{ bos_token }}" + CHATML

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


def test_prompts_over_the_context_are_an_error_before_the_engine_runs(
    vllm: type[LLM], model: ModelFolder, command: Command, tmp_path: Path
) -> None:
    done = command(*line(model, tmp_path / "out", arguments=",max_model_len=6000"))
    assert done.status == 1
    assert f"prompts of {TASK}" in done.err
    assert "a context of 6000 minus 1024 for the answer" in done.err
    assert [engine.calls for engine in vllm.made] == [[]]


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


def test_answers_before_the_engines_end_are_not_requested_again(
    vllm: type[LLM], model: ModelFolder, command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def until_the_second_call(prompt: str) -> str:
        if len(vllm.made[-1].calls) == 2:
            raise EngineDeadError("EngineCore encountered an issue.")
        return answer(prompt)

    monkeypatch.setattr(vllm, "script", until_the_second_call)
    failed = command(*line(model, tmp_path / "out", "--batch_size", "10"))
    assert failed.status == 1
    assert "EngineDeadError: EngineCore encountered an issue. Answers saved: 10. Next" in failed.err.splitlines()[-1]
    assert "Traceback" not in failed.err
    monkeypatch.setattr(vllm, "script", answer)
    assert command(*line(model, tmp_path / "out", "--batch_size", "10")).status == 0
    assert [len(call.texts) for call in vllm.made[-1].calls] == [10, 7]
    assert all(
        sample["filtered_resps"] == [f"Answer to: {sample['doc']['question']}"] for sample in logged(tmp_path / "out")
    )
    assert not list((tmp_path / "out").glob("unfinished*"))


def test_termination_exits_so_that_the_engine_ends_too(
    vllm: type[LLM], model: ModelFolder, command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that SIGTERM ends at once leaves vLLM's engine running."""

    def terminated(prompt: str) -> str:
        if len(vllm.made[-1].calls) == 2:
            signal.raise_signal(signal.SIGTERM)
        return answer(prompt)

    monkeypatch.setattr(vllm, "script", terminated)
    before = signal.signal(signal.SIGTERM, lambda *_: pytest.fail("the signal has no handler"))
    try:
        done = command(*line(model, tmp_path / "out", "--batch_size", "10"))
    finally:
        ours = signal.signal(signal.SIGTERM, before)
    assert done.status == 128 + signal.SIGTERM
    assert "unfinished_rank0.sqlite: 10; the next call requests only the missing ones" in done.err
    assert ours.__qualname__.startswith("test_termination"), "restored"


def test_a_value_that_vllm_rejects_is_one_line(
    vllm: type[LLM], model: ModelFolder, command: Command, tmp_path: Path
) -> None:
    done = command(*line(model, tmp_path / "out", "--gen_kwargs", "do_sample=True,temperature=3"))
    assert done.status == 1
    assert "VLLMValidationError: temperature must be in [0, 2], got 3" in done.err.splitlines()[-1]
    assert "Traceback" not in done.err


def test_an_unknown_vllm_argument_is_one_line(
    vllm: type[LLM], model: ModelFolder, command: Command, tmp_path: Path
) -> None:
    done = command(*line(model, tmp_path / "out", arguments=",max_modle_len=3000"))
    assert done.status == 1
    assert re.match("ragtasks: --model vllm cannot be loaded .*'max_modle_len'", done.err.splitlines()[-1])
    assert "Traceback" not in done.err


def test_a_context_that_the_model_does_not_have_is_one_line(
    vllm: type[LLM], model: ModelFolder, command: Command, tmp_path: Path
) -> None:
    done = command(*line(model, tmp_path / "out", arguments=",max_model_len=99999999"))
    assert done.status == 1
    message = done.err.splitlines()[-1]
    assert "--model vllm cannot be loaded (check --model_args): max_model_len: User-specified max_model_len" in message
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


def test_a_judges_replies_are_constrained_by_the_schema_of_the_verdict(
    vllm: type[LLM], model: ModelFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vllm, "script", lambda _: '"yes"')
    configured = {"lm_eval": "vllm", "model_args": {"pretrained": str(model.path)}}
    schema = {"enum": ["yes", "no"]}
    for is_structured in (False, True):
        judge = JudgeModel(HarnessModel.model_validate({**configured, "structured": is_structured}))
        assert judge.describe().get("structured", False) is is_structured
        (reply,) = judge.answer([Prompt(Prompt.of("Is it?").messages, schema=schema)])
        assert reply.text == '"yes"'
    free, guided = (engine.calls[0].sampling[0].structured_outputs for engine in vllm.made)
    assert (free, guided and guided.json) == (None, schema)


def test_only_vllm_constrains_a_judge_in_this_process() -> None:
    with pytest.raises(ValidationError, match="`hf` cannot constrain replies, only `vllm`"):
        HarnessModel.model_validate({"lm_eval": "hf", "structured": True})


def test_a_judge_whose_engine_ends_is_a_judge_error(
    vllm: type[LLM], model: ModelFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ended(_: str) -> str:
        raise EngineDeadError("EngineCore encountered an issue.")

    monkeypatch.setattr(vllm, "script", ended)
    judge = JudgeModel(HarnessModel.model_validate({"lm_eval": "vllm", "model_args": {"pretrained": str(model.path)}}))
    with pytest.raises(JudgeError, match="EngineDeadError"):
        judge.answer([Prompt.of("Is it?")])
