"""Answers that are judged several times: requests, records and reports."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ragtasks.reports.tables import ReportOptions, report_sections
from ragtasks.results import Evaluation, read_evaluations
from ragtasks.scoring import Folders, rescore
from ragtasks.scoring._judging import judged_again
from ragtasks.tables import Section
from tests.scoring._noisy import NoisyServer
from tests.scoring.test_judge import SAMPLE, predictions, written


def unsteady(prompt: str, n_before: int) -> int:
    """Return a step down for every third answer, the second time it is rated."""
    return -(n_before % 2) if len(prompt) % 3 == 0 else 0


def judged(folders: Folders, tmp_path: Path, server: NoisyServer, n: int = 112, **options: Any) -> Evaluation:
    """Return the sample's first answers with the server's verdicts."""
    file = written(tmp_path / "in" / "m.jsonl", predictions(n))
    given = {key: value for key, value in SAMPLE.items() if key not in {"benchmark", "setting"}}
    rescore(
        [file],
        {**given, "judges": [server.judge()], **options},
        tmp_path / "out",
        folders,
        benchmark="mtrag",
        setting="full_rag",
        may_replace=lambda _: True,
    )
    (evaluation,) = read_evaluations([tmp_path / "out"])
    return evaluation


def table_of(section: Section, title: str) -> dict[str, dict[str, Any]]:
    (table,) = (table for table in section.tables if table.title == title)
    rows = [dict(zip(table.columns, row, strict=True)) for row in table.rows]
    return {row["metric"]: row for row in rows}


def test_a_share_of_the_answers_is_judged_again_once_and_scores_are_unchanged(folders: Folders, tmp_path: Path) -> None:
    with NoisyServer(unsteady) as server:
        once = judged(folders, tmp_path, server, 30)
        n_once = server.n_asked
        twice = judged(folders, tmp_path, server, 30, repeats=2, repeat_share=0.5)
        n_twice = server.n_asked
        judged(folders, tmp_path, server, 30, repeats=2, repeat_share=0.5)
        assert server.n_asked == n_twice  # a repeat has its own entries in the cache
    assert [row.values for row in twice.rows] == [row.values for row in once.rows]
    again = [row for row in twice.rows if row.again]
    assert 0.5 * len(twice.rows) <= len(again) <= 0.8 * len(twice.rows)
    chosen = {row.task.conversation_id for row in again}
    assert {row.task.task_id for row in again} == {
        row.task.task_id for row in twice.rows if row.task.conversation_id in chosen
    }
    assert 0.4 * n_once < n_twice - n_once < 0.85 * n_once
    moved = [row for row in again if row.again[0]["rb_llm_raw"] != row.values["rb_llm_raw"]]
    assert 0 < len(moved) < len(again)
    assert all(row.again[0]["rl_f"] == row.values["rl_f"] for row in again)
    (repeats,) = {json.dumps(facts["scoring"]["repeats"]) for facts in twice.provenance.values()}
    assert json.loads(repeats) == {"judgings": 2, "answers": len(again)}
    lines = (tmp_path / "out").rglob("samples_*.jsonl")
    notes = [json.loads(line)["doc"]["scoring"] for file in lines for line in file.read_text().splitlines()]
    kept = [note["repeats"][0]["verdicts"] for note in notes if "repeats" in note]
    assert len(kept) == len(again)
    assert all(verdict["replies"] for verdicts in kept for verdict in verdicts if verdict["outcome"] == "given")


def remarks_of(section: Section) -> list[str]:
    (table,) = (table for table in section.tables if table.title == "Remarks")
    return [str(row[0]) for row in table.rows]


@pytest.mark.slow
def test_a_report_shows_how_far_scores_move_or_that_it_is_unknown(folders: Folders, tmp_path: Path) -> None:
    with NoisyServer(unsteady) as server:
        (once,) = report_sections([judged(folders, tmp_path, server)])
        (section,) = report_sections([judged(folders, tmp_path, server, repeats=2, repeat_share=1)])
    assert "every verdict was requested once" in once.heading
    assert "every verdict was requested once" not in section.heading
    assert all(table.title != "Judged again" for table in once.tables)
    rows = table_of(section, "Judged again")
    assert {"rb_llm", "rb_llm_raw", "rl_f"} <= rows.keys()
    assert "rouge_l" not in rows
    assert "judge_coverage" not in rows
    moved = rows["rb_llm_raw"]
    assert 0 < moved["identical"].value < 1
    assert moved["mean moves by"].low < moved["mean moves by"].value < moved["mean moves by"].high
    assert rows["rl_f"]["remark"] == "every value is the same each time"
    (line,) = (text for text in remarks_of(section) if text.startswith("Judged 2 times"))
    assert "rl_f is identical on 108 answers" in line


@pytest.mark.slow
def test_repeats_that_shift_together_widen_the_interval(folders: Folders, tmp_path: Path) -> None:
    def lower_the_second_time(prompt: str, n_before: int) -> int:
        return -2 * n_before - len(prompt) % 2

    with NoisyServer(lower_the_second_time) as server:
        (once,) = report_sections([judged(folders, tmp_path, server)], ReportOptions(metrics=("rb_llm_raw",)))
        (section,) = report_sections(
            [judged(folders, tmp_path, server, repeats=2, repeat_share=1)], ReportOptions(metrics=("rb_llm_raw",))
        )
    assert once.conclusion
    before, after = (one.conclusion.rows[0][3] for one in (once, section) if one.conclusion)
    assert before.value == after.value
    assert after.high - after.low > 1.5 * (before.high - before.low)
    assert any("complete judgings shift by" in text for text in remarks_of(section))


@pytest.mark.slow
def test_a_constant_and_a_changing_judge_are_reported(folders: Folders, tmp_path: Path) -> None:
    with NoisyServer(lambda *_: -9, "m-2026-01") as server:
        asked = iter(range(10_000))

        def change(*_: object) -> int:
            server.model = "m-2026-02" if next(asked) > 60 else "m-2026-01"
            return -9

        server.move = change
        (section,) = report_sections([judged(folders, tmp_path, server)])
    assert any("noisy gave 0.100 under rb_llm to all 108 answers" in text for text in section.conclusion.legend)
    (line,) = (text for text in section.conclusion.legend if text.startswith("Judge changed"))
    assert "m-2026-01 for" in line
    assert "m-2026-02 for" in line


def test_the_answers_judged_again_depend_on_their_conversations_only() -> None:
    names = [f"c{index % 20}" for index in range(100)]
    few, more = judged_again(names, 0.2), judged_again(names, 0.5)
    assert len(few) == 20
    assert set(few) < set(more)
    assert judged_again(list(reversed(names)), 0.2) == [99 - index for index in reversed(few)]
    assert judged_again(names, 1) == list(range(100))
    assert judged_again([], 0.5) == []


def test_the_order_of_conversations_to_judge_again_depends_on_their_names_but_is_not_alphabetical() -> None:
    names = [f"c{number:02d}" for number in range(40) for _ in range(3)]
    half = judged_again(names, 0.5)
    assert len(half) == 60
    chosen = {names[index] for index in half}
    assert chosen != set(sorted(set(names))[:20])
    assert chosen == {names[::-1][index] for index in judged_again(names[::-1], 0.5)}
    assert set(judged_again(names, 0.25)) < set(half)
    without = [name for name in names if name not in sorted(chosen)[:5]]
    assert {without[index] for index in judged_again(without, 0.5)} > chosen - set(sorted(chosen)[:5])
