"""What people would say as a combination predicts it: scores of their own beside those of the judges."""

from __future__ import annotations

from pathlib import Path

import pytest

from ragtasks.errors import ConfigurationError
from ragtasks.judges import INPUTS, TARGETS, Combination, rubrics_named, write_combination
from ragtasks.reports.tables import report_sections
from ragtasks.scoring import Place
from tests.scoring._noisy import NoisyServer
from tests.scoring.test_repeats import judged


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.setenv("RAGTASKS_RUNS", str(tmp_path / "store"))
    return Place(tmp_path / "data", tmp_path / "store")


def fitted(tmp_path: Path, judge: str) -> str:
    words = {rubric.name: rubric.fingerprint for rubric in rubrics_named(["rb_llm", "rl_f", "idk"])}
    path = tmp_path / f"{judge}.json"
    found = Combination(
        time="2026-01-01T00:00:00",
        data="made",
        fingerprint="1234",
        judges=(judge,),
        rubrics=words,
        ranges=dict.fromkeys(INPUTS, (0.0, 1.0)),
        weights={"all": {"constant": 1.0, **dict.fromkeys(INPUTS, 0.0), "rb_llm": 2.0}},
        without={name: "people decide too few pairs" for name in TARGETS if name != "all"},
        card={},
    )
    write_combination(path, found)
    return str(path)


def test_answers_have_predicted_ratings_which_the_report_shows(place: Place, tmp_path: Path) -> None:
    with NoisyServer(lambda *_: 0) as server:
        plain = judged(place, tmp_path, server, 20)
        found = judged(place, tmp_path, server, 20, combination=fitted(tmp_path, "noisy"))
        with pytest.raises(ConfigurationError, match="fitted with, other"):
            judged(place, tmp_path, server, 20, combination=fitted(tmp_path, "other"))
    assert "predicted_all" not in plain.rows[0].values
    for row in found.rows:
        rating = row.values["rb_llm"]
        assert row.values["predicted_all"] == (None if rating is None else pytest.approx(1 + 2 * rating))
        assert row.unscored["predicted_win_rate"] == "people decide too few pairs"
        assert row.values["length"]
    assert [row.values["rb_llm"] for row in found.rows] == [row.values["rb_llm"] for row in plain.rows]
    assert found.kind != plain.kind, "scores of another combination do not share a table"
    assert found.kind[2].endswith("combination 1234")
    (section,) = report_sections([found])
    assert "predicted_all" in section.tables[0].columns
