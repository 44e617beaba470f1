"""Answers of `--model vllm` and `--model hf` on the same weights at temperature 0, and the reasons for differences."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests._commands import CommandResult

pytestmark = pytest.mark.vllm
TASK, N_TASKS, N_TOKENS = "mtrag_reference_clapnq", 20, 32
ROUNDING = 0.25
"""Maximum difference of two logits that bfloat16 can exchange: between 16 and 32, its values are 0.125 apart."""
Command = Callable[..., CommandResult]


@dataclass(frozen=True)
class Difference:
    """The first difference of two answers to one prompt."""

    task_id: str
    position: int
    """Index of the first token that differs."""
    tokens: tuple[str, str]
    """The token of vLLM, and that of transformers."""
    margin: float
    """Logit of vLLM's token minus that of the other, computed in float32."""
    rounded: tuple[float, float]
    """The two logits as transformers computes them in bfloat16."""
    rank: int
    """Rank of the lower of the two tokens in float32, from 1."""


def answers(output: Path) -> dict[str, dict[str, Any]]:
    (file,) = output.rglob("samples_*.jsonl")
    rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    return {row["doc"]["task_id"]: row for row in rows}


def text(row: dict[str, Any]) -> str:
    """Return the answer of the model in a logged sample."""
    return str(row["resps"][0][0])


@pytest.fixture
def both(
    command: Command, run_vllm: Command, model_folder: Path, tmp_path: Path
) -> Callable[[str], tuple[dict[str, Any], dict[str, Any]]]:
    """Return a function that returns the samples of vLLM and of transformers for a type of numbers."""

    def run(dtype: str) -> tuple[dict[str, Any], dict[str, Any]]:
        given = ("--tasks", TASK, "--limit", str(N_TASKS), "--gen_kwargs", f"max_gen_toks={N_TOKENS}")
        done = run_vllm(model_folder, tmp_path / "vllm", *given, dtype=dtype)
        assert done.status == 0, done.err
        options = ("--model_args", f"pretrained={model_folder},dtype={dtype},max_length=4096", "--device", "cpu")
        saved = ("--output_path", str(tmp_path / "hf"), "--log_samples")
        done = command("--model", "hf", *options, *given, *saved)
        assert done.status == 0, done.err
        samples = answers(tmp_path / "vllm"), answers(tmp_path / "hf")
        assert [len(rows) for rows in samples] == [N_TASKS, N_TASKS]
        return samples

    return run


def differences(model: Path, ours: dict[str, Any], theirs: dict[str, Any]) -> Iterator[Difference]:
    """Yield the first difference of each pair of answers."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(model)
    exact, rounded = (AutoModelForCausalLM.from_pretrained(model, dtype=dtype) for dtype in ("float32", "bfloat16"))
    for task_id, row in ours.items():
        if text(row) == text(theirs[task_id]):
            continue
        first, second = (tokenizer(text(side), add_special_tokens=False).input_ids for side in (row, theirs[task_id]))
        position = next(index for index, pair in enumerate(zip(first, second, strict=False)) if pair[0] != pair[1])
        prompt = tokenizer(row["arguments"]["gen_args_0"]["arg_0"]).input_ids
        pair = [first[position], second[position]]
        with torch.no_grad():
            logits, low = (
                model(torch.tensor([prompt + first[:position]]), logits_to_keep=1).logits[0, -1]
                for model in (exact, rounded)
            )
        yield Difference(
            task_id,
            position,
            tokens=(tokenizer.decode(pair[0]), tokenizer.decode(pair[1])),
            margin=float(logits[pair[0]] - logits[pair[1]]),
            rounded=(float(low[pair[0]]), float(low[pair[1]])),
            rank=int((logits >= logits[pair].min()).sum()),
        )


def test_without_rounding_all_answers_are_equal(both: Callable[[str], Any]) -> None:
    ours, theirs = both("float32")
    assert {name: text(row) for name, row in ours.items()} == {name: text(row) for name, row in theirs.items()}


def test_answers_differ_only_where_two_tokens_are_equal_within_rounding(
    both: Callable[[str], Any], model_folder: Path
) -> None:
    ours, theirs = both("bfloat16")
    found = list(differences(model_folder, ours, theirs))
    print(*found, sep="\n")  # noqa: T201 (the reason for each difference; `pytest -s` shows it)
    assert len(found) < N_TASKS
    assert all(abs(difference.margin) < ROUNDING and difference.rank == 2 for difference in found)
