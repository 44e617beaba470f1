"""Real output of the harness on the sample, created once per session."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

LIMIT = 3
_SCRIPT = """
import sys
from ragtasks.harness.run import run_harness
metadata = '{"data": "sample", "encoder": "none"}'
for model in ("oracle", "refuse"):
    options = ["--tasks", "mtrag", "--limit", sys.argv[2], "--metadata", metadata, "--log_samples"]
    run_harness(["--model", f"ragtasks-{model}", *options, "--output_path", f"{sys.argv[1]}/{model}"])
"""


def evaluate_sample(folder: Path) -> None:
    """Write evaluations of two models to a folder, in a separate process because the harness configures logging."""
    command = [sys.executable, "-c", _SCRIPT, str(folder), str(LIMIT)]
    done = subprocess.run(
        command, check=False, capture_output=True, text=True, env=os.environ | {"HF_HUB_OFFLINE": "1"}
    )
    assert done.returncode == 0, done.stderr[-3000:]


def results_file(folder: Path) -> Path:
    """Return the only results file in a folder."""
    (path,) = folder.rglob("results_*.json")
    return path
