"""Usage of model and judges, compared with the usage that their servers report."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ragtasks.benchmarks import benchmark_folder, open_benchmark
from ragtasks.clients import Spent, system_endpoint
from ragtasks.config.environment import secret
from ragtasks.errors import RagtasksError
from ragtasks.records import Setting
from ragtasks.reports.tables import ReportOptions, report_sections
from ragtasks.results import Evaluation, ScoredAnswer, read_answers, read_evaluations
from ragtasks.scoring import Folders, ScoredSystem, System, ask_endpoint, rescore, score_answers, system_to_score
from ragtasks.tables import Table
from tests.clients._server import Action, ChatServer, chat_server, completion, refusal
from tests.judges._demo import QUICK, _demo

N_TASKS = 108
PRICE = [2.0, 8.0, 1.0]


class CountingServer:
    """A server that sums the usage it reports: each reply has its own tokens, some cached."""

    def __init__(self, reply: Callable[[str, int], Action | str]) -> None:
        self._reply, self._lock = reply, threading.Lock()
        self.reported: Counter[str] = Counter()

    def script(self, text: str, n_before: int) -> Action:
        found = self._reply(text, n_before)
        if isinstance(found, Action):
            return found
        with self._lock:
            number = self.reported["n"]
            usage = {"prompt_tokens": len(text.split()) + number, "completion_tokens": 1 + number % 7}
            self.reported.update({"n": 1, **usage, "cached": usage["prompt_tokens"] // 3})
        return completion(
            found, usage={**usage, "prompt_tokens_details": {"cached_tokens": usage["prompt_tokens"] // 3}}
        )

    @property
    def sums(self) -> tuple[int, int, int]:
        return self.reported["prompt_tokens"], self.reported["completion_tokens"], self.reported["cached"]


def spent(rows: Iterable[ScoredAnswer], who: str, *kinds: Spent, is_used: bool | None = None) -> tuple[int, ...]:
    calls = [call for row in rows for call in row.spending.get(who, ())]
    chosen = [
        call
        for call in calls
        if Spent(call.get("spent", "now")) in kinds and is_used in {None, call.get("is_used", True)}
    ]
    return tuple(sum(call.get(key, 0) for call in chosen) for key in ("input_tokens", "output_tokens", "cached_tokens"))


def asked_of(server: ChatServer, folder: Path, folders: Folders, **endpoint: Any) -> list[ScoredAnswer]:
    """Send every task of the sample to a system, and return its rows."""
    named = {"base_url": server.base_url, **QUICK, "price": PRICE, **endpoint}
    system = System(*system_endpoint(named, "mine", "openai"), secret)
    scored = ScoredSystem("mine", "mtrag", Setting.FULL_RAG, folder)
    answering = ask_endpoint(system, Setting.FULL_RAG, folders.run_store)
    options = {"data": "sample", "encoder": "none", "max_implausible": 1.0}
    score_answers(system_to_score(scored, answering, options, folder, folders, may_replace=lambda _: True), folders)
    (evaluation,) = read_evaluations([folder])
    return list(evaluation.rows)


def judged_by(
    server: ChatServer,
    results: Path,
    output: Path,
    folders: Folders,
    options: Mapping[str, Any] | None = None,
    **judge: Any,
) -> list[ScoredAnswer]:
    named = {"model": "judge", "base_url": server.base_url, **QUICK, "price": PRICE, **judge}
    rescore(
        [results],
        {"judges": [named], "encoder": "none", "min_judge_coverage": 0.0, **(options or {})},
        output,
        folders,
        may_replace=lambda _: True,
    )
    (evaluation,) = read_evaluations([output])
    return list(evaluation.rows)


NOW, BEFORE = Spent.NOW, Spent.BEFORE


def all_calls(evaluation: Evaluation) -> list[Mapping[str, Any]]:
    """Return the usage of all replies, once each, including replies that belong to no row."""
    parts = [*(row.spending for row in evaluation.rows), evaluation.spending]
    calls = [call for part in parts for calls in part.values() for call in calls]
    return [call for call in calls if call.get("spent") != Spent.SHARED.value]


def summed(calls: Iterable[Mapping[str, Any]]) -> tuple[int, int, int]:
    given = list(calls)
    n_input, n_output, n_cached = (
        sum(call.get(name, 0) for call in given) for name in ("input_tokens", "output_tokens", "cached_tokens")
    )
    return n_input, n_output, n_cached


def spending_table(evaluations: Sequence[Evaluation]) -> Table:
    (section,) = report_sections(evaluations, ReportOptions())
    (table,) = [item for item in section.tables if item.title == "Quality against cost"]
    return table


def test_the_sum_over_answers_is_the_usage_reported_by_the_server(tmp_path: Path, folders: Folders) -> None:
    def reply(text: str, n_before: int) -> Action | str:
        number = len(text)
        if number % 5 == 0 and not n_before:
            return refusal(500)  # retried
        return "" if number % 11 == 0 else f"It is {number}."

    counting = CountingServer(reply)
    with chat_server(counting.script) as server:
        rows = asked_of(server, tmp_path / "out", folders)
    assert len(rows) == N_TASKS
    assert spent(rows, "model", NOW) == counting.sums
    values = [row.values for row in rows]
    assert sum(item["tokens"] or 0 for item in values) == sum(counting.sums[:2])
    n_input, n_output, n_cached = counting.sums
    dollars = ((n_input - n_cached) * 2.0 + n_cached * 1.0 + n_output * 8.0) / 1e6
    assert sum(item["cost_per_1000"] or 0 for item in values) / 1000 == pytest.approx(dollars)
    assert all((item["seconds"] or 0) > 0 for item in values)


@pytest.fixture
def saved(tmp_path: Path, folders: Folders) -> Path:
    """Answers of a system, one of them twice: two judge prompts are then equal."""
    benchmark_answers = tmp_path / "answers.jsonl"
    benchmark = open_benchmark("mtrag", benchmark_folder("mtrag", "sample", Path()).resolve())
    contexts = benchmark.read_contexts(Setting.REFERENCE).passages
    tasks = [task for task in benchmark.tasks if task.task_id in contexts][:12]
    lines = [{"id": task.task_id, "answer": task.target or "I do not know."} for task in tasks]
    benchmark_answers.write_text("".join(json.dumps(line) + "\n" for line in lines))
    scored = ScoredSystem("mine", "mtrag", Setting.REFERENCE, benchmark_answers)
    options = {"data": "sample", "encoder": "none", "max_implausible": 1.0}
    answers = system_to_score(
        scored,
        lambda opened, _config, _file: read_answers(benchmark_answers, opened),
        options,
        tmp_path / "saved",
        folders,
    )
    score_answers(answers, folders)
    return tmp_path / "saved"


def test_the_sum_over_verdicts_is_the_judges_usage_including_failures_and_parallel_requests(
    saved: Path, tmp_path: Path, folders: Folders
) -> None:
    verdict = _demo().verdict

    def reply(text: str, n_before: int) -> Action | str:
        if len(text) % 7 == 0 and not n_before:
            return refusal(503)
        return "I would rather not say." if len(text) % 3 == 0 else str(verdict(text))

    counting = CountingServer(reply)
    with chat_server(counting.script) as server:
        rows = judged_by(server, saved, tmp_path / "judged", folders)
        n_asked = counting.reported["n"]
        again = judged_by(server, saved, tmp_path / "again", folders)
    unused = spent(rows, "judge judge", NOW, is_used=False)
    assert unused[0] > 0
    assert spent(rows, "judge judge", NOW, is_used=True)[0] > 0
    # Prompts without a verdict are sent again by the second evaluation; the others are cached.
    both = [sum(parts) for parts in zip(spent(rows, "judge judge", NOW), spent(again, "judge judge", NOW), strict=True)]
    assert tuple(both) == counting.sums
    assert n_asked < counting.reported["n"]
    first = spent(rows, "judge judge", NOW, is_used=True)
    assert spent(again, "judge judge", BEFORE, is_used=True) == first
    assert any("judge_cost_per_1000" in row.values for row in rows)


@pytest.mark.slow
def test_a_judge_lost_and_requested_again_has_every_reply_counted_once(
    saved: Path, tmp_path: Path, folders: Folders
) -> None:
    verdict, lost_at = _demo().verdict, [17]

    def reply(text: str, n_before: int) -> Action | str:
        if lost_at and counting.reported["n"] >= lost_at[0]:
            return refusal(401)
        return "no" if len(text) % 4 == 0 else str(verdict(text))

    counting = CountingServer(reply)
    with chat_server(counting.script) as server:
        lines = judged_lost(server, saved, tmp_path / "lost", folders)
        assert lines
        lost_at.clear()
        rows = judged_by(server, saved, tmp_path / "judged", folders, slots=1)
    now, before = spent(rows, "judge judge", NOW), spent(rows, "judge judge", BEFORE)
    assert before[0] > 0
    assert tuple(map(sum, zip(now, before, strict=True))) == counting.sums


def judged_lost(server: ChatServer, results: Path, output: Path, folders: Folders) -> str:
    with pytest.raises(RagtasksError, match="key") as found:
        judged_by(server, results, output, folders, slots=1)
    return str(found.value)


@pytest.mark.slow
def test_the_sum_includes_the_anchors(saved: Path, tmp_path: Path, folders: Folders) -> None:
    verdict = _demo().verdict
    counting = CountingServer(lambda text, _: "no" if len(text) % 5 == 0 else str(verdict(text)))
    with chat_server(counting.script) as server:
        judged_by(server, saved, tmp_path / "judged", folders, options={"anchors": 20, "repeats": 2})
    (evaluation,) = read_evaluations([tmp_path / "judged"])
    (who,) = evaluation.spending
    assert who == "anchors, judge judge"
    assert summed(evaluation.spending[who])[0] > 0
    assert summed(all_calls(evaluation)) == counting.sums
    dollars = sum(call["dollars"] for call in all_calls(evaluation))
    n_input, n_output, n_cached = counting.sums
    assert dollars == pytest.approx(((n_input - n_cached) * 2.0 + n_cached * 1.0 + n_output * 8.0) / 1e6)
    lines = spending_table([evaluation]).legend
    assert any(line.startswith("mine, anchors, judge judge: spent ") for line in lines)
    assert f"mine, total: spent {n_input:,} + {n_output:,} tokens in {counting.reported['n']:,} re" in lines[-1]


@pytest.mark.slow
@pytest.mark.parametrize("where", ["verdicts", "anchors"])
def test_a_killed_and_resumed_run_counts_every_reply_except_those_in_flight(
    saved: Path, tmp_path: Path, folders: Folders, where: str
) -> None:
    verdict, held = _demo().verdict, threading.Event()
    last: Counter[str] = Counter()

    def reply(text: str, _: int) -> Action:
        before = Counter(counting.reported)
        found = counting.script(text, 0)
        if not held.is_set() and counting.reported["n"] == (20 if where == "verdicts" else 80):
            last.update(counting.reported - before)
            held.set()
            return replace(found, delay_seconds=60.0)  # counted, but killed before the reply arrives
        return found

    counting = CountingServer(lambda text, _: "no" if len(text) % 5 == 0 else str(verdict(text)))
    options = {"anchors": 20}
    with chat_server(reply) as server:
        judge = {"model": "judge", "base_url": server.base_url, **QUICK, "slots": 1, "price": PRICE}
        command = ["score", str(saved), "--judge", json.dumps(judge), "--metadata", "anchors=20", "--encoder", "none"]
        command += ["--no-probe", "--metadata", "min_judge_coverage=0", "--output", str(tmp_path / "killed")]
        environment = {**os.environ, "RAGTASKS_DATA": str(folders.data_folder), "RAGTASKS_RUNS": str(folders.run_store)}
        with subprocess.Popen([sys.executable, "-m", "ragtasks", *command], env=environment) as process:
            assert held.wait(60)
            process.kill()
        judged_by(server, saved, tmp_path / "judged", folders, options=options, slots=1)
    (evaluation,) = read_evaluations([tmp_path / "judged"])
    calls = all_calls(evaluation)
    of_anchors = {call.get("spent") for call in evaluation.spending["anchors, judge judge"]}
    assert of_anchors == ({None} if where == "verdicts" else {None, "before"})
    lost = [call for call in calls if not call.keys() & {"input_tokens", "seconds"}]
    assert sum(call.get("n", 1) for call in lost) == 1
    expected = (counting.sums[0] - last["prompt_tokens"], counting.sums[1] - last["completion_tokens"])
    assert summed(calls)[:2] == expected
    assert (
        spending_table([evaluation])
        .legend[-1]
        .endswith("; unknown: 1 request that was interrupted when a process ended")
    )


def test_the_report_shows_the_spending_on_unusable_replies(saved: Path, tmp_path: Path, folders: Folders) -> None:
    verdict = _demo().verdict
    counting = CountingServer(lambda text, _: "no" if len(text) % 3 == 0 else str(verdict(text)))
    with chat_server(counting.script) as server:
        rows = judged_by(server, saved, tmp_path / "judged", folders)
    table = spending_table(read_evaluations([tmp_path / "judged"]))
    n_input, n_output, _ = spent(rows, "judge judge", NOW)
    unused = spent(rows, "judge judge", NOW, is_used=False)
    (line,) = [line for line in table.legend if "judge judge" in line]
    assert f"spent {n_input:,} + {n_output:,} tokens in {counting.reported['n']} replies" in line
    assert f"of these, unusable replies {unused[0]:,} + {unused[1]:,} tokens" in line
    assert "front" not in table.columns  # a single system beats no other


def test_without_any_counts_there_is_no_table(saved: Path) -> None:
    (section,) = report_sections(read_evaluations([saved]), ReportOptions())
    assert "Quality against cost" not in {table.title for table in section.tables}
