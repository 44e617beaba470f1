"""`ragtasks run --model vllm` on the real engine: the tokens that reach it, and the use of its replies."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests._commands import CommandResult
from tests.vllm.conftest import BOS_ID, Engines

pytestmark = pytest.mark.vllm
TASK = "mtrag_reference_clapnq"
LIVE = "mtrag_live_reference_clapnq"
AGENTIC = "mtrag_agentic_clapnq"
RunVllm = Callable[..., CommandResult]


def arguments(*more: str, task: str = TASK, limit: int = 6, reply_tokens: int = 16) -> tuple[str, ...]:
    return ("--tasks", task, "--limit", str(limit), "--gen_kwargs", f"max_gen_toks={reply_tokens}", *more)


def samples(output: Path) -> list[dict[str, Any]]:
    (file,) = output.rglob("samples_*.jsonl")
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def prompts(engines: Engines) -> list[str]:
    """Return the prompts of all calls as the engine's tokens, without the BOS token that each must begin with."""
    texts = []
    for output in (output for outputs in engines.calls for output in outputs):
        first, *ids = output.prompt_token_ids
        assert first == BOS_ID
        assert BOS_ID not in ids
        texts.append(engines.tokenizer.decode(ids))
    return texts


def test_one_call_answers_all_prompts_and_each_begins_with_one_bos(
    run_vllm: RunVllm, engines: Engines, model_folder: Path, tmp_path: Path
) -> None:
    done = run_vllm(model_folder, tmp_path, *arguments())
    assert done.status == 0, done.err
    (outputs,) = engines.calls
    replies = {text: output.outputs[0].text for text, output in zip(prompts(engines), outputs, strict=True)}
    rows = samples(tmp_path)
    assert len(replies) == len(rows) == 6
    for row in rows:
        assert row["resps"] == [[replies[row["arguments"]["gen_args_0"]["arg_0"]]]]


def test_a_given_batch_size_bounds_each_call(
    run_vllm: RunVllm, engines: Engines, model_folder: Path, tmp_path: Path
) -> None:
    done = run_vllm(model_folder, tmp_path, *arguments("--batch_size", "4"))
    assert done.status == 0, done.err
    assert [len(outputs) for outputs in engines.calls] == [4, 2]
    assert len(samples(tmp_path)) == len(prompts(engines)) == 6


def test_a_chat_template_adds_no_second_bos(
    run_vllm: RunVllm, engines: Engines, chat_model: Path, tmp_path: Path
) -> None:
    done = run_vllm(chat_model, tmp_path, *arguments("--apply_chat_template"))
    assert done.status == 0, done.err
    texts = prompts(engines)
    assert len(texts) == 6
    assert all(text.startswith("System: ") and text.endswith("Assistant:") for text in texts)


def test_without_a_system_role_no_passage_is_lost(
    run_vllm: RunVllm, engines: Engines, chat_model_without_system: Path, tmp_path: Path
) -> None:
    done = run_vllm(chat_model_without_system, tmp_path, *arguments("--apply_chat_template"))
    assert done.status == 0, done.err
    texts = prompts(engines)
    assert all(text.startswith("User: ") and "System: " not in text for text in texts)
    passages = [[passage["text"].strip() for passage in row["doc"]["passages"]] for row in samples(tmp_path)]
    assert any(passages)
    assert all(any(all(passage in text for passage in shown) for text in texts) for shown in passages)


def test_prompts_over_the_context_are_rejected_before_the_engine_runs(
    run_vllm: RunVllm, engines: Engines, model_folder: Path, tmp_path: Path
) -> None:
    done = run_vllm(model_folder, tmp_path, *arguments(limit=27, reply_tokens=3000))
    assert done.status == 1
    assert f"prompts of {TASK}" in done.err
    assert "a context of 4096 minus 3000 for the answer" in done.err
    assert engines.calls == []


def test_live_conversations_use_one_call_per_round_with_the_models_own_answers(
    run_vllm: RunVllm, engines: Engines, chat_model: Path, tmp_path: Path
) -> None:
    done = run_vllm(chat_model, tmp_path, *arguments("--apply_chat_template", task=LIVE, limit=8, reply_tokens=8))
    assert done.status == 0, done.err
    first, second, *later = engines.calls
    assert len(first) == len(second) == 2
    assert len(later) == 5
    answers = [output.outputs[0].text.strip() for output in first]
    texts = prompts(engines)
    assert all(answer in text for answer, text in zip(answers, texts[2:4], strict=True))


def test_a_value_that_vllm_rejects_is_one_line(
    run_vllm: RunVllm, engines: Engines, model_folder: Path, tmp_path: Path
) -> None:
    given = ("--tasks", TASK, "--limit", "1", "--gen_kwargs", "max_gen_toks=16,do_sample=True,temperature=3")
    done = run_vllm(model_folder, tmp_path, *given)
    assert done.status == 1
    assert "VLLMValidationError: temperature must be in [0, 2]" in done.err.splitlines()[-1]
    assert "Traceback" not in done.err


def test_rounds_of_a_searching_model_end_with_complete_results(
    run_vllm: RunVllm, engines: Engines, chat_model: Path, tmp_path: Path
) -> None:
    """The base model never calls a tool."""
    done = run_vllm(chat_model, tmp_path, *arguments("--apply_chat_template", task=AGENTIC, limit=3))
    assert done.status == 0, done.err
    assert [len(outputs) for outputs in engines.calls] == [3]
    assert {row["doc"]["trajectory"]["ending"] for row in samples(tmp_path)} <= {"answered", "gave_up"}


def test_a_guided_search_is_executed_and_its_results_reach_the_engine(
    run_vllm: RunVllm, engines: Engines, chat_model: Path, tmp_path: Path
) -> None:
    engines.patterns = [r"<search>[a-z]{3,9} [a-z]{3,9}</search>", r"<answer>[a-z ]{9,30}</answer>"]
    given = arguments("--apply_chat_template", task=AGENTIC, limit=3, reply_tokens=48)
    done = run_vllm(chat_model, tmp_path, *given)
    assert done.status == 0, done.err
    searching, answering = engines.calls
    assert len(searching) == len(answering) == 3
    assert all("<results>" in text for text in prompts(engines)[3:])
    for row in samples(tmp_path):
        (step,) = row["doc"]["trajectory"]["steps"]
        assert any(step["arguments"]["query"] in output.outputs[0].text for output in searching)
        assert row["doc"]["trajectory"]["ending"] == "answered"
        assert any(row["filtered_resps"][0] in output.outputs[0].text for output in answering)
    assert any(row["doc"]["passages"] for row in samples(tmp_path))


def test_an_unknown_vllm_argument_is_one_line(
    run_vllm: RunVllm, engines: Engines, model_folder: Path, tmp_path: Path
) -> None:
    done = run_vllm(model_folder, tmp_path, *arguments(), max_modle_len=3000)
    assert done.status == 1
    assert done.err.splitlines()[-1].startswith("ragtasks: --model vllm cannot be loaded")
    assert "'max_modle_len'" in done.err.splitlines()[-1]
    assert "Traceback" not in done.err


def test_after_dropping_passages_every_prompt_fits_with_its_answer(
    run_vllm: RunVllm, engines: Engines, model_folder: Path, tmp_path: Path
) -> None:
    """The context of this test's own engine is shorter than some prompts of the task."""
    given = arguments(task="mtrag_full_rag_clapnq")
    done = run_vllm(model_folder, tmp_path, *given, metadata={"too_long": "drop_passages"}, max_model_len=1024)
    assert done.status == 0, done.err
    (outputs,) = engines.calls
    assert len(prompts(engines)) == 6
    assert all(len(output.prompt_token_ids) + 16 <= 1024 for output in outputs)
    n_passages = [len(row["doc"]["passages"]) for row in samples(tmp_path)]
    assert min(n_passages) < max(n_passages) == 5
