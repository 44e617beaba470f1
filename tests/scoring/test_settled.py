"""`skip_settled`: no judge requests for scores that a refusal determines, and unchanged scores."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ragtasks.config import config_from_options
from ragtasks.errors import ConfigurationError
from ragtasks.metrics import IdkLabel
from ragtasks.records import IdkVerdict
from ragtasks.results import Evaluation, read_evaluations
from ragtasks.scoring import Folders, rescore
from ragtasks.scoring._judging import _is_settled
from tests.judges._scripted import response
from tests.scoring._noisy import NoisyServer
from tests.scoring.test_judge import SAMPLE, predictions, written
from tests.scoring.test_repeats import judged

CONDITIONED = ("rb_llm", "rl_f")


def steady(_prompt: str, _n_before: int) -> int:
    """Return a constant rating."""
    return 0


def unscored_of(evaluation: Evaluation, metric: str) -> set[str]:
    return {row.task.task_id for row in evaluation.rows if row.values[metric] is None}


@pytest.mark.parametrize("idk", [None, "ngrams"])
def test_scores_are_equal_with_fewer_judge_requests(folders: Folders, tmp_path: Path, idk: str | None) -> None:
    options: dict[str, Any] = {} if idk is None else {"idk": idk}
    with NoisyServer(steady) as server:
        less = judged(folders, tmp_path / "less", server, 40, skip_settled=True, **options)
        n_less = server.n_asked
        whole = judged(folders, tmp_path / "whole", server, 40, **options)
    assert 0 < n_less < server.n_asked  # earlier requests come from the cache
    for row, other in zip(less.rows, whole.rows, strict=True):
        assert {name: row.values[name] for name in CONDITIONED} == {name: other.values[name] for name in CONDITIONED}
    settled = unscored_of(less, "rb_llm_raw") - unscored_of(whole, "rb_llm_raw")
    assert settled
    assert unscored_of(whole, "rb_llm_raw") == set()
    assert settled <= unscored_of(less, "rl_f_raw")
    assert {row.values["judge_coverage"] for row in less.rows} == {1.0}
    for file in (tmp_path / "less").rglob("samples_*.jsonl"):
        for doc in (json.loads(line)["doc"] for line in file.read_text(encoding="utf-8").splitlines()):
            reason = doc["scoring"]["unscored"].get("rb_llm_raw", "")
            assert ("not sent to judges: a refusal" in reason) == (doc["task_id"] in settled)


def test_repeats_and_anchors_are_judged_with_skip_settled_too(folders: Folders, tmp_path: Path) -> None:
    with NoisyServer(steady) as server:
        found = judged(folders, tmp_path, server, 30, skip_settled=True, repeats=2, repeat_share=1.0, anchors=20)
    again = [(row.values["rb_llm"], row.again[0]["rb_llm"]) for row in found.rows if row.again]
    assert again
    assert all(one == two for one, two in again)
    (anchors,) = {len(facts["scoring"]["anchors"]["judges"][0]["conversations"]) for facts in found.provenance.values()}
    assert anchors == 20  # complete: drift covers all rubrics


def test_a_model_that_always_refuses_has_scores_too(folders: Folders, tmp_path: Path) -> None:
    rows = [{**row, "predictions": [{"text": "I don't know."}]} for row in predictions(12)]
    file = written(tmp_path / "in" / "m.jsonl", rows)
    options = {key: value for key, value in SAMPLE.items() if key not in {"benchmark", "setting"}}
    with NoisyServer(steady) as server:
        given = {**options, "judges": [server.judge()], "skip_settled": True, "max_implausible": 1.0}
        rescore([file], given, tmp_path / "out", folders, benchmark="mtrag", setting="full_rag")
        assert server.n_asked <= 12  # only whether a response refuses
    (evaluation,) = read_evaluations([tmp_path / "out"])
    assert all(row.values["rb_llm"] is not None for row in evaluation.rows)
    assert [row.values["rl_f"] for row in evaluation.rows] == [row.values["rb_llm"] for row in evaluation.rows]


def test_a_text_without_an_answer_is_no_refusal() -> None:
    label = IdkLabel(IdkVerdict.YES, "")
    assert _is_settled(response("I don't know."), label)
    assert not _is_settled(response(""), label)


def test_skip_settled_is_refused_with_official_prompts() -> None:
    with pytest.raises(ConfigurationError, match="leave one of the two out"):
        config_from_options({"skip_settled": True, "prompts": "official", "judges": ["openai/any"]})
