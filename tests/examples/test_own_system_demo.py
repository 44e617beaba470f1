"""The five commands of docs/score-your-system.md, but the first, as they stand there."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
def test_a_file_of_answers_and_a_running_system_get_the_same_scores(tmp_path: Path) -> None:
    commands = Path(sys.executable).parent
    if not (commands / "ragtasks").exists():
        pytest.skip("no command `ragtasks` beside this Python: the package is not installed")
    environment = os.environ | {"RAGTASKS_DEMO_INSTALLED": "1", "PATH": f"{commands}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(
        [ROOT / "scripts" / "own_system_demo.sh", tmp_path],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("\n$ ") + done.stdout.startswith("$ ") == 4
    values = [line.split("|")[3:] for line in done.stdout.splitlines() if line.startswith("| full_rag")]
    assert len(values) == 2
    assert values[0] == values[1]
    docs = (ROOT / "docs" / "score-your-system.md").read_text("utf-8")
    for line in docs.partition("The fourth command prints")[2].split("```")[1].strip().splitlines():
        assert line in done.stdout
