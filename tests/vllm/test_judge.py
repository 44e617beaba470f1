"""A judge in this process on the real engine, with replies constrained to labels."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ragtasks.clients import Decoding, Outcome, Prompt
from ragtasks.config import HarnessModel
from ragtasks.harness.judge_model import JudgeModel
from ragtasks.judges import VerdictOutcome, rubrics_named
from tests.judges._scripted import response, verdicts_of
from tests.vllm.conftest import ENGINE, Engines

pytestmark = pytest.mark.vllm
LABELS = {"enum": ["yes", "partially", "no"]}


def judge_of(model: Path, *, structured: bool, max_tokens: int) -> JudgeModel:
    arguments = {"pretrained": str(model), **ENGINE}
    configured = {"lm_eval": "vllm", "model_args": arguments, "structured": structured}
    return JudgeModel(HarnessModel.model_validate(configured), Decoding(max_tokens=max_tokens))


def test_guided_replies_are_labels_of_the_schema(engines: Engines, model_folder: Path) -> None:
    asked = [Prompt(Prompt.of(f"Is {number} a prime number? Reply:").messages, schema=LABELS) for number in range(8)]
    free = judge_of(model_folder, structured=False, max_tokens=8).answer(asked)
    guided = judge_of(model_folder, structured=True, max_tokens=8).answer(asked)
    assert [len(outputs) for outputs in engines.calls] == [8, 8]
    assert not {reply.text for reply in free} & {f'"{label}"' for label in LABELS["enum"]}
    assert {reply.outcome for reply in guided} == {Outcome.ANSWERED}
    assert {json.loads(reply.text or "") for reply in guided} <= set(LABELS["enum"])


def test_only_prompts_that_fit_reach_the_engine(engines: Engines, model_folder: Path) -> None:
    judge = judge_of(model_folder, structured=False, max_tokens=8)
    first, refused = judge.answer([Prompt.of("The first."), Prompt.of("word " * 4096)])
    assert first.usage.input_tokens == len(engines.tokenizer("The first.", add_special_tokens=False).input_ids)
    assert refused.outcome is Outcome.FAILED
    assert "exceed the context of 4096" in refused.reason
    ((output,),) = engines.calls
    assert engines.tokenizer.decode(output.prompt_token_ids) == "<bos>The first."


def test_a_guided_judge_gives_a_verdict_or_a_reason(engines: Engines, model_folder: Path) -> None:
    judge = judge_of(model_folder, structured=True, max_tokens=32)
    verdicts = list(verdicts_of([response()], rubrics_named(["rb_llm", "idk"]), [judge]).all())
    for verdict in verdicts:
        assert (verdict.value is None) == (verdict.outcome is not VerdictOutcome.GIVEN)
        assert verdict.reason or verdict.value is not None
