"""Anchors in an evaluation: the choice of a set, when it is judged, and its drift since the baseline."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import orjson

from ragtasks.benchmarks import benchmark_folder, open_benchmark
from ragtasks.benchmarks.mtrag import FANC, HUMAN_EVALUATION_FILE, load_human_evaluation
from ragtasks.clients import Client, Spending, summed_calls
from ragtasks.errors import BenchmarkFileError, ConfigurationError, RagtasksError
from ragtasks.files import parse_json, write_atomically
from ragtasks.judges import (
    Anchors,
    AnchorVerdicts,
    Rubric,
    Verdicts,
    anchor_verdicts,
    baseline_of,
    choose_anchors,
    read_anchors,
    store_verdicts,
    stored_verdicts,
)
from ragtasks.records import Answerability, Response, Setting
from ragtasks.results import drift_lines, evaluation_files, read_results

_LOGGER = logging.getLogger(__name__)
_MAX_AGE = timedelta(days=1)
_HIGH_RATING = 3.5  # of 4: about the median of people's ratings, so that the anchors contain answers from both halves

Ask = Callable[[Sequence[Response], Sequence[Client], str], Verdicts | None]
"""(answers, judges, name of the run) -> verdicts."""


def anchors_named(named: int | str, data_folder: Path) -> Anchors:
    """Return a set: the built-in set of that size, or the set in a file."""
    return read_anchors(Path(named).expanduser()) if isinstance(named, str) else built_in_anchors(named, data_folder)


def built_in_anchors(n: int, data_folder: Path) -> Anchors:
    """Return answers rated by people if MTRAG's human evaluation is in the data folder, else answers of the sample."""
    root = _human_evaluation(data_folder)
    if root is not None:
        return choose_anchors(_rated_answers(root), n, "MTRAG's human evaluation")
    return choose_anchors(_sample_answers(), n, "MTRAG's sample, right and wrong answers")


def frozen_anchors(results: Sequence[Path], n: int, data_folder: Path) -> Anchors:
    """Return a set to save: built-in answers, or answers of results together with those that people rated."""
    if not results:
        return built_in_anchors(n, data_folder)
    own = [
        (response, ("own", response.task.answerability.value))
        for path in results
        for file in evaluation_files(path.resolve())[0]
        for task in read_results(file, Path(), {}).tasks
        for response in task.responses
        if response.text
    ]
    if not own:
        raise ConfigurationError(f"{', '.join(map(str, results))}: no answers. Next step: name results with answers")
    root = _human_evaluation(data_folder)
    source = ", ".join(path.name for path in results)
    if root is None:
        return choose_anchors(own, n, source)
    return choose_anchors([*_rated_answers(root), *own], n, f"MTRAG's human evaluation and {source}")


def _human_evaluation(data_folder: Path) -> Path | None:
    """Return the checkout with the human evaluation, or None if it was not fetched."""
    try:
        root = benchmark_folder("mtrag", None, data_folder)
    except BenchmarkFileError:
        return None
    return root if (root / HUMAN_EVALUATION_FILE).is_file() else None


def _rated_answers(root: Path) -> Iterator[tuple[Response, tuple[str, bool]]]:
    """Yield each answer of the human evaluation with its label: answerability, and whether people rated it high."""
    for row in load_human_evaluation(root):
        ratings = [rating for name in FANC for rating in row.ratings[name].values()]
        good = sum(ratings) / len(ratings) >= _HIGH_RATING
        yield row.response, (row.response.task.answerability.value, good)


def _sample_answers() -> Iterator[tuple[Response, tuple[str, bool]]]:
    """Yield the sample's reference answers; every second task gets the answer of another conversation."""
    benchmark = open_benchmark("mtrag", benchmark_folder("mtrag", "sample", Path()).resolve())
    contexts = benchmark.read_contexts(Setting.REFERENCE).passages
    tasks = [task for task in benchmark.tasks if task.answerability is not Answerability.CONVERSATIONAL]
    for index, task in enumerate(tasks):
        right = index % 2 == 0
        other_task = next(candidate for candidate in tasks[::-1] if candidate.conversation_id != task.conversation_id)
        answer = task.target if right else other_task.target
        yield Response(task, contexts.get(task.task_id, ()), answer), (task.answerability.value, right)


class AnchorJudging:
    """The anchors of one configuration, judged whenever a judge receives requests."""

    def __init__(self, anchors: Anchors, rubrics: Sequence[Rubric], store: Path) -> None:
        """Set the anchors, the rubrics and the file of all records."""
        self._anchors, self._store = anchors, store
        self._rubrics = {rubric.name: rubric.fingerprint for rubric in rubrics}
        self._identity = {"anchors": anchors.name, "rubrics": self._rubrics}
        self._start_file = store.with_name(f"{store.name}.begun")
        self._records: dict[str, AnchorVerdicts] = {}
        self._baselines: dict[str, AnchorVerdicts | None] = {}
        self._spending: dict[str, list[dict[str, Any]]] = {}

    def ask(self, judges: Mapping[str, Client], verdicts: Verdicts, ask: Ask) -> None:
        """Judge the anchors with every judge that has just received requests, or has no complete record.

        The last record of each other judge is used. If all verdicts came from the cache, they are from an earlier time:
        the judge's present behavior does not affect them.
        """
        stored = stored_verdicts(self._store)
        last = {name: self._last(stored, name) for name in judges}
        begun = self._unfinished()
        waiting = [name for name in judges if verdicts.usage[name].n_asked or last[name] is None or name in begun]
        self._records |= {name: record for name, record in last.items() if record is not None and name not in waiting}
        if waiting:
            now = datetime.now(timezone.utc).replace(tzinfo=None).isoformat(timespec="milliseconds")
            now = next((begun[name] for name in waiting if name in begun), now)
            write_atomically(self._start_file, orjson.dumps({**self._identity, "time": now, "judges": waiting}))
            fresh = self._fresh([judges[name] for name in waiting], waiting, ask, now)
            if fresh:
                store_verdicts(self._store, fresh)
                self._start_file.unlink(missing_ok=True)
            self._records |= {record.judge: record for record in fresh}
        for name, record in self._records.items():
            baseline = baseline_of(stored, record)
            self._baselines[name] = None if baseline == record else baseline
        for line in drift_lines(self._records.values(), self._baselines):
            _LOGGER.warning(line)

    def _unfinished(self) -> dict[str, str]:
        """Return judge -> start time of a judging of the anchors that a process did not finish.

        Its replies are cached and paid for. A start more than a day ago is ignored: it does not show the present judge.
        """
        if not self._start_file.is_file():
            return {}
        try:
            saved = parse_json(self._start_file.read_bytes())
            age = datetime.now(timezone.utc).replace(tzinfo=None) - datetime.fromisoformat(saved["time"])
            is_same = self._identity == {name: saved[name] for name in self._identity}
            return dict.fromkeys(saved["judges"], saved["time"]) if is_same and age < _MAX_AGE else {}
        except (OSError, ValueError, LookupError, TypeError):
            return {}

    def _fresh(self, judges: Sequence[Client], names: Sequence[str], ask: Ask, now: str) -> list[AnchorVerdicts]:
        try:
            verdicts = ask(self._anchors.responses, judges, f"anchors {now}")
        except RagtasksError as error:
            _LOGGER.warning("anchors: not judged, so drift is unknown: %s", error)
            return []
        if verdicts is None:
            return []
        for name in names:
            calls = [call.json_values for verdict in verdicts.all() if verdict.judge == name for call in verdict.calls]
            role = f"anchors, judge {name}"
            self._spending[role] = summed_calls([*self._spending.get(role, ()), *calls])
        return [anchor_verdicts(verdicts, name, self._anchors, self._rubrics, now) for name in names]

    def _last(self, stored: Sequence[AnchorVerdicts], judge: str) -> AnchorVerdicts | None:
        identity = (judge, self._anchors.name, self._rubrics)
        return next(
            (record for record in stored[::-1] if (record.judge, record.anchors, dict(record.rubrics)) == identity),
            None,
        )

    def spending(self) -> Spending:
        """Return the usage of judges' replies about the anchors."""
        return {role: calls for role, calls in self._spending.items() if calls}

    def provenance(self) -> dict[str, Any]:
        """Return the entries for results: each judge's verdicts on the anchors, and its baseline."""
        if not self._records:
            return {}
        judges = [
            {**record.json_values, "baseline": baseline.json_values if (baseline := self._baselines[name]) else None}
            for name, record in self._records.items()
        ]
        return {"anchors": {"set": self._anchors.name, "source": self._anchors.source, "judges": judges}}
