"""The lines of docs/reports.md that log a results export with MLflow."""

from __future__ import annotations

import re
import subprocess
import venv
from pathlib import Path

import pytest

from tests._commands import run_command
from tests._shared import install

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reports.md"


@pytest.mark.network
def test_the_page_s_lines_log_every_score(evaluations: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (block,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)
    monkeypatch.chdir(tmp_path)
    done = run_command("results", "export", "rows", evaluations, "--output", "rows.json")
    assert done.status == 0
    venv.create("mlflow", with_pip=False, symlinks=True)
    install(Path("mlflow/bin/python"), "mlflow-skinny==3.17.2")
    # Without a database, which the light package does not bring, runs go to a folder, and that has to be allowed.
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "file:store")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    subprocess.run(["mlflow/bin/python", "-c", block], check=True)
    logged = {"/".join(path.parts[-2:]) for path in Path("store").rglob("metrics/**/*") if path.is_file()}
    assert {"reference/ans_acc", "full_rag/rouge_l"} <= logged
    assert len(list(Path("store").rglob("artifacts/rows.json"))) == 2
