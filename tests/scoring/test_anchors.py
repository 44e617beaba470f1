"""Anchors in evaluations: when they are judged, and reports and comparisons of a changed judge."""

from __future__ import annotations

import json
import shutil
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ragtasks.clients import CallUsage, Usage, endpoint_of
from ragtasks.errors import BenchmarkFileError, ConfigurationError, ImplausibleError, JudgeError
from ragtasks.judges import AnchorVerdicts, Verdict, VerdictOutcome, Verdicts, stored_verdicts
from ragtasks.reports.comparison import compare_evaluations
from ragtasks.reports.tables import report_sections
from ragtasks.results import Evaluation, anchors_in, comparable_evaluations, drift_lines, not_anchored_reason
from ragtasks.scoring import Folders, frozen_anchors, rescore, shared_scorer
from ragtasks.scoring._anchors import AnchorJudging, built_in_anchors
from ragtasks.suites import suite_named
from ragtasks.tables import Section
from tests._commands import CommandResult, run_command
from tests.scoring._noisy import NoisyServer
from tests.scoring.test_judge import SAMPLE, predictions, written
from tests.scoring.test_repeats import judged

N = 40


class Judging:
    """Judges the sample's answers again, as on another day: with an empty cache and a new scorer."""

    def __init__(self, folders: Folders, tmp_path: Path, server: NoisyServer) -> None:
        self._place, self._folder, self._server, self._n = folders, tmp_path, server, 0

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
def test_anchors_are_judged_with_new_requests_only_and_otherwise_keep_their_last_record(
    folders: Folders, tmp_path: Path
) -> None:
    with NoisyServer(steady) as server:
        judging = Judging(folders, tmp_path, server)
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
def test_a_changed_judge_is_detected_and_its_scores_are_marked(
    folders: Folders, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with NoisyServer(noisy, "j-1") as server:
        judging = Judging(folders, tmp_path, server)
        first, second = judging(), judging()
        assert not [text for text in caplog.messages if text.startswith("Drift")]
        server.move = lambda prompt, n_before: noisy(prompt, n_before) - 2
        third = judging()
        (line,) = (text for text in caplog.messages if text.startswith("Drift"))
    assert "noisy judges 40 anchors differently than at" in line
    assert "its server names the same model" in line
    assert len(comparable_evaluations([first, second])) == 1
    apart = comparable_evaluations([first, second, third])
    assert [len(group) for group in apart] == [2, 1]
    assert apart[1][0].judge_drift.startswith("noisy: rb_llm -0.")
    unknown = replace(first, model="without anchors", provenance={})
    assert any(item.judge_drift for group in comparable_evaluations([unknown, first, third]) for item in group)
    found = compare_evaluations([first, second, third], metrics=["rb_llm"])
    assert len(found.pairs) == 1
    with pytest.raises(ConfigurationError, match=r"differ in judges drifted: .*noisy: rb_llm"):
        compare_evaluations([first, third], metrics=["rb_llm"])
    alone, moved = report_sections([first, second]), report_sections([third])
    assert not any("Drift" in text for text in alone[0].conclusion.legend)
    assert any(text.startswith("Drift: noisy") for text in moved[0].conclusion.legend)
    row = table_of_anchors(moved[0])["rb_llm"]
    assert row["difference"].value < -0.05
    assert row["anchors"] == N
    assert not_anchored_reason([anchors_in(first)["noisy"], anchors_in(second)["noisy"]]) == ""
    assert not_anchored_reason([anchors_in(first)["noisy"], anchors_in(third)["noisy"]]).startswith("drift since")


def table_of_anchors(section: Section) -> dict[str, dict[str, Any]]:
    """Return rubric -> row of the table of anchors."""
    (table,) = (table for table in section.tables if table.title == "Anchors")
    rows = [dict(zip(table.columns, row, strict=True)) for row in table.rows]
    return {row["rubric"]: row for row in rows}


@pytest.mark.slow
def test_a_server_that_names_another_model_is_reported_without_drift(
    folders: Folders, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with NoisyServer(steady, "j-1") as server:
        judging = Judging(folders, tmp_path, server)
        first = judging()
        server.model = "j-2"
        second = judging()
    assert any("its server named j-1 then and j-2 now; its verdicts on" in text for text in caplog.messages)
    assert len(comparable_evaluations([first, second])) == 1
    assert not_anchored_reason([anchors_in(first)["noisy"], anchors_in(second)["noisy"]]) == ""


def test_results_without_anchors_have_no_verdicts_on_them(folders: Folders, tmp_path: Path) -> None:
    with NoisyServer(steady) as server:
        judging = Judging(folders, tmp_path, server)
        first = judging(anchors=None)
    assert anchors_in(first) == {}
    assert not_anchored_reason([anchors_in(first).get("noisy")]) == "no anchors were judged"


def frozen(file: Path) -> CommandResult:
    """Freeze the built-in set into a file, and return the result of the command."""
    return run_command("judges", "anchors", "--output", file)


def test_the_command_freezes_a_set_once(folders: Folders, tmp_path: Path) -> None:
    file = tmp_path / "anchors.jsonl"
    done = frozen(file)
    assert done.status == 0
    assert "40 answers of 16 conversations from MTRAG's sample" in done.out
    done = frozen(file)
    assert done.status != 0
    assert "a new set starts a new baseline" in done.err
    head, *rows = map(json.loads, file.read_text().splitlines())
    assert head["n"] == len(rows) == 40


def test_an_edited_set_is_refused_before_any_request(folders: Folders, tmp_path: Path) -> None:
    file = tmp_path / "anchors.jsonl"
    assert frozen(file).status == 0
    file.write_text(file.read_text().replace("the", "teh"))
    with NoisyServer(steady) as server:
        with pytest.raises(BenchmarkFileError, match="edited answers"):
            Judging(folders, tmp_path, server)(anchors=str(file))
        assert server.n_asked == 0


class Asked:
    """Returns verdicts on anchors without any judge, and records the requested judges and run names."""

    def __init__(self) -> None:
        self.value = 0.5
        self.calls: list[tuple[list[str], str]] = []
        self.failure: Exception | None = None
        self.says_nothing = False

    def __call__(self, responses: Any, judges: Any, judging: str) -> Verdicts | None:
        names = [judge.model for judge in judges]
        self.calls.append((names, judging))
        if self.failure is not None:
            raise self.failure
        return None if self.says_nothing else given(responses, names, self.value)


def given(responses: Any, judges: list[str], value: float, n_asked: int = 1) -> Verdicts:
    table = {
        (index, RUBRIC.name, judge): Verdict(
            item.task.task_id, RUBRIC.name, judge, VerdictOutcome.GIVEN, value=value, served_model="m-1"
        )
        for index, item in enumerate(responses)
        for judge in judges
    }
    return Verdicts(responses, [RUBRIC.name], judges, table, {name: Usage(n_asked=n_asked) for name in judges})


RUBRIC = suite_named("mtrag").rubrics()[0]
JUDGES = {name: endpoint_of({"model": name, "base_url": "http://h"}) for name in ("j", "k")}


def judging_of(tmp_path: Path) -> tuple[AnchorJudging, Asked]:
    return AnchorJudging(built_in_anchors(40, tmp_path), [RUBRIC], tmp_path / "store.jsonl"), Asked()


def test_anchors_of_the_sample_use_its_references_and_half_are_right(tmp_path: Path) -> None:
    found = built_in_anchors(40, tmp_path).responses
    assert all(item.passages == item.task.references for item in found)
    assert any(item.passages for item in found)
    assert sum(item.text == item.task.target for item in found) == 20


def test_anchors_are_judged_by_judges_with_requests_and_by_new_judges(tmp_path: Path) -> None:
    judging, asked = judging_of(tmp_path)
    real = {name: given([], [name], 0.5, n_asked=n).usage[name] for name, n in (("j", 3), ("k", 0))}
    verdicts = Verdicts([], [], list(JUDGES), {}, real)
    judging.ask(JUDGES, verdicts, asked)
    assert [names for names, _ in asked.calls] == [["j", "k"]], "k is asked, for it has no earlier time"
    assert asked.calls[0][1].startswith("anchors 20")
    first = {item.judge: item for item in stored_verdicts(tmp_path / "store.jsonl")}
    judging, asked = judging_of(tmp_path)
    judging.ask(JUDGES, verdicts, asked)
    assert [names for names, _ in asked.calls] == [["j"]], "of k the last time counts"
    found = judging.provenance()["anchors"]
    assert found["source"] == "MTRAG's sample, right and wrong answers"
    assert found["set"] == built_in_anchors(40, tmp_path).name
    now = {item["judge"]: item for item in found["judges"]}
    assert now["k"] == {**first["k"].json_values, "baseline": None}
    assert now["j"]["baseline"] == first["j"].json_values
    assert now["j"]["time"] > first["j"].time
    assert len(stored_verdicts(tmp_path / "store.jsonl")) == 3


def test_the_usage_of_anchors_is_summed_by_judge_over_all_times(tmp_path: Path) -> None:
    judging, _ = judging_of(tmp_path)

    def paid(responses: Any, judges: Any, _: str) -> Verdicts:
        found = given(responses, [judge.model for judge in judges], 0.5)
        table = {
            (index, RUBRIC.name, name): replace(
                found.verdict(index, RUBRIC.name, name), calls=(CallUsage(10, 2 if name == "j" else 3),)
            )
            for index in range(len(responses))
            for name in ("j", "k")
        }
        return Verdicts(responses, [RUBRIC.name], ["j", "k"], table, found.usage)

    verdicts = given([], ["j", "k"], 0.5)
    for n_times in (1, 2):
        judging.ask(JUDGES, verdicts, paid)
        found = judging.spending()
        assert set(found) == {"anchors, judge j", "anchors, judge k"}
        amounts = {who: [sum(call[name] for call in calls) for name in ("input_tokens", "output_tokens")]
                   for who, calls in found.items()}  # fmt: skip
        assert amounts == {
            "anchors, judge j": [400 * n_times, 80 * n_times],
            "anchors, judge k": [400 * n_times, 120 * n_times],
        }


def test_a_frozen_set_of_results_contains_their_own_answers(folders: Folders, tmp_path: Path) -> None:
    assert frozen_anchors([], 20, tmp_path) == built_in_anchors(20, tmp_path)
    given = {key: value for key, value in SAMPLE.items() if key not in {"benchmark", "setting"}}

    def results(name: str, text: str) -> Path:
        rows = [{**row, "predictions": [{"text": text}]} for row in predictions(108)]
        file = written(tmp_path / "in" / f"{name}.jsonl", rows)
        folder = tmp_path / name
        with suppress(ImplausibleError):
            rescore([file], given, folder, folders, benchmark="mtrag", setting="full_rag", may_replace=lambda _: True)
        return folder

    one, two, empty = results("one", "It is one."), results("two", "It is two."), results("empty", "")
    found = frozen_anchors([one, two], 40, tmp_path)
    assert (found.source, len(found.responses)) == ("one, two", 40)
    assert {item.text for item in found.responses} == {"It is one.", "It is two."}
    with pytest.raises(ConfigurationError, match=rf"^{empty}: no answers\. Next step: name results with answers"):
        frozen_anchors([empty], 20, tmp_path)


def test_anchors_that_cannot_be_judged_are_a_warning_without_verdicts(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    judging, asked = judging_of(tmp_path)
    asked.failure = JudgeError("no key")
    verdicts = given([], ["j"], 0.5)
    judging.ask({"j": JUDGES["j"]}, verdicts, asked)
    assert caplog.messages == ["anchors: not judged, so drift is unknown: no key"]
    assert judging.provenance() == {}
    asked.failure, asked.says_nothing = None, True
    judging.ask({"j": JUDGES["j"]}, verdicts, asked)
    assert (judging.provenance(), stored_verdicts(tmp_path / "store.jsonl")) == ({}, [])


def test_other_prompts_or_another_set_start_another_record(tmp_path: Path) -> None:
    judging, asked = judging_of(tmp_path)
    idle = given([], ["j"], 0.5, n_asked=0)
    judging.ask({"j": JUDGES["j"]}, idle, asked)
    for anchors, rubric in (
        (built_in_anchors(30, tmp_path), RUBRIC),
        (built_in_anchors(40, tmp_path), suite_named("mtrag").rubrics()[1]),
    ):
        other = AnchorJudging(anchors, [rubric], tmp_path / "store.jsonl")
        again = Asked()
        again.says_nothing = True
        other.ask({"j": JUDGES["j"]}, idle, again)
        assert len(again.calls) == 1
        assert other.provenance() == {}


def record(values: list[float], **changes: Any) -> AnchorVerdicts:
    fields: dict[str, Any] = {
        **{"judge": "j", "anchors": "set", "time": "2026-01-01T00:00:00.123", "rubrics": {"r": "w", "s": "x"}},
        **{"conversations": tuple(index // 2 for index in range(len(values)))},
        **{"values": {"r": tuple(values), "s": tuple(0.5 for _ in values)}, "served": {"m-1": len(values)}},
    }
    return AnchorVerdicts(**{**fields, **changes})


def test_a_drifted_judge_is_reported_in_one_line() -> None:
    before = record([0.5 + 0.01 * (index % 9) for index in range(40)])
    moved = [0.4 + 0.012 * (index % 9) for index in range(40)]
    (line,) = drift_lines([record(moved)], {"j": before})
    assert line == (
        "Drift: j judges 40 anchors differently than at 2026-01-01T00:00: r -0.092 (p <0.001); its server names the "
        "same model. Scores before and after are not comparable."
    )
    (line,) = drift_lines([record(moved, served={"m-2": 40})], {"j": before})
    assert "r -0.092 (p <0.001); its server named m-1 then and m-2 now. Scores before" in line


def test_a_judge_with_another_served_model_is_reported_without_drift() -> None:
    before = record([0.5] * 40)
    (line,) = drift_lines([record([0.5] * 40, served={"m-2": 30, "m-1": 10})], {"j": before})
    assert line == (
        "Judge changed: j: its server named m-1 then and m-2, m-1 now; its verdicts on the anchors show no drift."
    )
    for silent in (record([0.5] * 40), record([0.5] * 40, served={}), record([0.5] * 40, judge="k")):
        assert list(drift_lines([silent], {"j": before})) == []
    assert list(drift_lines([record([0.1] * 40, conversations=(0,) * 40)], {"j": before})) == []
    assert list(drift_lines([record([0.1] * 40)], {"j": None})) == []
