"""Answers of one's own system, scored in the one pass that every evaluation is scored in."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ragtasks.api._benchmark import LoadedBenchmark, setting_named
from ragtasks.api._results import Results
from ragtasks.benchmarks import Doc, build_docs, contexts_for, response_of
from ragtasks.clients import Client
from ragtasks.config import EvaluationConfig, HarnessModel, config_from_options
from ragtasks.environment import run_store
from ragtasks.errors import ConfigurationError, RagtasksError, clear_error, close_matches
from ragtasks.files import OFFICIAL, passage_of
from ragtasks.ids import normalise_task_id
from ragtasks.logs import OWN_CONTEXTS, evaluation_of
from ragtasks.metrics import answer_text
from ragtasks.records import Contexts, Passage, Setting
from ragtasks.scoring import ResponseScorer, scored_row, take_failures

Answers = Mapping[str, str | Mapping[str, Any]] | Iterable[Mapping[str, Any]]
"""Task id -> text or record, or records."""

_NOT_GIVEN = "none was given"
_MOST_SHOWN = 20


class ScoringError(RagtasksError):
    """A part of the scoring failed, or judges gave too few verdicts; what was scored is kept in `results`."""

    def __init__(self, message: str, results: Results) -> None:
        super().__init__(message)
        self.results = results


@dataclass(frozen=True, slots=True)
class _Answer:
    """One answer as it was given."""

    text: str
    """What the system said."""
    passages: tuple[Passage, ...] | None
    """What it was shown, None where that is the setting's."""


def score(
    benchmark: LoadedBenchmark,
    answers: Answers,
    *,
    setting: str | None = None,
    run: str = OFFICIAL,
    judges: str | Sequence[Any] = (),
    encoder: str | None = None,
    name: str = "answers",
    **options: Any,
) -> Results:
    """Return the scores of a system's answers, a row a task; tasks without an answer are rows without a score.

    Args:
        benchmark: what was answered.
        answers: task id -> text; or records with `task_id`, `text` (or `answer`) and, where the system retrieved for
            itself, `passages` (or `contexts`): objects with `passage_id` (or `document_id`) and `text`.
        setting: `reference`, `reference_rag` or `full_rag`: whose passages answers without their own were given. It can
            be left out where every answer has its own, and is then `full_rag`.
        run: the stored run that gave the passages of the setting; default: the benchmark's own.
        judges: LLM judges, as in `--metadata`: `openai/NAME`, or objects with `model` and `base_url`.
        encoder: encoder of BERTScore, or `none`.
        name: the system's name in tables.
        options: other keys of `--metadata`, such as `idk`, `prompts` and `conversational`.

    Raises:
        ConfigurationError: an option that cannot be used, or answers with errors: all of them are listed.
        ScoringError: a part of the scoring failed; it holds the scores that there are.
        RagtasksError: files, a run, a library or a key that is not there.
    """
    given = _read(benchmark, answers)
    chosen = _setting_of(given, setting)
    is_own = bool(given) and all(answer.passages is not None for answer in given.values())
    config = config_from_options(
        dict(data=benchmark.data, run=OWN_CONTEXTS if is_own else run, judges=judges, encoder=encoder, **options)
    )
    docs = _docs(benchmark, chosen, config, given)
    texts = [given[doc["task_id"]].text if doc["task_id"] in given else "" for doc in docs]
    take_failures()  # what an earlier evaluation left in this process
    scorer = ResponseScorer(benchmark.source, config, local_judge=_local_judge(config))
    scored = scorer.score(
        [response_of(doc, answer_text(text, config.end_of_thinking)) for doc, text in zip(docs, texts, strict=True)]
    )
    samples = [scored_row({"doc": doc}, result) for doc, result in zip(docs, scored, strict=True)]
    facts = _facts(benchmark, config, scorer)
    evaluation = evaluation_of(_label(name, config), facts, f"{benchmark.name}_{chosen.value}", samples)
    ids = [doc["task_id"] for doc in docs]
    missing = tuple(task_id for task_id in ids if task_id not in given)
    results = Results((evaluation,), missing, tuple(sorted(given.keys() - set(ids))))
    if failures := take_failures():
        raise ScoringError(
            "scoring failed; `results` of this error has what there is:\n" + "\n".join(failures), results
        )
    return results


def _setting_of(given: Mapping[str, _Answer], name: str | None) -> Setting:
    if name is not None:
        return setting_named(name)
    bare = [task_id for task_id, answer in given.items() if answer.passages is None]
    if bare or not given:
        message = clear_error(
            "setting",
            where=f"{len(bare)} of {len(given)} answers",
            expected="the setting whose passages they were given",
            found="answers without passages of their own, and no setting",
            next_step=f"give `setting`: {', '.join(setting.value for setting in Setting)}; or records with `passages`",
        )
        raise ConfigurationError(message)
    return Setting.FULL_RAG


def _docs(
    benchmark: LoadedBenchmark, setting: Setting, config: EvaluationConfig, given: Mapping[str, _Answer]
) -> list[Doc]:
    """Return the docs of a setting's tasks, each with the passages that its answer was given."""
    published = _published(benchmark, setting, config)
    if outside := [task_id for task_id in given if task_id not in published]:
        raise _refused(benchmark, [f"{task_id!r} is no task of the setting {setting.value}" for task_id in outside])
    own = {task_id: answer.passages for task_id, answer in given.items() if answer.passages is not None}
    contexts = Contexts(config.run, setting, {**published, **own})
    docs = build_docs(benchmark.source, setting, None, conversational=config.conversational, contexts=contexts)
    return [doc if doc["task_id"] in given else {**doc, "no_answer": _NOT_GIVEN} for doc in docs]


def _published(
    benchmark: LoadedBenchmark, setting: Setting, config: EvaluationConfig
) -> dict[str, tuple[Passage, ...]]:
    """Return task of the setting -> its passages; none are read where every answer has its own."""
    if config.run == OWN_CONTEXTS and setting is not Setting.REFERENCE_RAG:
        return {task.task_id: () for task in benchmark.tasks}
    run = OFFICIAL if config.run == OWN_CONTEXTS else config.run
    return contexts_for(benchmark.source, setting, run, run_store()).passages


def _facts(benchmark: LoadedBenchmark, config: EvaluationConfig, scorer: ResponseScorer) -> dict[str, Any]:
    """Return what results files say of scored answers."""
    source = benchmark.source
    return {
        "benchmark": source.label,
        "suite": source.suite,
        "revision": source.revision,
        "fingerprint": None,
        "configuration": json.loads(config.model_dump_json()),
        "scoring": scorer.provenance(),
    }


def _label(name: str, config: EvaluationConfig) -> str:
    """Return the system's name with the run that it was given, where that is a stored one, as `read_results` has it."""
    return name if config.run in {OFFICIAL, OWN_CONTEXTS} else f"{name} (run {config.run})"


def _local_judge(config: EvaluationConfig) -> Callable[[HarnessModel], Client] | None:
    """Return what loads judges of this process, which needs the harness, where there are any."""
    if not any(isinstance(judge, HarnessModel) for judge in config.judges):
        return None
    from ragtasks.harness.judge_model import JudgeModel

    return JudgeModel


def _read(benchmark: LoadedBenchmark, answers: Answers) -> dict[str, _Answer]:
    """Return task id -> answer.

    Raises:
        ConfigurationError: unknown tasks, tasks that stand twice, records of another form: all of them.
    """
    rows = [_record(*item) for item in answers.items()] if isinstance(answers, Mapping) else list(answers)
    known = {task.task_id for task in benchmark.tasks}
    given: dict[str, _Answer] = {}
    violations: list[str] = []
    for number, row in enumerate(rows, start=1):
        try:
            task_id, answer = _answer(row, known)
            if task_id in given:
                raise ValueError(f"{task_id!r} stands twice")
            given[task_id] = answer
        except ValueError as error:
            violations.append(f"answer {number}: {error}")
    if violations:
        raise _refused(benchmark, violations)
    return given


def _record(task_id: str, value: object) -> Mapping[str, Any]:
    return {**value, "task_id": task_id} if isinstance(value, Mapping) else {"task_id": task_id, "text": value}


def _answer(row: object, known: Iterable[str]) -> tuple[str, _Answer]:
    """Return task id and answer of a record.

    Raises:
        ValueError: its task is unknown, or it has another form.
    """
    if not isinstance(row, Mapping):
        raise ValueError(f"no record with `task_id` and `text` but a {type(row).__name__}")
    written = str(row.get("task_id", ""))
    try:
        task_id = normalise_task_id(written)
    except ValueError:
        task_id = written
    if task_id not in known:
        raise ValueError(f"unknown task {written!r}: {_near(written, known)}")
    text = row.get("text", row.get("answer"))
    if not isinstance(text, str):
        raise ValueError(f"`text` of {task_id!r} is no text but a {type(text).__name__}")
    return task_id, _Answer(text, _own_passages(task_id, row.get("passages", row.get("contexts"))))


def _near(name: str, known: Iterable[str]) -> str:
    hint = close_matches(name, known)
    return hint if hint.startswith("did") else "no task has a similar id"


def _own_passages(task_id: str, items: object) -> tuple[Passage, ...] | None:
    if items is None:
        return None
    if not isinstance(items, Iterable) or isinstance(items, (str, Mapping)):
        raise ValueError(f"`passages` of {task_id!r} are no list but a {type(items).__name__}")
    found = [_passage(item) for item in items]
    passages = tuple(passage for passage in found if passage is not None)
    if len(passages) < len(found):
        raise ValueError(f"passage {found.index(None) + 1} of {task_id!r} is no object with `passage_id` and `text`")
    return passages


def _passage(item: object) -> Passage | None:
    return item if isinstance(item, Passage) else passage_of(item, "passage_id") or passage_of(item, "document_id")


def _refused(benchmark: LoadedBenchmark, violations: Sequence[str]) -> ConfigurationError:
    more = [f"and {len(violations) - _MOST_SHOWN} more"] if len(violations) > _MOST_SHOWN else []
    return ConfigurationError(
        clear_error(
            "answers",
            where=f"to {benchmark.label}",
            expected="task id -> text, or records with `task_id`, `text` and maybe `passages`, each task once",
            found="; ".join([*violations[:_MOST_SHOWN], *more]),
            next_step="fix these; the ids are those of the benchmark's `tasks`",
        )
    )


__all__ = ["Answers", "ScoringError", "score"]
