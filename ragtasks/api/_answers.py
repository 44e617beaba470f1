"""Answers of one's own system, scored in the one pass that every evaluation is scored in."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ragtasks.api._benchmark import LoadedBenchmark, setting_named
from ragtasks.api._results import Results
from ragtasks.benchmarks import Doc, build_docs, response_of
from ragtasks.clients import Client
from ragtasks.config import EvaluationConfig, HarnessModel, config_from_options
from ragtasks.environment import run_store
from ragtasks.errors import ConfigurationError, RagtasksError, clear_error
from ragtasks.files import OFFICIAL
from ragtasks.logs import OWN_CONTEXTS, AnswerReader, GivenAnswer, contexts_of_answers, evaluation_of
from ragtasks.metrics import answer_text
from ragtasks.records import Contexts, Setting
from ragtasks.scoring import ResponseScorer, check_together, scored_row, take_failures

Answers = Mapping[str, str | Mapping[str, Any]] | Iterable[Mapping[str, Any]]
"""Task id -> text or record, or records."""

_NOT_GIVEN = "none was given"
_MOST_SHOWN = 20


class ScoringError(RagtasksError):
    """A part of the scoring failed, or judges gave too few verdicts; what was scored is kept in `results`."""

    def __init__(self, message: str, results: Results) -> None:
        super().__init__(message)
        self.results = results


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

    `Results.plausibility` says which of them cannot be answers; no share of these is an error here.

    Args:
        benchmark: what was answered.
        answers: task id -> text; or records with `id` (or `task_id`), `answer` (or `text`) and, where the system
            retrieved for itself, `contexts` (or `passages`): texts, or objects with `text`, `id` and `title`. The lines
            of an answers file (docs/score-your-system.md) are such records.
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
    config = config_from_options(dict(data=benchmark.data, run=run, judges=judges, encoder=encoder, **options))
    contexts = contexts_of_answers(given, benchmark.source, chosen, config.run, run_store())
    config = config.model_copy(update={"run": contexts.run})
    docs = _docs(benchmark, contexts, config, given)
    texts = [given[doc["task_id"]].text if doc["task_id"] in given else "" for doc in docs]
    take_failures()  # what an earlier evaluation left in this process
    scorer = ResponseScorer(benchmark.source, config, local_judge=_local_judge(config))
    responses = [
        response_of(doc, answer_text(text, config.end_of_thinking)) for doc, text in zip(docs, texts, strict=True)
    ]
    scored = scorer.score(responses)
    check_together(
        f"{benchmark.label} in {chosen.value}",
        responses,
        texts,
        [result.notes for result in scored],
        setting=chosen,
        benchmark=benchmark.source if config.run in {OFFICIAL, OWN_CONTEXTS} else None,
    )
    samples = [scored_row({"doc": doc}, result) for doc, result in zip(docs, scored, strict=True)]
    provenance = _provenance(benchmark, config, scorer)
    evaluation = evaluation_of(_label(name, config), provenance, f"{benchmark.name}_{chosen.value}", samples)
    ids = [doc["task_id"] for doc in docs]
    missing = tuple(task_id for task_id in ids if task_id not in given)
    results = Results((evaluation,), missing, tuple(sorted(given.keys() - set(ids))))
    if failures := take_failures():
        raise ScoringError(
            "scoring failed; `results` of this error has what there is:\n" + "\n".join(failures), results
        )
    return results


def _setting_of(given: Mapping[str, GivenAnswer], name: str | None) -> Setting:
    if name is not None:
        return setting_named(name)
    bare = [task_id for task_id, answer in given.items() if answer.passages is None]
    if bare or not given:
        message = clear_error(
            "setting",
            where=f"{len(bare)} of {len(given)} answers",
            expected="the setting whose passages they were given",
            found="answers without passages of their own, and no setting",
            next_step=f"give `setting`: {', '.join(setting.value for setting in Setting)}; or records with `contexts`",
        )
        raise ConfigurationError(message)
    return Setting.FULL_RAG


def _docs(
    benchmark: LoadedBenchmark, contexts: Contexts, config: EvaluationConfig, given: Mapping[str, GivenAnswer]
) -> list[Doc]:
    """Return the docs of a setting's tasks, each with the passages that its answer was given."""
    docs = build_docs(benchmark.source, contexts.setting, None, conversational=config.conversational, contexts=contexts)
    return [doc if doc["task_id"] in given else {**doc, "no_answer": _NOT_GIVEN} for doc in docs]


def _provenance(benchmark: LoadedBenchmark, config: EvaluationConfig, scorer: ResponseScorer) -> dict[str, Any]:
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


def _read(benchmark: LoadedBenchmark, answers: Answers) -> dict[str, GivenAnswer]:
    """Return task id -> answer.

    Raises:
        ConfigurationError: unknown tasks, tasks that stand twice, records of another form: all of them.
    """
    rows = [_record(*item) for item in answers.items()] if isinstance(answers, Mapping) else list(answers)
    violations: list[str] = []

    def note(number: int, expected: str, found: object, task_id: str) -> None:
        task = f" ({task_id})" if task_id else ""
        violations.append(f"answer {number}{task}: expected {expected}, found {found!r}")

    reader = AnswerReader(benchmark.source, note, "answer")
    given = dict(item for number, row in enumerate(rows, start=1) if (item := reader.read(number, row)))
    if violations:
        raise _refused(benchmark, violations)
    return given


def _record(task_id: str, value: object) -> Mapping[str, Any]:
    return {**value, "id": task_id} if isinstance(value, Mapping) else {"id": task_id, "answer": value}


def _refused(benchmark: LoadedBenchmark, violations: Sequence[str]) -> ConfigurationError:
    more = [f"and {len(violations) - _MOST_SHOWN} more"] if len(violations) > _MOST_SHOWN else []
    return ConfigurationError(
        clear_error(
            "answers",
            where=f"to {benchmark.label}",
            expected="task id -> text, or records with `id`, `answer` and maybe `contexts`, each task once",
            found="; ".join([*violations[:_MOST_SHOWN], *more]),
            next_step="fix these; the ids are those of the benchmark's `tasks`",
        )
    )


__all__ = ["Answers", "ScoringError", "score"]
