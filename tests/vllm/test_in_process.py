"""`ragtasks run --model vllm` on the real engine: the tokens that reach it, and the use of its replies."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests._commands import CommandResult
from tests.vllm.conftest import Engines

pytestmark = pytest.mark.vllm
TASK = "mtrag_reference_clapnq"
SHORT = ("--gen_kwargs", "max_gen_toks=16")
RunVllm = Callable[..., CommandResult]


def samples(output: Path) -> list[dict[str, Any]]:
    (file,) = output.rglob("samples_*.jsonl")
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def test_one_call_answers_all_prompts_and_each_begins_with_one_bos(
    run_vllm: RunVllm, engines: Engines, model_folder: Path, tmp_path: Path
) -> None:
    done = run_vllm(model_folder, tmp_path, "--tasks", TASK, "--limit", "6", *SHORT)
    assert done.status == 0, done.err
    (outputs,) = engines.calls
    assert len(outputs) == 6
    for output in outputs:
        assert output.prompt_token_ids[0] == 2
        assert output.prompt_token_ids.count(2) == 1
    assert len(samples(tmp_path)) == 6
