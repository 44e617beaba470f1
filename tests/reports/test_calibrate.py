"""`ragtasks judges calibrate` on the real human-evaluation file, without judges and with stand-ins."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from ragtasks.clients import no_secrets
from ragtasks.errors import BenchmarkFileError, ConfigurationError
from ragtasks.judges import latest_card, rubrics_named
from ragtasks.reports.calibration import calibrate_judges
from tests._commands import run_command
from tests.clients._server import chat_server, refusal

SERVER = Path(__file__).resolve().parents[2] / "scripts" / "judge_demo_server.py"


def unpadded(text: str) -> str:
    """Return tables with one space around each cell."""
    return re.sub(" +", " ", text)


@pytest.mark.slow
def test_published_scores_are_next_to_the_papers(mtrag_root: Path, tmp_path: Path) -> None:
    picture = tmp_path / "calibration.png"
    text, verdicts = calibrate_judges(
        mtrag_root, [], secrets=no_secrets, cache_file=tmp_path / "replies.sqlite", cards=tmp_path, picture=picture
    )
    assert verdicts is None
    assert "| reference | rb_alg | published | 0.87 | 0.87 |" in unpadded(text)
    assert "| ngrams | 471 of 471 | 0.994 |" in unpadded(text)
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_judges_are_calibrated_next_to_the_published_scores(mtrag_root: Path, tmp_path: Path) -> None:
    server = subprocess.Popen([sys.executable, str(SERVER)], stdout=subprocess.PIPE, text=True)
    try:
        judge = json.dumps({"model": "steady", "base_url": server.stdout.readline().strip() + "/v1"})
        text, verdicts = calibrate_judges(
            mtrag_root,
            [judge],
            secrets=no_secrets,
            cache_file=tmp_path / "replies.sqlite",
            metrics=["rl_mtb"],
            cards=tmp_path / "cards",
            repeats=2,
        )
        again, _ = calibrate_judges(
            mtrag_root,
            [judge],
            secrets=no_secrets,
            cache_file=tmp_path / "replies.sqlite",
            metrics=["rl_mtb"],
            cards=tmp_path / "cards",
        )
    finally:
        server.kill()
        server.communicate()
    verdicts.require_coverage(1.0)
    assert "| reference | rb_llm | steady |" in unpadded(text)
    assert "| reference | rl_mtb | steady |" in unpadded(text)
    assert "| judges | 471 of 471 |" in unpadded(text)
    assert "## Card of steady" in text
    assert "same value again" in text
    assert "same value again" not in again
    assert "tokens a prompt" in again, "all is in the cache: the cost is that of the card before"
    words = {rubric.name: rubric.fingerprint for rubric in rubrics_named(["rb_llm"])}
    card = latest_card(tmp_path / "cards", "steady", words)
    faithful = next(row for row in card.rows if (row.rubric, row.measure) == ("rl_f", "pairs as people: faithfulness"))
    assert faithful.n == 53
    assert latest_card(tmp_path / "cards", "steady", {"rb_llm": "other words"}) is None
    assert latest_card(tmp_path / "cards", "other", words) is None


def test_a_metric_without_judges_is_refused(tmp_path: Path) -> None:
    for metric, hint in {"length": "rl_mtb or rl_r", "rl_mt": "rl_mtb"}.items():
        with pytest.raises(ConfigurationError, match=hint):
            calibrate_judges(
                tmp_path, [], secrets=no_secrets, cache_file=tmp_path / "r", cards=tmp_path, metrics=[metric]
            )


@pytest.mark.slow
def test_a_judge_without_verdicts_fails_the_command_after_the_tables(
    mtrag_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAGTASKS_RUNS", str(tmp_path))
    with chat_server(lambda *_: refusal(400, "not today")) as server:
        judge = json.dumps({"model": "mute", "base_url": server.base_url})
        done = run_command("judges", "calibrate", "--data", mtrag_root, "--judge", judge)
    assert done.status == 1
    assert "| ngrams | 471 of 471 | 0.994 |" in unpadded(done.out)
    assert "expected: verdicts on at least 95% of the responses" in done.err
    assert "mute, rb_llm: 0 of " in done.err
    assert not list(tmp_path.rglob("mute*.json")), "a judge without verdicts has no card"


def test_impossible_options_are_refused_before_a_judge_request(mtrag_root: Path, tmp_path: Path) -> None:
    broken = tmp_path / "pairs.json"
    broken.write_text("[{}]")
    judge = '{"model": "m", "base_url": "http://127.0.0.1:9/v1"}'
    ask = partial(calibrate_judges, mtrag_root, secrets=no_secrets, cache_file=tmp_path / "r", cards=tmp_path)
    with pytest.raises(BenchmarkFileError, match="amazon-science/RAGChecker"):
        ask([judge], ragchecker=broken)
    with pytest.raises(ConfigurationError, match="no judge is named"):
        ask([], pairs=True)
    with pytest.raises(ConfigurationError, match="a preset has the official prompts"):
        ask(["mtrag-un-official,base_url=http://127.0.0.1:9/v1"])


def test_broken_judge_is_refused_without_showing_it(mtrag_root: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError) as error:
        calibrate_judges(
            mtrag_root,
            ['{"model": "m", "base_url": "http://u:hunter2@h"'],
            secrets=no_secrets,
            cache_file=tmp_path / "r",
            cards=tmp_path,
        )
    assert "hunter2" not in str(error.value)
