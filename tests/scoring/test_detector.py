"""The recorded source of IDK labels."""

from __future__ import annotations

from pathlib import Path

import pytest

from ragtasks.benchmarks import benchmark_folder, open_benchmark
from ragtasks.config import config_from_options
from ragtasks.results import ScoredAnswer
from ragtasks.scoring import ResponseScorer
from tests.clients._server import chat_server, completion
from tests.judges._demo import _demo
from tests.judges._scripted import response


def test_a_judge_is_the_recorded_detector_even_if_the_rules_decided_a_later_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAGTASKS_RUNS", str(tmp_path))
    verdict = _demo().verdict
    script = lambda prompt, _: completion("Well," if "zebra" in prompt else verdict(prompt))  # noqa: E731
    with chat_server(script) as server:
        judge = {"model": "steady", "base_url": server.base_url}
        config = config_from_options({"encoder": "none", "judges": [judge], "min_judge_coverage": 0.0})
        sample = open_benchmark("mtrag", benchmark_folder("mtrag", "sample", Path()).resolve())
        scorer = ResponseScorer(sample, config)
        detectors = []
        for text in ("It lies in the zebra.", "From April.", "It is in the zebra."):
            scorer.score([ScoredAnswer(response(text), "reference")])
            detectors.append(scorer.provenance()["idk_detector"])
    assert detectors == ["ngrams-2", "judge steady", "judge steady"]
    assert scorer.provenance()["idk_by_stand_in"] == 2


def test_the_encoder_decides_if_configured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAGTASKS_RUNS", str(tmp_path))
    sample = open_benchmark("mtrag", benchmark_folder("mtrag", "sample", Path()).resolve())
    scorer = ResponseScorer(sample, config_from_options({"encoder": "none", "idk": "encoder"}))
    scored = scorer.score(
        [ScoredAnswer(response(text), "reference") for text in ("I came up empty on that one, sorry.", "From April.")]
    )
    assert [row.idk for row in scored] == ["yes", "no"]
    assert scorer.provenance()["idk_detector"] == "encoder-5"
    assert not config_from_options({"idk": "encoder", "judges": ["openai/x"]}).idk_by_judges
