"""`ragtasks calibrate` on the real human-evaluation file, without judges and with stand-in ones."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from ragtasks.calibrating import calibrate_judges
from ragtasks.errors import ConfigurationError

SERVER = Path(__file__).resolve().parents[1] / "scripts" / "judge_demo_server.py"


def test_published_figures_stand_beside_the_papers(mtrag_root: Path, tmp_path: Path) -> None:
    picture = tmp_path / "calibration.png"
    text = calibrate_judges(mtrag_root, [], key=None, cache_file=tmp_path / "replies.sqlite", picture=picture)
    assert "| reference | rb_alg | published | 0.87 | 0.87 |" in text
    assert "| rules | 471 of 471 | 0.992 |" in text
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_judges_are_calibrated_beside_the_published_figures(mtrag_root: Path, tmp_path: Path) -> None:
    server = subprocess.Popen([sys.executable, str(SERVER)], stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        judge = json.dumps({"model": "steady", "base_url": server.stdout.readline().strip() + "/v1"})
        text = calibrate_judges(mtrag_root, [judge], key=None, cache_file=tmp_path / "replies.sqlite")
    finally:
        server.kill()
        server.communicate()
    assert "| reference | rb_llm | steady |" in text
    assert "| judges | 471 of 471 |" in text


def test_broken_judge_is_refused_without_showing_it(mtrag_root: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError) as error:
        calibrate_judges(
            mtrag_root, ['{"model": "m", "base_url": "http://u:hunter2@h"'], key=None, cache_file=tmp_path / "r"
        )
    assert "hunter2" not in str(error.value)
