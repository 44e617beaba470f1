"""Comparison of saved systems with as few judge calls as the decision needs.

Answers are scored in waves chosen by `ragtasks.statistics`. Verdicts are in the reply cache. After each wave, the
scores so far are written to the output folder, in the layout of any results.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ragtasks.errors import ConfigurationError, JudgeError, RagtasksError, close_matches
from ragtasks.files import parse_json, write_atomically
from ragtasks.metrics import Metric
from ragtasks.records import Response
from ragtasks.results import SavedEvaluation, SavedTask, ScoredAnswer, model_of
from ragtasks.scoring._failures import take_failures
from ragtasks.scoring._judge import (
    Folders,
    read_saved,
    refuse_replacing,
    require_replaceable,
    results_file,
    score_tasks,
)
from ragtasks.scoring._judging import LocalJudge
from ragtasks.scoring._results_layout import ScoredTask, write_results
from ragtasks.scoring._scoring import ResponseScorer
from ragtasks.statistics import ENOUGH_EQUAL, LEVEL, Race, Values
from ragtasks.suites import suite_named

DECISION_FILE = "decision.json"
"""File of the output folder with the question and its outcome."""

_COVERAGE = "judge_coverage"
_WITHOUT_REQUEST = frozenset({"not asked", "settled"})
_ANSWERED = frozenset({"given", "no statements"})

_WAVE_SETTINGS = {"min_judge_coverage": 0.0, "repeats": 1, "anchors": None}

Row = tuple[int, int, int]
"""Position of an answer: evaluation, harness task, row."""
Scored = tuple[ScoredAnswer, ResponseScorer]


@dataclass(frozen=True, slots=True)
class RaceOptions:
    """Options of a decision."""

    metric: str | None = None
    """Deciding metric, which needs judges; None: the benchmark's first judged metric."""
    setting: str | None = None
    """Setting of the compared answers; None: the only shared one."""
    margin: float | None = None
    """Systems that differ by less are equal; None: 5 % of the metric's range."""
    seed: int = 0
    """Seed of the order of tasks."""
    level: float = LEVEL
    """Error probability over all interim tests together."""
    is_gate: bool = False
    """Test whether the second system lost more than the margin against the first."""


@dataclass(frozen=True, slots=True)
class Decided:
    """Outcome of a decision, and its cost."""

    race: Race
    """The comparison after its last wave."""
    metric: Metric
    setting: str
    judges: tuple[str, ...]
    n_asked: Mapping[str, int]
    n_settled: int
    """Further answers that needed no judge call: a refusal or the type of task determines their score."""
    n_answers: int
    """Answers of each system to the tasks that all of them answered."""
    n_verdicts: int
    """Verdicts requested from judges on these answers."""
    left_out: tuple[str, ...]
    """Rubrics without requests, since the metric does not depend on them."""
    means: Mapping[str, float | None]
    output: Path
    notes: tuple[str, ...]
    """Reasons why answers are implausible, one per line."""


def decide(
    paths: Sequence[Path],
    options: Mapping[str, Any],
    race_options: RaceOptions,
    output: Path,
    folders: Folders,
    *,
    may_replace: Callable[[Sequence[Path]], bool] = lambda _: False,
    local_judge: LocalJudge | None = None,
    after_wave: Callable[[Race], None] = lambda _: None,
) -> Decided:
    """Decide which system is better, with judge calls on as many conversations as needed.

    Each model in each of the saved results is a system. Scores of the judged answers and `DECISION_FILE` are written to
    the output. Existing results with other options are replaced if `may_replace` returns True. If judges fail or give
    too few verdicts, the verdicts so far are saved.

    Raises:
        ConfigurationError: the systems are not comparable, or too few conversations are shared.
        JudgeError: a judge gave too few verdicts, equal verdicts only, or was served by several models.
        RagtasksError: the judging failed.
    """
    take_failures()
    pool = _pool(paths, options, race_options, folders)
    race = _race(pool, race_options)
    files = [results_file(output, evaluation) for evaluation in pool.evaluations]
    refuse_replacing(paths, output, pool.evaluations, files)
    question = _recorded_options(pool, race, race_options)
    if not _has_same_options(output, question):
        require_replaceable(output, files, may_replace)
    done: dict[Row, Scored] = {}
    notes: list[str] = []
    _write_decision(output, question, race)
    while (wave := race.next_wave()) is not None:
        rows = {name: {task_id: pool.systems[name][task_id] for task_id in wave} for name in race.remaining}
        done |= _score(
            pool, [row for system_rows in rows.values() for row in system_rows.values()], folders, local_judge
        )
        notes = _save(pool, race, done, files)
        _require_verdicts(pool, done, output)
        race.add(_values(pool.metric, rows, done))
        if race.verdict is not None:
            _save(pool, race, done, files)
        _write_decision(output, question, race)
        after_wave(race)
    return _decision(pool, race, done, output, notes)


# The systems, and their answers to the shared tasks.


@dataclass(frozen=True, slots=True)
class _Pool:
    evaluations: list[SavedEvaluation]
    systems: dict[str, dict[str, Row]]
    """System -> task id -> position of its answer, for tasks that all systems answered."""
    conversation_of: dict[str, str]
    metric: Metric
    setting: str
    judges: tuple[str, ...]


def _pool(paths: Sequence[Path], options: Mapping[str, Any], race_options: RaceOptions, folders: Folders) -> _Pool:
    evaluations: list[SavedEvaluation] = []
    answers_by_system: dict[tuple[str, Path], dict[tuple[str, str], Row]] = {}
    for path in paths:
        for evaluation in read_saved(path, options, folders, None, None):
            answers = answers_by_system.setdefault((model_of(evaluation.results), path), {})
            answers |= _answers_of(evaluation, len(evaluations))
            evaluations.append(evaluation)
    systems = _systems_by_name(answers_by_system)
    if len(systems) < 2:
        raise _not_comparable(paths, "answers of two systems or more", ", ".join(systems) or "none")
    _require_same_data(evaluations, paths)
    setting = _setting(systems, race_options, paths)
    shared = set.intersection(
        *({task for row_setting, task in rows if row_setting == setting} for rows in systems.values())
    )
    chosen = {name: {task: rows[setting, task] for task in sorted(shared)} for name, rows in systems.items()}
    responses = {
        name: {task: _response(evaluations, row) for task, row in rows.items()} for name, rows in chosen.items()
    }
    if len({tuple(response.text for response in answers.values()) for answers in responses.values()}) == 1:
        raise _not_comparable(
            paths, "systems that differ", f"the same answer, word for word, to all {len(shared)} tasks"
        )
    conversations = {task: response.task.conversation_id for task, response in next(iter(responses.values())).items()}
    judges = tuple(judge.model for judge in evaluations[0].tasks[0].config.judges)
    return _Pool(evaluations, chosen, conversations, _metric(evaluations[0].tasks[0], race_options), setting, judges)


def _answers_of(evaluation: SavedEvaluation, index: int) -> Iterator[tuple[tuple[str, str], Row]]:
    """Yield ((setting, task id), position) of each answer."""
    for number, task in enumerate(evaluation.tasks):
        for position, answer in enumerate(task.answers):
            yield (answer.setting, answer.task.task_id), (index, number, position)


def _systems_by_name(
    answers_by_system: Mapping[tuple[str, Path], dict[tuple[str, str], Row]],
) -> dict[str, dict[tuple[str, str], Row]]:
    """Return the systems by model; the path is added if two systems have the same model."""
    models = [model for model, _ in answers_by_system]
    return {
        model if models.count(model) == 1 else f"{model} ({path})": answers
        for (model, path), answers in answers_by_system.items()
    }


def _response(evaluations: Sequence[SavedEvaluation], row: Row) -> Response:
    evaluation, task, position = row
    return evaluations[evaluation].tasks[task].answers[position].response


def _require_same_data(evaluations: Sequence[SavedEvaluation], paths: Sequence[Path]) -> None:
    """Refuse answers to different data: their scores are not comparable."""
    tasks = [task for evaluation in evaluations for task in evaluation.tasks]
    origins = {
        f"{task.provenance['benchmark']} ({task.provenance.get('revision', '?')}, metrics: {task.provenance['suite']})"
        for task in tasks
    }
    if len(origins) > 1:
        raise _not_comparable(paths, "answers to the same data", ", ".join(sorted(origins)))


def _setting(
    systems: Mapping[str, Mapping[tuple[str, str], Row]], race_options: RaceOptions, paths: Sequence[Path]
) -> str:
    """Return the compared setting: the one requested, or the only one with tasks that all systems answered."""
    shared = set.intersection(*(set(rows) for rows in systems.values()))
    settings = sorted({setting for setting, _ in shared})
    if not settings:
        raise _not_comparable(paths, "tasks that all systems answered", "no task in common")
    if race_options.setting is None and len(settings) > 1:
        raise ConfigurationError(
            f"these systems share {len(settings)} settings ({', '.join(settings)}), but a decision compares one. "
            "Next step: name it with --metadata setting=NAME"
        )
    if race_options.setting not in {None, *settings}:
        raise ConfigurationError(
            f"setting {race_options.setting}: {close_matches(str(race_options.setting), settings)}; the systems share "
            + ", ".join(settings)
        )
    return race_options.setting or settings[0]


def _metric(task: SavedTask, race_options: RaceOptions) -> Metric:
    """Return the deciding metric, which must need judges."""
    metrics = [metric for metric in suite_named(task.provenance["suite"]).metrics if metric.aggregate is None]
    official = task.config.prompts == "official"
    judged = {
        metric.name: metric
        for metric in metrics
        if metric.needs_judges
        and metric.name != _COVERAGE
        and metric.higher_is_better is not None
        and metric.is_given(judges=True, official_prompts=official)
    }
    if race_options.metric is None and judged:
        return next(iter(judged.values()))
    if race_options.metric in judged and task.config.skip_settled and str(race_options.metric).endswith("_raw"):
        raise ConfigurationError(
            f"metric {race_options.metric!r} needs the verdicts that skip_settled leaves out. Next step: remove it, "
            f"or decide by {str(race_options.metric).removesuffix('_raw')}"
        )
    if race_options.metric in judged:
        return judged[race_options.metric]
    if race_options.metric in {metric.name for metric in metrics}:
        raise ConfigurationError(
            f"metric {race_options.metric!r} needs no judge calls, or has no better direction. Next step: compare "
            f"without --judge, or name one of {', '.join(judged)}"
        )
    raise ConfigurationError(
        f"unknown metric {race_options.metric!r}: {close_matches(str(race_options.metric), judged)}"
    )


def _not_comparable(paths: Sequence[Path], expected: str, found: str) -> ConfigurationError:
    return ConfigurationError(
        "comparison",
        where=", ".join(map(str, paths)),
        expected=expected,
        found=found,
        next_step="name the results of two different systems on the same tasks; no request was sent to judges",
    )


def _race(pool: _Pool, race_options: RaceOptions) -> Race:
    race = Race(
        list(pool.systems),
        pool.conversation_of,
        margin=race_options.margin,
        level=race_options.level,
        is_gate=race_options.is_gate,
        seed=race_options.seed,
        bounds=pool.metric.bounds,
        higher_is_better=bool(pool.metric.higher_is_better),
    )
    if race.verdict is not None:
        n = len(set(pool.conversation_of.values()))
        shared = f"{n} conversation{'s' if n != 1 else ''}"
        raise ConfigurationError(
            f"{', '.join(pool.systems)} cannot be compared: they share {shared}; {race.reason}. "
            "Next step: evaluate more conversations; no request was sent to judges"
        )
    return race


def _score(pool: _Pool, rows: Sequence[Row], folders: Folders, local_judge: LocalJudge | None) -> dict[Row, Scored]:
    """Return the scores of some answers; coverage is checked over all waves together, not here.

    Each answer is judged once: the noise of single verdicts is already part of the differences.
    """
    chosen: dict[tuple[int, int], list[int]] = {}
    for evaluation, task, row in rows:
        chosen.setdefault((evaluation, task), []).append(row)
    parts = [
        _part(pool.evaluations[evaluation].tasks[task], positions) for (evaluation, task), positions in chosen.items()
    ]
    parts = [replace(part, config=part.config.model_copy(update=_WAVE_SETTINGS)) for part in parts]
    scored = score_tasks(parts, folders, local_judge, pool.metric)
    scored_rows: dict[Row, Scored] = {}
    for ((evaluation, task), positions), (part, scorer) in zip(chosen.items(), scored, strict=True):
        scored_rows |= {
            (evaluation, task, row): (answer, scorer) for row, answer in zip(positions, part.answers, strict=True)
        }
    return scored_rows


def _part(task: SavedTask, positions: Sequence[int]) -> SavedTask:
    return replace(task, answers=tuple(task.answers[position] for position in positions))


def _values(metric: Metric, rows: Mapping[str, Mapping[str, Row]], done: Mapping[Row, Scored]) -> Values:
    return {
        name: {task_id: done[row][0].scores[metric.name] for task_id, row in answers.items()}
        for name, answers in rows.items()
    }


def _save(pool: _Pool, race: Race, done: Mapping[Row, Scored], files: Sequence[Path]) -> list[str]:
    """Write the scores so far as results of these answers alone; return the reasons why answers are implausible."""
    notes: list[str] = []
    for number, (evaluation, file) in enumerate(zip(pool.evaluations, files, strict=True)):
        tasks: list[ScoredTask] = []
        for index, task in enumerate(evaluation.tasks):
            scored = [done[row] for row in sorted(done) if row[:2] == (number, index)]
            if scored:
                answers = tuple(answer for answer, _ in scored)
                tasks.append((replace(_with_decision(task, pool, race, done), answers=answers), scored[0][1]))
        if not tasks:
            continue
        sizes = evaluation.results["n-samples"]
        counts = {task.name: {**sizes[task.name], "effective": len(task.answers)} for task, _ in tasks}
        results = {**evaluation.results, "n-samples": {**sizes, **counts}}
        checked = write_results(replace(evaluation, results=results), file, tasks)
        notes += [f"{model_of(evaluation.results)}: {line}" for checks in checked for line in checks.lines]
    return notes


def _with_decision(task: SavedTask, pool: _Pool, race: Race, done: Mapping[Row, Scored]) -> SavedTask:
    """Return a task whose results record that judging stopped at the decision."""
    n_asked = max(sum(row in done for row in answers.values()) for answers in pool.systems.values())
    decision = {
        "metric": pool.metric.name,
        "n_asked": n_asked,
        "n_tasks": len(pool.conversation_of),
        "left_out": list(next(iter(done.values()))[1].judging.left_out),
        "conclusion": race.conclusion(pool.metric.name) if race.verdict else "",
    }
    return replace(task, provenance={**task.provenance, "decision": decision})


def _require_verdicts(pool: _Pool, done: Mapping[Row, Scored], output: Path) -> None:
    """Raise if judges failed or gave too few verdicts for a decision; the verdicts so far are saved."""
    problems = take_failures()
    if problems:
        raise RagtasksError(
            f"not decided: the judging failed, and the verdicts so far are saved in {output}:\n" + "\n".join(problems)
        )
    limit = pool.evaluations[0].tasks[0].config.min_judge_coverage
    counts: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for verdict in (verdict for answer, _ in done.values() for verdict in answer.verdicts):
        counts.setdefault((verdict["judge"], verdict["rubric"]), []).append(verdict)
    for judge in pool.judges:
        _require_one_model(
            judge, [row for (name, _), group in counts.items() if name == judge for row in group], output
        )
    for (judge, rubric), verdicts in counts.items():
        values = [verdict["value"] for verdict in verdicts if verdict["value"] is not None]
        enough = min(ENOUGH_EQUAL, len(pool.systems) * len(pool.conversation_of))
        if rubric == pool.metric.name.removesuffix("_raw") and len(values) >= enough and len(set(values)) == 1:
            raise JudgeError(
                f"{judge} gives every answer the same {rubric} ({values[0]:g}, {len(values)} times), so nothing is "
                f"decided. Next step: use another judge or metric; its verdicts are saved in {output}"
            )
        requested = [verdict for verdict in verdicts if verdict["outcome"] not in _WITHOUT_REQUEST]
        missing = [verdict for verdict in requested if verdict["outcome"] not in _ANSWERED]
        if len(missing) > max(1, (1 - limit) * len(requested)):  # a single missing verdict of a few is chance
            raise JudgeError(
                "judge",
                where=f"{judge}, {rubric}",
                expected=f"at least {limit:.0%} of the requested verdicts",
                found=f"{len(requested) - len(missing)} of {len(requested)} "
                f"({missing[0]['outcome']}: {missing[0]['reason']})",
                next_step=f"fix or change the judge and run the same command again: its verdicts are saved in {output}",
            )


def _require_one_model(judge: str, verdicts: Sequence[Mapping[str, Any]], output: Path) -> None:
    """Refuse verdicts of several models under one name: no single model has judged enough to decide."""
    served = Counter(verdict["served_model"] for verdict in verdicts if verdict["served_model"])
    if len(served) > 1:
        models = ", ".join(f"{model} ({n} verdicts)" for model, n in served.most_common())
        raise JudgeError(
            f"{judge} was served by {len(served)} models, {models}, so nothing is decided: these are two judges. "
            f"Next step: name one of them as the judge; their verdicts are saved in {output}"
        )


def _decision(pool: _Pool, race: Race, done: Mapping[Row, Scored], output: Path, notes: Sequence[str]) -> Decided:
    judged = {name: [done[row][0] for row in answers.values() if row in done] for name, answers in pool.systems.items()}
    scores = {name: [answer.scores[pool.metric.name] for answer in answers] for name, answers in judged.items()}
    scored = {name: [value for value in values if value is not None] for name, values in scores.items()}
    scorer = next(iter(done.values()))[1]
    n_requests = {
        name: [sum(verdict["outcome"] not in _WITHOUT_REQUEST for verdict in answer.verdicts) for answer in answers]
        for name, answers in judged.items()
    }
    return Decided(
        race,
        pool.metric,
        pool.setting,
        pool.judges,
        {name: sum(map(bool, counts)) for name, counts in n_requests.items()},
        sum(counts.count(0) for counts in n_requests.values()),
        len(pool.conversation_of),
        sum(map(sum, n_requests.values())),
        scorer.judging.left_out,
        {name: sum(values) / len(values) if values else None for name, values in scored.items()},
        output,
        tuple(notes),
    )


# The file with the options of the decision: a call with the same options continues in its folder.


def _recorded_options(pool: _Pool, race: Race, race_options: RaceOptions) -> dict[str, Any]:
    return {
        "systems": list(pool.systems),
        "answers": sorted(str(evaluation.source) for evaluation in pool.evaluations),
        "metric": pool.metric.name,
        "setting": pool.setting,
        "judges": list(pool.judges),
        "margin": race.margin,
        "seed": race_options.seed,
        "level": race_options.level,
        "is_gate": race_options.is_gate,
    }


def _has_same_options(output: Path, question: Mapping[str, Any]) -> bool:
    file = output / DECISION_FILE
    try:
        return bool(parse_json(file.read_bytes())["question"] == question)
    except (OSError, ValueError, LookupError, TypeError):
        return False


def _write_decision(output: Path, question: Mapping[str, Any], race: Race) -> None:
    content = {
        "question": question,
        "verdict": race.verdict.value if race.verdict else None,
        "reason": race.reason,
        "left": list(race.remaining),
        "asked": list(race.order[: race.n_items]),
        "not_asked": list(race.order[race.n_items :]),
    }
    write_atomically(output / DECISION_FILE, json.dumps(content, indent=2, ensure_ascii=False).encode())
