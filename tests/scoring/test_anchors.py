"""Anchors beside the real work: when they are asked, and what reports and comparisons say of a judge that changed."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ragtasks.cli import main
from ragtasks.errors import BenchmarkFileError, ConfigurationError
from ragtasks.reports.comparison import compare_evaluations
from ragtasks.reports.tables import report_sections
from ragtasks.results import Evaluation, anchors_in, comparable_evaluations, why_not_anchored
from ragtasks.scoring import Place, shared_scorer
from ragtasks.tables import Section
from tests.scoring._noisy import NoisyServer
from tests.scoring.test_repeats import judged

N = 40


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.setenv("RAGTASKS_RUNS", str(tmp_path / "store"))
    monkeypatch.setenv("RAGTASKS_DATA", str(tmp_path / "data"))  # without the human evaluation: the sample's answers
    return Place(tmp_path / "data", tmp_path / "store")


class Judging:
    """Judges the sample's answers anew, as on another day: nothing is in the cache and no scorer is at hand."""

    def __init__(self, place: Place, tmp_path: Path, server: NoisyServer) -> None:
        self._place, self._folder, self._server, self._n = place, tmp_path, server, 0

    def __call__(self, *, cached: bool = False, anchors: int | str | None = N) -> Evaluation:
        self._n += 1
        shared_scorer.cache_clear()
        if not cached:
            for file in (self._folder / "store").glob("replies.sqlite*"):
                file.unlink()
        folder = self._folder / f"day{self._n}"
        shutil.rmtree(folder, ignore_errors=True)
        return judged(self._place, folder, self._server, 30, anchors=anchors)


def steady(prompt: str, _: int) -> int:
    return -(len(prompt) % 3)


def noisy(prompt: str, n_before: int) -> int:
    return -(len(prompt) % 3) - (len(prompt) + n_before) % 2


@pytest.mark.slow
def test_anchors_are_asked_where_the_judge_is_asked_and_else_the_last_time_counts(place: Place, tmp_path: Path) -> None:
    with NoisyServer(steady) as server:
        judging = Judging(place, tmp_path, server)
        first = judging()
        n_first = server.n_asked
        again = judging(cached=True)
        assert server.n_asked == n_first
        without = judging(cached=True, anchors=None)
        assert server.n_asked == n_first
    now = anchors_in(first)["noisy"].now
    assert len(now.values["rb_llm"]) == len(now.conversations) == N
    assert sum(value is not None for value in now.values["rb_llm"]) == N
    assert len(set(now.conversations)) >= 10
    assert anchors_in(first)["noisy"].baseline is None
    assert anchors_in(again)["noisy"].now == now
    assert anchors_in(without) == {}
    assert [row.values for row in first.rows] == [row.values for row in without.rows]
    assert len((tmp_path / "store" / "anchors.jsonl").read_text().split()) == 1


@pytest.mark.slow
def test_a_judge_that_changed_is_found_and_its_scores_stand_apart(
    place: Place, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with NoisyServer(noisy, "j-1") as server:
        judging = Judging(place, tmp_path, server)
        first, second = judging(), judging()
        assert not [text for text in caplog.messages if text.startswith("Drift")]
        server.move = lambda prompt, n_before: noisy(prompt, n_before) - 2
        third = judging()
        (line,) = (text for text in caplog.messages if text.startswith("Drift"))
    assert "noisy judges 40 anchors otherwise" in line
    assert "its server names the same model" in line
    assert len(comparable_evaluations([first, second])) == 1
    apart = comparable_evaluations([first, second, third])
    assert [len(group) for group in apart] == [2, 1]
    assert apart[1][0].judge_drift.startswith("noisy: rb_llm -0.")
    unknown = replace(first, model="without anchors", provenance={})
    assert any(item.judge_drift for group in comparable_evaluations([unknown, first, third]) for item in group)
    found = compare_evaluations([first, second, third], metrics=["rb_llm"])
    assert len(found.pairs) == 1
    with pytest.raises(ConfigurationError, match="judges drifted: noisy: rb_llm"):
        compare_evaluations([first, third], metrics=["rb_llm"])
    alone, moved = report_sections([first, second]), report_sections([third])
    assert alone[0].conclusion
    assert moved[0].conclusion
    assert not any("Drift" in text for text in alone[0].conclusion.legend)
    assert any(text.startswith("Drift: noisy") for text in moved[0].conclusion.legend)
    row = table_of_anchors(moved[0])["rb_llm"]
    assert row["difference"].value < -0.05
    assert row["anchors"] == N
    assert why_not_anchored([anchors_in(first)["noisy"], anchors_in(second)["noisy"]]) == ""
    assert why_not_anchored([anchors_in(first)["noisy"], anchors_in(third)["noisy"]]).startswith("drift since")


def table_of_anchors(section: Section) -> dict[str, dict[str, Any]]:
    """Return rubric -> row of the table of anchors."""
    (table,) = (table for table in section.tables if table.title == "Anchors")
    rows = [dict(zip(table.columns, row, strict=True)) for row in table.rows]
    return {row["rubric"]: row for row in rows}


@pytest.mark.slow
def test_a_server_that_names_another_model_is_named_without_drift(
    place: Place, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with NoisyServer(steady, "j-1") as server:
        judging = Judging(place, tmp_path, server)
        first = judging()
        server.model = "j-2"
        second = judging()
    assert any("its server named j-1 then and j-2 now; its verdicts on" in text for text in caplog.messages)
    assert len(comparable_evaluations([first, second])) == 1
    assert why_not_anchored([anchors_in(first)["noisy"], anchors_in(second)["noisy"]]) == ""


def test_without_anchors_no_judge_is_anchored(place: Place, tmp_path: Path) -> None:
    with NoisyServer(steady) as server:
        judging = Judging(place, tmp_path, server)
        first = judging(anchors=None)
    assert anchors_in(first) == {}
    assert why_not_anchored([anchors_in(first).get("noisy")]) == "no anchors were asked"


def frozen(file: Path) -> object:
    """Return the status of the command."""
    with pytest.raises(SystemExit) as ended:
        main(["judges", "anchors", "--output", str(file)])
    return ended.value.code


def test_the_command_freezes_a_set_once(place: Place, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "anchors.jsonl"
    assert frozen(file) == 0
    assert "40 answers of 16 conversations from MTRAG's sample" in capsys.readouterr().out
    assert frozen(file) != 0
    assert "another set begins another baseline" in capsys.readouterr().err
    head, *rows = map(json.loads, file.read_text().splitlines())
    assert head["n"] == len(rows) == 40


def test_an_edited_set_ends_before_any_judge_is_asked(place: Place, tmp_path: Path) -> None:
    file = tmp_path / "anchors.jsonl"
    assert frozen(file) == 0
    file.write_text(file.read_text().replace("the", "teh"))
    with NoisyServer(steady) as server:
        with pytest.raises(BenchmarkFileError, match="it was edited"):
            Judging(place, tmp_path, server)(anchors=str(file))
        assert server.n_asked == 0
