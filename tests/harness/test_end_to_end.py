"""Complete evaluations: `ragtasks run` with its report, the stock command, and two ranks in separate processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from ragtasks.harness.tasks import task_folder
from tests._commands import run_command

ROOT = Path(__file__).resolve().parents[2]
TASK = "mtrag_reference_clapnq"
GROUP = "mtrag_un_reference"
SAMPLE = '{"data": "sample"}'
SAMPLE_WITHOUT_ENCODER = '{"data": "sample", "encoder": "none"}'

RANKED = """
import sys
import torch
import torch.distributed as dist
from ragtasks.cli import main
from ragtasks.harness import models
from lm_eval.api.registry import register_model

rank = int(sys.argv[1])
dist.init_process_group("gloo", init_method=f"file://{sys.argv[2]}", rank=rank, world_size=2)

@register_model("ranked")
class Ranked(models.Extractive):
    device = torch.device("cpu")

    def __init__(self, **_):
        super().__init__()
        self._rank, self._world_size = rank, 2

    def all_gather(self, tensor):
        parts = [torch.zeros_like(tensor) for _ in range(2)]
        dist.all_gather(parts, tensor)
        return torch.stack(parts)

    def gather_object(self, obj, dst=0):
        parts = [None, None] if rank == dst else None
        dist.gather_object(obj, parts, dst)
        return parts

    def barrier(self):
        dist.barrier()

main(["run", "--model", "ranked", *sys.argv[3:]])
"""
"""A model on two ranks; the harness's own `hf` splits work only between GPUs."""


def environment(**more: str) -> dict[str, str]:
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    return {**os.environ, "PYTHONPATH": path, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", **more}


def run(*arguments: str, cwd: Path, **more: str) -> str:
    done = subprocess.run(
        [sys.executable, *arguments], cwd=cwd, env=environment(**more), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def results_of(folder: Path) -> dict[str, Any]:
    (file,) = folder.rglob("results_*.json")
    content: dict[str, Any] = json.loads(file.read_text())
    return content


def samples_of(folder: Path) -> dict[str, dict[str, Any]]:
    (file,) = folder.rglob(f"samples_{TASK}_*.jsonl")
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    by_task = {row["doc"]["task_id"]: row for row in rows}
    assert len(by_task) == len(rows)
    return by_task


def _metric_cells(line: str) -> list[str]:
    """Return name and direction of the metric in a line of the harness's table."""
    return [cell.strip() for cell in line.split("|")[5:7]]


def printed(*arguments: str) -> str:
    done = run_command(*arguments)
    assert done.status == 0
    return done.out


def test_an_evaluation_runs_on_the_sample_and_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    table = printed(
        "run", "--full", "--model", "ragtasks-extractive", "--tasks", "mtrag_reference", "--limit", "1",
        "--metadata", SAMPLE, "--log_samples", "--output_path", "results",
    )  # fmt: skip
    assert "| - mtrag_reference_clapnq|" in table
    lines = table.split("\n# ")[0].splitlines()
    directions = {cells[0]: cells[1] for line in lines if len(cells := _metric_cells(line)) == 2}
    assert (directions["ans_acc"], directions["empty"], directions["idk_yes"]) == ("↑", "↓", "")
    scores = results_of(tmp_path / "results")["results"]["mtrag_reference"]
    assert 0 < scores["rb_alg,sample"] <= 1
    assert scores["coverage,sample"] == 1
    report = printed("report", "results")
    assert "sample" in report
    assert "ragtasks-extractive" in report


@pytest.mark.engine
def test_the_stock_command_runs_our_tasks_by_a_configuration_file_and_options(tmp_path: Path) -> None:
    cache = tmp_path / "requests"
    settings = {
        "model": "dummy",
        "tasks": [TASK],
        "limit": 2,
        "include_path": str(task_folder()),
        "metadata": json.loads(SAMPLE_WITHOUT_ENCODER),
    }
    (tmp_path / "evaluation.yaml").write_text(yaml.safe_dump(settings))
    table = run(
        "-m", "lm_eval", "run", "--config", "evaluation.yaml", "--log_samples", "--output_path", "results",
        "--cache_requests", "true", cwd=tmp_path, LM_HARNESS_CACHE_PATH=str(cache),
    )  # fmt: skip
    assert f"|{TASK}" in table
    assert results_of(tmp_path / "results")["results"][TASK]["empty,sample"] == 0
    assert [row["filtered_resps"] for row in samples_of(tmp_path / "results").values()] == [["lol"]] * 2
    assert len(list(cache.iterdir())) == 1


@pytest.mark.engine
def test_two_ranks_give_the_scores_of_one(
    tmp_path: Path, command: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch", reason="ranks talk through torch (extra: semantic)")
    script = tmp_path / "ranked.py"
    script.write_text(RANKED)
    options = (
        "--tasks", f"{TASK},{GROUP}", "--limit", "7", "--metadata", SAMPLE_WITHOUT_ENCODER, "--log_samples",
        "--output_path",
    )  # fmt: skip
    start = [sys.executable, str(script)]
    ranks = [
        subprocess.Popen([*start, str(rank), str(tmp_path / "meet"), *options, "two"], cwd=tmp_path, env=environment())
        for rank in (0, 1)
    ]
    try:
        monkeypatch.chdir(tmp_path)
        assert command("--model", "ragtasks-extractive", *options, "one").status == 0
        assert [rank.wait(timeout=120) for rank in ranks] == [0, 0]
    finally:
        for rank in ranks:
            rank.kill()

    one, two = results_of(tmp_path / "one"), results_of(tmp_path / "two")
    assert one["n-samples"] == two["n-samples"]
    assert two["results"][TASK]["rouge_l_stderr,sample"] > 0
    for name in (TASK, GROUP):
        for key, value in one["results"][name].items():
            if not key.startswith(("name", "alias")):
                value_of_two = two["results"][name][key]
                assert str(value_of_two) == str(value) or value_of_two == pytest.approx(value)
    first, second = samples_of(tmp_path / "one"), samples_of(tmp_path / "two")
    assert len(first) == 7
    assert first.keys() == second.keys()
    for task_id, row in first.items():
        assert row["filtered_resps"] == second[task_id]["filtered_resps"]
        assert row["doc"]["scoring"] == second[task_id]["doc"]["scoring"]
        assert row["doc_hash"] == second[task_id]["doc_hash"]
