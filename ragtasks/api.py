"""The Python API: the commands as functions, for notebooks and programs."""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Union

from ragtasks.benchmarks import (
    Benchmark,
    benchmark_folder,
    contexts_for,
    open_benchmark,
    retrieval_side,
)
from ragtasks.config import EvaluationConfig, HarnessModel, config_from_options
from ragtasks.config.environment import data_folder, run_store, secret
from ragtasks.errors import CacheError, ConfigurationError, RagtasksError, close_matches, shortened_list
from ragtasks.files import (
    MANIFEST,
    OFFICIAL,
    FileRun,
    Ranked,
    Run,
    canonical_hash,
    in_rank_order,
    read_manifest,
    read_qrels,
    read_run,
)
from ragtasks.metrics import (
    BALANCED_ANS_ACC,
    COUNT,
    RETRIEVAL_METRICS,
    by_query,
    measure_name,
    retrieval_metric,
    score_run,
)
from ragtasks.records import Answerability, Contexts, Passage, Qrel, Setting, Task, split_task_id
from ragtasks.reports.comparison import compare_evaluations, comparison_sections, warnings_of
from ragtasks.reports.outcome import decision_text
from ragtasks.reports.tables import mean_of, overview_sections
from ragtasks.requirements import importing
from ragtasks.results import (
    CONTEXTS_OF_FILE,
    ROW_KEYS,
    AnswerReader,
    Evaluation,
    GivenAnswer,
    OwnRows,
    ScoredAnswer,
    contexts_of_answers,
    evaluation_of,
    keys_step,
    merge_evaluations,
    named_keys,
    own_rows,
    read_evaluations,
    suite_of_answers,
    unscored_answers,
)
from ragtasks.scoring import (
    CheckedAnswers,
    Decided,
    Folders,
    LocalJudge,
    Plausibility,
    RaceOptions,
    ResponseScorer,
    check_answers,
    decide,
    take_failures,
)
from ragtasks.statistics import Column, Comparison, Comparisons, RaceEnd, compare_columns, estimate_mean
from ragtasks.tables import Cell, Format, Section, Table, Value, fixed, html_of, render

if TYPE_CHECKING:
    import pandas
    import polars

    from retrieval_cache import StoredRun


# Scored responses, computed now or read from results files.


class _AsTables:
    """Prints as tables: Markdown in a terminal, HTML in a notebook."""

    def _sections(self) -> Sequence[Section]:
        raise NotImplementedError

    def __str__(self) -> str:
        """Return the tables as Markdown."""
        return render(self._sections(), Format.MARKDOWN)

    def _repr_html_(self) -> str:
        return html_of(self._sections())


@dataclass(frozen=True, repr=False)
class Results(_AsTables):
    """Scored responses. Prints the first table of the report."""

    evaluations: tuple[Evaluation, ...]
    """One evaluation for each model and method of scoring."""
    missing: tuple[str, ...] = ()
    """Ids of tasks without an answer in `score`. They are rows without a score."""
    left_out: tuple[str, ...] = ()
    """Ids of conversational tasks whose answers `score` left out, as the paper does."""

    @property
    def rows(self) -> list[dict[str, Any]]:
        """One dictionary per response: model, benchmark, labels of the task, scores (None if unscored) and reasons.

        Scores are rounded to six decimals. Own rows have no labels of a benchmark.
        """
        return [
            _as_dict(evaluation, row) for evaluation in merge_evaluations(self.evaluations) for row in evaluation.rows
        ]

    @property
    def means(self) -> dict[str, Value]:
        """Metric -> mean (`value`) with its 95 % interval over conversations (`low`, `high`), of one system.

        Raises:
            ConfigurationError: the results contain several systems or settings. `only` selects one.
        """
        members = self._members
        if len(members) != 1:
            raise ConfigurationError(
                f"{self!r}: means require one system in one setting, found "
                f"{', '.join(f'{model} in {setting}' for model, setting in members)}. "
                "Next step: results.only(model=..., setting=...).means"
            )
        rows = [row for evaluation in self.evaluations for row in evaluation.rows]
        metrics = {metric.name: metric for evaluation in self.evaluations for metric in evaluation.metrics}
        valued = {*self._metrics, BALANCED_ANS_ACC.name}
        means = {name: mean_of(rows, name, metric.bounds) for name, metric in metrics.items() if name in valued}
        return {
            name: replace(mean, value=_rounded(mean.value), low=_rounded(mean.low), high=_rounded(mean.high))
            for name, mean in means.items()
            if mean.value is not None
        }

    def only(self, model: str | None = None, setting: str | None = None) -> Results:
        """Return the responses of one model, of one setting, or of both.

        Raises:
            ConfigurationError: no matching responses.
        """
        chosen = [key for key in self._members if model in {None, key[0]} and setting in {None, key[1]}]
        if not chosen:
            raise ConfigurationError(f"{self!r}: no responses of {model or 'any model'} in {setting or 'any setting'}")
        kept = (
            replace(evaluation, rows=tuple(row for row in evaluation.rows if (evaluation.model, row.setting) in chosen))
            for evaluation in self.evaluations
        )
        return replace(self, evaluations=tuple(evaluation for evaluation in kept if evaluation.rows))

    @property
    def by_task(self) -> Mapping[str, Mapping[str, float | None]]:
        """Task id -> metric -> score, None if unscored.

        Raises:
            ConfigurationError: a task has several responses, from different models or settings. `rows` contains all.
        """
        rows = [row for evaluation in self.evaluations for row in evaluation.rows]
        scores = {row.task.task_id: {name: _rounded(row.values.get(name)) for name in self._metrics} for row in rows}
        if len(scores) != len(rows):
            raise ConfigurationError(f"{self!r} contains several responses to a task. Next step: use `rows`")
        return scores

    def to_pandas(self) -> pandas.DataFrame:
        """Return `rows` as a data frame of pandas.

        Raises:
            MissingExtraError: pandas is not installed.
        """
        with importing("pandas", "frames", "to_pandas()"):
            import pandas
        return pandas.DataFrame(self.rows).astype(dict.fromkeys(self._metrics, float))

    def to_polars(self) -> polars.DataFrame:
        """Return `rows` as a data frame of polars.

        Raises:
            MissingExtraError: polars is not installed.
        """
        with importing("polars", "frames", "to_polars()"):
            import polars
        floats = dict.fromkeys(self._metrics, polars.Float64)  # a column of None only has no type
        return polars.DataFrame(self.rows, schema_overrides=floats, infer_schema_length=None)

    @property
    def plausibility(self) -> Mapping[tuple[str, str], tuple[Plausibility, ...]]:
        """(Model, setting) -> implausible answers by reason; () if all answers are plausible."""
        checked: dict[tuple[str, str], list[tuple[str, Mapping[str, str]]]] = {}
        for evaluation in merge_evaluations(self.evaluations):
            for row in evaluation.rows:
                if row.implausible is not None:
                    checked.setdefault((evaluation.model, row.setting), []).append((row.task.task_id, row.implausible))
        return {key: tuple(CheckedAnswers("", tuple(checks)).summary) for key, checks in checked.items()}

    @cached_property
    def _metrics(self) -> list[str]:
        rows = (row for evaluation in self.evaluations for row in evaluation.rows)
        names = dict.fromkeys(name for row in rows for name in row.values)
        left_out = {BALANCED_ANS_ACC.name, *(["coverage"] if self._are_own_rows else [])}
        return [name for name in names if name not in left_out]

    @property
    def _members(self) -> list[tuple[str, str]]:
        """Pairs of model and setting, in order."""
        return list(
            dict.fromkeys((evaluation.model, row.setting) for evaluation in self.evaluations for row in evaluation.rows)
        )

    @property
    def _are_own_rows(self) -> bool:
        return all(evaluation.has_own_rows for evaluation in self.evaluations)

    def __repr__(self) -> str:
        """Return the models and the number of responses."""
        models = ", ".join(dict.fromkeys(evaluation.model for evaluation in self.evaluations))
        n_responses = sum(len(evaluation.rows) for evaluation in self.evaluations)
        return f"<{type(self).__name__} of {models}: {n_responses} responses>"

    def _sections(self) -> Sequence[Section]:
        """Return the settings side by side, one row per model, with the number of missing answers."""
        n = sum(len(evaluation.rows) for evaluation in self.evaluations)
        notes = [f"missing: {len(self.missing)} of {n} tasks have no answer and no score"] if self.missing else []
        notes += [f"left out: answers to {len(self.left_out)} conversational tasks"] if self.left_out else []
        for (model, setting), checks in self.plausibility.items():
            label = model if self._are_own_rows else f"{model} in {setting}"
            notes += [f"implausible ({label}): {check}" for check in checks]
        sections = []
        for section in overview_sections(self.evaluations):
            first, *others = section.tables
            tables = (replace(first, legend=(*first.legend, *notes)), *others)
            sections.append(replace(section, tables=tables))
        return sections


def read_results(path: str | Path | Sequence[str | Path]) -> Results:
    """Return results saved by lm_eval, `ragtasks run` or `ragtasks score`.

    Args:
        path: a folder written with `--output_path --log_samples`, a results file in it, or several of these.

    Raises:
        BenchmarkFileError: no results, missing logged samples, or a broken file.
    """
    paths = [path] if isinstance(path, (str, Path)) else path
    return Results(tuple(read_evaluations([Path(name) for name in paths])))


_DIGITS = 6
_OF_A_BENCHMARK = frozenset(
    ("domain", "setting", "answerability", "question_types", "multi_turn", "n_references", "n_found", "coverage")
)
"""Keys that own rows do not have."""


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, _DIGITS)


def _as_dict(evaluation: Evaluation, row: ScoredAnswer) -> dict[str, Any]:
    fields = {
        "model": evaluation.model,
        "benchmark": evaluation.kind[0],
        "task_id": row.task.task_id,
        "conversation_id": row.task.conversation_id,
        "turn": row.task.turn,
        "domain": row.task.domain,
        "setting": row.setting,
        "answerability": row.task.answerability.value,
        "question_types": list(row.task.question_types),
        "multi_turn": row.task.multi_turn,
        "n_passages": len(row.response.passages),
        "n_references": len(row.references),
        "n_found": row.n_found,
        "idk": row.idk,
        # The plain mean of a balanced metric's values would be another metric.
        **{name: _rounded(value) for name, value in row.values.items() if name != BALANCED_ANS_ACC.name},
        "unscored": "; ".join(f"{name}: {reason}" for name, reason in row.unscored.items()),
    }
    is_own = evaluation.has_own_rows
    return {name: value for name, value in fields.items() if not (is_own and name in _OF_A_BENCHMARK)}


# Answers of the user's own system, scored like every evaluation.

Answers = Mapping[str, str | Mapping[str, Any]] | Iterable[Mapping[str, Any]]
"""Task id -> text or record, or records."""

Rows = Union[Iterable[Mapping[str, Any]], "pandas.DataFrame", "polars.DataFrame"]
"""Records, or a data frame with one row per answer."""

_NOT_GIVEN = "none was given"
_MAX_LISTED = 20


class ScoringError(RagtasksError):
    """A part of the scoring failed, or judges returned too few verdicts. `results` contains the available scores."""

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
    """Score a system's answers and return one row per task. Tasks without an answer are rows without a score.

    Implausible answers are listed in `Results.plausibility` and are not an error.

    Args:
        benchmark: the benchmark of the answers.
        answers: task id -> text; or records with `id` (or `task_id`), `answer` (or `text`) and, if the system retrieved
            its own passages, `contexts` (or `passages`): texts, or objects with `text`, `id` and `title`. The lines of
            an answers file (docs/score-your-system.md) are such records.
        setting: source of the passages of answers without their own: `reference`, `reference_rag` or `full_rag`.
            Optional if every answer has its own passages, and then `full_rag`. `agentic` also scores the `searches` of
            the answers.
        run: stored run with the passages of the setting; default: the benchmark's own.
        judges: LLM judges, as in `--metadata`: `openai/NAME`, or objects with `model` and `base_url`.
        encoder: encoder of BERTScore, or `none`.
        name: name of the system in tables.
        options: other keys of `--metadata`, such as `idk`, `prompts` and `conversational`.

    Raises:
        ConfigurationError: an invalid option, or answers with errors, all of which are listed.
        ScoringError: a part of the scoring failed. It contains the available scores.
        RagtasksError: a missing file, run, library or key.
    """
    given_answers = _read(benchmark, answers)
    chosen = _setting_of(given_answers, setting)
    config = config_from_options(dict(data=benchmark.data, run=run, judges=judges, encoder=encoder, **options))
    contexts = contexts_of_answers(given_answers, benchmark.source, chosen, config.run, run_store())
    config = config.model_copy(update={"run": contexts.run})
    missing = dict.fromkeys(contexts.passages.keys() - given_answers.keys(), GivenAnswer("", no_answer=_NOT_GIVEN))
    evaluation = _scored(benchmark.source, contexts, {**given_answers, **missing}, config, name)
    ids = [row.task.task_id for row in evaluation.rows]
    left_out = tuple(sorted(given_answers.keys() - set(ids)))
    return _without_failures(Results((evaluation,), tuple(name for name in ids if name in missing), left_out))


def score_rows(
    rows: Rows,
    *,
    judges: str | Sequence[Any] = (),
    encoder: str | None = None,
    name: str = "rows",
    keys: str | Mapping[str, str] = MappingProxyType({}),
    **options: Any,
) -> Results:
    """Score questions and answers without a benchmark and return one row per record.

    Args:
        rows: records, or a data frame of pandas or polars, with `question` (or `messages`) and `answer`, and optionally
            `contexts`, `reference`, `id` and `conversation_id`. docs/score-your-system.md lists all keys, including the
            accepted keys of other tools.
        judges: LLM judges, as in `score`.
        encoder: encoder of BERTScore, or `none`; default: the small one of the extra `semantic`.
        name: name of the system in tables.
        keys: mapping of unknown keys, such as `{"answer": "model_output"}` or `answer=model_output`.
        options: other keys of `--metadata` that concern scores, such as `metrics` and `idk`.

    Raises:
        ConfigurationError: an invalid option, or rows with errors, all of which are listed.
        ScoringError: a part of the scoring failed. It contains the available scores.
    """
    own = _read_rows(rows, named_keys(keys))
    config = config_from_options(dict(judges=judges, encoder=encoder, **options))
    config = config.model_copy(update={"run": CONTEXTS_OF_FILE})
    return _without_failures(Results((_scored(own.benchmark, own.contexts, own.answers, config, name),)))


def _scored(
    source: Benchmark, contexts: Contexts, given: Mapping[str, GivenAnswer], config: EvaluationConfig, name: str
) -> Evaluation:
    """Return the evaluation of the answers in one setting."""
    take_failures()  # failures of an earlier evaluation in this process
    suite = suite_of_answers(source, contexts.setting, given)
    scorer = ResponseScorer(source, config, suite, _local_judge(config))
    scored = scorer.score(unscored_answers(given, source, contexts, config))
    is_published = config.run in {OFFICIAL, CONTEXTS_OF_FILE}
    where = f"{source.label} in {contexts.setting.value}"
    _, answers = check_answers(where, scored, source if is_published else None)
    provenance = {
        "benchmark": source.label,
        "suite": suite,
        "revision": source.revision,
        "fingerprint": None,
        "configuration": json.loads(config.model_dump_json()),
        "scoring": scorer.provenance(),
    }
    label = name if is_published else f"{name} (run {config.run})"  # the label of a stored run in `read_results`
    return evaluation_of(label, provenance, f"{source.name}_{contexts.setting.value}", answers)


def _without_failures(results: Results) -> Results:
    if failures := take_failures():
        raise ScoringError(
            "scoring failed; `results` of this error contains the available scores:\n" + "\n".join(failures), results
        )
    return results


def _read_rows(rows: Rows, keys: Mapping[str, str]) -> OwnRows:
    """Return the rows of records or of a data frame. All problems are raised as one error."""
    problems: list[str] = []

    def note(number: int, expected: str, found: object, row_id: str) -> None:
        problems.append(f"row {number} ({row_id}): expected {expected}, found {found!r}")

    if isinstance(rows, (Mapping, str)):
        raise ConfigurationError(f"rows: expected records or a data frame, found {type(rows).__name__}")
    records = list(_records(rows))
    own = own_rows(enumerate(records, start=1), note, keys)
    if not problems and not own.answers:
        problems.append("none")
    if problems:
        first = next((row for row in records if isinstance(row, Mapping)), {})
        step = "" if own.answers else keys_step(ROW_KEYS.with_keys(keys), first, 'score_rows(rows, keys="{}")')
        raise ConfigurationError(
            "rows",
            where="of your own",
            expected="records with `question` (or `messages`), `answer` and optionally `contexts`, `reference`, `id`",
            found=shortened_list(problems, _MAX_LISTED, "; "),
            next_step=step or "fix these (docs/score-your-system.md lists the keys)",
        )
    return own


def _records(rows: Any) -> Iterable[Mapping[str, Any]]:
    """Return the records of a data frame; records are returned unchanged."""
    records: Iterable[Mapping[str, Any]] = rows
    if hasattr(rows, "to_dicts"):  # polars
        records = rows.to_dicts()
    elif hasattr(rows, "to_dict"):  # pandas
        records = rows.to_dict(orient="records")
    return records


def _setting_of(answers: Mapping[str, GivenAnswer], name: str | None) -> Setting:
    if name is not None:
        return setting_named(name)
    bare = [task_id for task_id, answer in answers.items() if answer.passages is None]
    if bare or not answers:
        raise ConfigurationError(
            "setting",
            where=f"{len(bare)} of {len(answers)} answers",
            expected="the setting of their passages",
            found="answers without their own passages, and no setting",
            next_step=f"give `setting`: {', '.join(setting.value for setting in Setting)}; or records with `contexts`",
        )
    return Setting.FULL_RAG


def _local_judge(config: EvaluationConfig) -> LocalJudge | None:
    """Return the factory of judges run by the harness; None without such judges."""
    if not any(isinstance(judge, HarnessModel) for judge in config.judges):
        return None
    from ragtasks.harness.judge_model import JudgeModel

    return JudgeModel


def _read(benchmark: LoadedBenchmark, answers: Answers) -> dict[str, GivenAnswer]:
    rows = [_record(*entry) for entry in answers.items()] if isinstance(answers, Mapping) else list(answers)
    problems: list[str] = []

    def note(number: int, expected: str, found: object, task_id: str) -> None:
        task = f" ({task_id})" if task_id else ""
        problems.append(f"answer {number}{task}: expected {expected}, found {found!r}")

    reader = AnswerReader(benchmark.source, note, "answer")
    task_answers = dict(entry for number, row in enumerate(rows, start=1) if (entry := reader.read(number, row)))
    reader.require_answers(f"to {benchmark.label}", data_folder())
    if problems:
        raise ConfigurationError(
            "answers",
            where=f"to {benchmark.label}",
            expected="task id -> text, or records with `id`, `answer` and optionally `contexts`, each task once",
            found=shortened_list(problems, _MAX_LISTED, "; "),
            next_step="fix these; the ids are those of the benchmark's `tasks`",
        )
    return task_answers


def _record(task_id: str, value: object) -> Mapping[str, Any]:
    return {**value, "id": task_id} if isinstance(value, Mapping) else {"id": task_id, "answer": value}


# A loaded benchmark: tasks, passages of each setting, relevance judgements.


@dataclass(frozen=True, repr=False)
class LoadedBenchmark(_AsTables):
    """A benchmark with its tasks loaded. Prints a table of its tasks."""

    source: Benchmark
    """The benchmark as read by its module."""
    data: str | None = None
    """`sample`, a folder, or None for the data folder."""

    @property
    def name(self) -> str:
        """Short name, such as `mtrag`."""
        return self.source.name

    @property
    def label(self) -> str:
        """Name for tables, with `(sample)` for a sample."""
        return self.source.label

    @property
    def is_sample(self) -> bool:
        """Whether this is the small sample shipped with ragtasks, whose scores are not benchmark scores."""
        return self.source.is_sample

    @property
    def tasks(self) -> tuple[Task, ...]:
        """All tasks, in the order of the file."""
        return self.source.tasks

    @cached_property
    def qrels(self) -> Mapping[str, Mapping[str, int]]:
        """Query id -> passage id -> relevance (relevant if at least 1). Read at first access.

        Raises:
            BenchmarkFileError: missing or broken judgements.
            ConfigurationError: a benchmark without judgements.
        """
        side, root = retrieval_side(self.name), self.source.root
        return by_query(qrel for domain in side.domains_of(self.tasks) for qrel in side.load_qrels(root, domain))

    def passages(self, setting: str, run: str = OFFICIAL) -> Mapping[str, tuple[Passage, ...]]:
        """Return task id -> passages of the task in a setting, in order.

        Args:
            setting: `reference`, `reference_rag` or `full_rag`.
            run: name of a stored run; default: the passages published with the benchmark.

        Raises:
            BenchmarkFileError: missing or broken published passages.
            CacheError: an unknown run, or a run of other data.
            ConfigurationError: a setting that is unknown or not part of the benchmark.
        """
        return contexts_for(self.source, setting_named(setting), run, run_store()).passages

    def __repr__(self) -> str:
        """Return the label and the number of tasks."""
        return f"<{type(self).__name__} {self.label}: {len(self.tasks)} tasks>"

    def _sections(self) -> Sequence[Section]:
        """Return a table of the tasks by domain and answerability."""
        counts = Counter((task.domain, task.answerability) for task in self.tasks)
        labels = [label for label in Answerability if any(answerability is label for _, answerability in counts)]
        rows: tuple[tuple[Cell, ...], ...] = tuple(
            (domain, *(counts[domain, label] for label in labels), sum(counts[domain, label] for label in labels))
            for domain in dict.fromkeys(task.domain for task in self.tasks)
        )
        table = Table("Tasks", ("domain", *(label.value for label in labels), "all"), rows)
        n_conversations = len({task.conversation_id for task in self.tasks})
        provenance = {"tasks": str(len(self.tasks)), "conversations": str(n_conversations)}
        return [Section(self.label, provenance, (table,))]


def load_benchmark(name: str, data: str | Path | None = None) -> LoadedBenchmark:
    """Return a benchmark with its tasks loaded.

    Args:
        name: name such as `mtrag`; `ragtasks data fetch` lists all.
        data: `sample`, or a folder with the files; default: the data folder (RAGTASKS_DATA, or the default folder of
            `ragtasks data fetch`).

    Raises:
        BenchmarkFileError: missing or broken files.
        ConfigurationError: an unknown benchmark.
    """
    named = None if data is None else str(data)
    folder = benchmark_folder(name, named, data_folder()).resolve()
    return LoadedBenchmark(open_benchmark(name, folder), named)


def setting_named(name: str) -> Setting:
    """Return the setting with a name.

    Raises:
        ConfigurationError: an unknown name.
    """
    names = [setting.value for setting in Setting]
    if name not in names:
        raise ConfigurationError(f"unknown setting {name!r}: {close_matches(name, names)}")
    return Setting(name)


# Retrieval runs, stored or supplied by the user, and their evaluation without a corpus.

Rankings = Mapping[str, Mapping[str, float]]
"""Query id -> passage id -> score, higher is better."""

_SHORT = 12


@dataclass(frozen=True, repr=False)
class RetrievedRun:
    """A stored run. Pass its name to `benchmark.passages(setting, run.name)` and `score(..., run=run.name)`."""

    stored: StoredRun
    """Folder and manifest of the run."""

    @property
    def name(self) -> str:
        """Name in the run store."""
        return self.stored.folder.name

    @cached_property
    def rankings(self) -> Rankings:
        """Query id -> passage id -> score, best first. Read at first access.

        Raises:
            CacheError: a missing or modified file.
        """
        from retrieval_cache import read_run as read_stored

        run = read_stored(self.stored)
        return {query_id: {ranked.passage_id: ranked.score for ranked in items} for query_id, items in run.items()}

    def __repr__(self) -> str:
        """Return the name and the folder."""
        return f"<{type(self).__name__} {self.name} in {self.stored.folder}>"

    def __str__(self) -> str:
        """Return the line of the run in `ragtasks results list`."""
        from retrieval_cache import list_runs

        return "\n".join(list_runs([self.stored]))


def retrieve(
    benchmark: LoadedBenchmark,
    retriever: str = "bm25",
    queries: str = "rewrite",
    *,
    name: str | None = None,
    depth: int = 100,
    corpora: Mapping[str, str] | None = None,
) -> RetrievedRun:
    """Return the run of a retriever over a benchmark's queries. An existing equal run is returned from the store.

    Args:
        benchmark: benchmark with the queries and corpora.
        retriever: retriever such as `bm25` or `hybrid(bm25,dense:minilm)`.
        queries: query form: `last_turn`, `rewrite`, `all_questions`, ...
        name: name of the run; default: retriever, query form and data.
        depth: passages stored per query.
        corpora: domain -> corpus that replaces the benchmark's own.

    Raises:
        RagtasksError: unknown names, missing files or libraries, a full disk.
    """
    from retrieval_cache import Workspace
    from retrieval_cache import retrieve as make

    workspace = Workspace(benchmark.name, benchmark.data, data_folder(), run_store(), secret)
    return RetrievedRun(make(workspace, retriever, queries, name=name, depth=depth, corpora=corpora))


@dataclass(frozen=True, repr=False)
class RunEvaluation(_AsTables):
    """Scores of a run. Prints a table of means with 95 % intervals over conversations."""

    name: str
    context: str
    """Label of the benchmark, or name of the file of judgements."""
    judgements: str
    """First characters of a hash of the judgements. Only runs with equal hashes can be compared."""
    values: Mapping[str, Mapping[str, float]]
    """Query id -> measure -> value, for every judged query."""
    omitted: tuple[str, ...]
    """Judged queries that the run omits. They count 0."""
    unjudged: tuple[str, ...]
    """Queries of the run without a judgement. They are ignored."""
    conversation_of: Mapping[str, str]
    """Query id -> conversation id; a query without a conversation is its own conversation."""

    @property
    def means(self) -> dict[str, float]:
        """Measure -> mean over all judged queries."""
        first = next(iter(self.values.values()), {})
        return {name: sum(row[name] for row in self.values.values()) / len(self.values) for name in first}

    def __repr__(self) -> str:
        """Return the name and the number of judged queries."""
        return f"<{type(self).__name__} of {self.name}: {len(self.values)} judged queries>"

    def _sections(self) -> Sequence[Section]:
        """Return the means as a table, with the number of omitted and ignored queries."""
        conversations = [self.conversation_of[query_id] for query_id in self.values]
        rows = tuple(
            (name, estimate_mean([row[name] for row in self.values.values()], conversations, bounds_of(name)).cell)
            for name in self.means
        )
        provenance = {
            "run": self.name,
            "judged queries": f"{len(self.values)}, of which the run omits {len(self.omitted)} (they count 0)",
        }
        provenance["judgements"] = self.judgements
        provenance |= {"ignored": f"{len(self.unjudged)} queries without a judgement"} if self.unjudged else {}
        table = Table("Means", ("measure", "mean"), rows)
        return [Section(f"Retrieval on {self.context}", provenance, (table,))]


def evaluate_run(
    run: Rankings | RetrievedRun | str | Path,
    qrels: LoadedBenchmark | Mapping[str, Mapping[str, int]] | str | Path,
    *,
    measures: Sequence[str] = (),
    name: str | None = None,
) -> RunEvaluation:
    """Return a run's scores for every judged query. No corpus is required.

    Args:
        run: query id -> passage id -> score; a run from `retrieve`; a TREC file; or the name or folder of a stored run.
        qrels: a benchmark; query id -> passage id -> relevance; or a file with three columns (BEIR) or four (TREC).
        measures: in the notation of ir-measures, such as `nDCG@20` and `R@100`. Other spellings, such as `recall_5`,
            are accepted and returned in that notation. Default: the measures of `ragtasks evaluate-run`.
        name: name of the run in tables; default: name of the stored run or file.

    Raises:
        BenchmarkFileError: missing or broken judgements.
        CacheError: a run that is missing, broken, or without any judged query.
        ConfigurationError: an unknown measure.
        MissingExtraError: the extra `retrieval` is not installed.
    """
    own_name, rankings = _run(run)
    judgements, context = _judgements(qrels)
    if isinstance(rankings, FileRun) and (note := rankings.order_note(judged.query_id for judged in judgements)):
        logging.getLogger(__name__).warning("%s: %s", own_name, note)
    metrics = [retrieval_metric(measure) for measure in dict.fromkeys(measures)] or RETRIEVAL_METRICS
    scores = score_run(rankings, judgements, metrics)
    if len(scores.omitted) == len(scores.values):
        shown = f"queries such as {next(iter(rankings), 'none')!r}"
        raise CacheError(
            "run",
            where=name or own_name,
            expected=f"at least one of the judged queries, such as {next(iter(scores.values), 'none')!r}",
            found=shown,
            next_step="evaluate a run with the judgements of its own queries",
        )
    conversation_of = (
        {task.task_id: task.conversation_id for task in qrels.tasks} if isinstance(qrels, LoadedBenchmark) else {}
    )
    conversations = {query_id: conversation_of.get(query_id) or _conversation(query_id) for query_id in scores.values}
    key = canonical_hash([[qrel.query_id, qrel.passage_id, qrel.relevance] for qrel in judgements])[:_SHORT]
    return RunEvaluation(name or own_name, context, key, scores.values, scores.omitted, scores.unjudged, conversations)


def _run(run: Rankings | RetrievedRun | str | Path) -> tuple[str, Run]:
    """Return the name and the rankings of a run."""
    if isinstance(run, (str, Path)):
        path = Path(run)
        if path.is_file():
            return path.stem, read_run(path)
        run = _stored(run)
    name, rankings = (run.name, run.rankings) if isinstance(run, RetrievedRun) else ("run", run)
    return name, {
        query_id: in_rank_order(Ranked(passage_id, float(score)) for passage_id, score in items.items())
        for query_id, items in rankings.items()
    }


def _stored(run: str | Path) -> RetrievedRun:
    from retrieval_cache import RunStore, StoredRun

    path = Path(run)
    if (path / MANIFEST).is_file():
        return RetrievedRun(StoredRun(path, read_manifest(path)))
    if path.name != str(run):
        raise CacheError(f"no run at {run}: neither a file nor the folder of a stored run. Next step: check the path")
    return RetrievedRun(RunStore(run_store()).named(str(run)))


def _judgements(qrels: LoadedBenchmark | Mapping[str, Mapping[str, int]] | str | Path) -> tuple[list[Qrel], str]:
    """Return the judgements and their name in tables."""
    if isinstance(qrels, (str, Path)):
        return list(read_qrels(Path(qrels))), Path(qrels).name
    own, context = (qrels.qrels, qrels.label) if isinstance(qrels, LoadedBenchmark) else (qrels, "judgements given")
    judgements = list(_flat(own))
    if not judgements:
        raise ConfigurationError(f"no judgements ({context}). Next step: pass query id -> passage id -> relevance")
    return judgements, context


def _flat(qrels: Mapping[str, Mapping[str, int]]) -> Iterator[Qrel]:
    for query_id, judged in qrels.items():
        for passage_id, relevance in judged.items():
            yield Qrel(query_id, passage_id, int(relevance))


def bounds_of(measure: str) -> tuple[float, float]:
    """Return the range of a measure: (0, inf) for counts such as `NumRet`, else (0, 1)."""
    return COUNT if measure.startswith("Num") else (0.0, 1.0)


def _conversation(query_id: str) -> str:
    try:
        return split_task_id(query_id)[0]
    except ValueError:
        return query_id


# Comparisons of two systems or runs: differences with intervals and tests over conversations.


@dataclass(frozen=True, repr=False)
class Differences(_AsTables):
    """Differences between two systems or runs. Prints the tables of `ragtasks compare`."""

    comparisons: Comparisons
    """Means and pairs."""
    of_runs: bool
    """Whether runs were compared instead of answers."""
    doubts: tuple[str, ...] = ()
    """Reasons to distrust the answers or verdicts."""

    @property
    def pairs(self) -> tuple[Comparison, ...]:
        """One comparison per metric and setting.

        `difference` is second minus first with its interval (`low`, `high`). `p` and `adjusted_p` are of its test.
        """
        return self.comparisons.pairs

    def __repr__(self) -> str:
        """Return each metric with its difference."""
        gaps = ((pair.first.metric, pair.difference.value) for pair in self.pairs)
        listed = ", ".join(f"{name} {'-' if value is None else fixed(value, signed=True)}" for name, value in gaps)
        return f"<{type(self).__name__}: {listed}>"

    def _sections(self) -> Sequence[Section]:
        """Return means, differences and an explanation of the columns."""
        group, name, items = ("queries", "run", "queries") if self.of_runs else ("setting", "model", "tasks")
        return comparison_sections(self.comparisons, group=group, name=name, items=items, warnings=self.doubts)


Side = Results | RunEvaluation | str | Path
"""Scores, an evaluated run, or the path of results."""


def compare(a: Side, b: Side, *, metric: str | Sequence[str] = ()) -> Differences:
    """Compare two systems or runs on the tasks or queries that both scored.

    Args:
        a: results of `score` or `read_results`, the path of results, or a result of `evaluate_run`.
        b: the same of another system or run. Equal names get the suffixes `(first)` and `(second)`.
        metric: one or several metrics; default: the paper's metrics, or for runs every measure, that both have.

    Raises:
        ConfigurationError: an unknown metric, or no scores that can be compared.
        BenchmarkFileError: unreadable results.
    """
    metrics = [metric] if isinstance(metric, str) else list(metric)
    if isinstance(a, RunEvaluation) and isinstance(b, RunEvaluation):
        return Differences(compare_columns([*_columns(a, b, metrics)]), of_runs=True)
    if isinstance(a, RunEvaluation) or isinstance(b, RunEvaluation):
        raise ConfigurationError("comparison: expected two runs or two results, found a run and answers")
    first, second = ((side if isinstance(side, Results) else read_results(side)).evaluations for side in (a, b))
    shared = {evaluation.model for evaluation in first} & {evaluation.model for evaluation in second}
    named = [*_with_place(first, shared, "first"), *_with_place(second, shared, "second")]
    return Differences(compare_evaluations(named, metrics=metrics), of_runs=False, doubts=warnings_of(named))


@dataclass(frozen=True, repr=False)
class Decision:
    """The decision between systems and the verdicts spent on it. Prints the output of `ragtasks compare --judge`."""

    decided: Decided
    """The comparison with its last interim analysis, and the numbers of requests."""

    @property
    def verdict(self) -> str:
        """`better`, `equal` or `cannot be told`."""
        verdict = self.decided.race.verdict
        return verdict.value if verdict else ""

    @property
    def better(self) -> str | None:
        """The system that is better than each of the others; None if undecided."""
        race = self.decided.race
        return race.remaining[0] if race.verdict is RaceEnd.BETTER else None

    def __repr__(self) -> str:
        """Return the conclusion."""
        return f"<{type(self).__name__}: {self.decided.race.conclusion(self.decided.metric.name)}>"

    def __str__(self) -> str:
        """Return the decision, its difference, and the numbers of verdicts requested and saved."""
        return decision_text(self.decided)


def compare_until_decided(
    results: Sequence[str | Path],
    judges: str | Sequence[Any],
    *,
    metric: str | None = None,
    setting: str | None = None,
    margin: float | None = None,
    seed: int = 0,
    output: str | Path = "decided",
    data: str | None = None,
) -> Decision:
    """Judge saved answers until the better system is known, and stop.

    Args:
        results: saved results of two or more systems.
        judges: LLM judges, as in `score`.
        metric: deciding metric, scored by judges; default: the first of the benchmark.
        setting: setting of the answers, if the systems have several in common.
        margin: largest difference between equal systems; default: 5 % of the metric's range.
        seed: seed of the order in which answers are judged.
        output: folder for the scores. The same call continues there and sends no request twice.
        data: `sample` or the benchmark's folder, if the results do not contain it.

    Raises:
        ConfigurationError: systems that cannot be compared (before any request), or an output of other options.
        RagtasksError: judges failed or returned too few verdicts. Their verdicts are saved.
    """
    options: dict[str, Any] = {"judges": judges, **({"data": data} if data else {})}
    wanted = RaceOptions(metric, setting, margin, seed)
    place = Folders(data_folder(), run_store())
    local_judge = _local_judge(config_from_options(options))
    return Decision(
        decide([Path(path) for path in results], options, wanted, Path(output), place, local_judge=local_judge)
    )


def _with_place(evaluations: Sequence[Evaluation], shared: set[str], suffix: str) -> Iterator[Evaluation]:
    for evaluation in evaluations:
        yield replace(evaluation, model=f"{evaluation.model} ({suffix})") if evaluation.model in shared else evaluation


def _columns(a: RunEvaluation, b: RunEvaluation, metrics: Sequence[str]) -> Iterator[Column]:
    shared = [name for name in a.means if name in b.means]
    chosen = [measure_name(name) for name in metrics]
    for name in chosen:
        if name not in shared:
            raise ConfigurationError(f"unknown measure {name!r}: {close_matches(name, shared)}")
    names = (a.name, b.name) if a.name != b.name else (f"{a.name} (first)", f"{b.name} (second)")
    for evaluation, name in zip((a, b), names, strict=True):
        for measure in chosen or shared:
            yield Column(
                context=f"{evaluation.context}; judgements: {evaluation.judgements}",
                group="all",
                metric=measure,
                name=name,
                values={query_id: row[measure] for query_id, row in evaluation.values.items()},
                cluster_of=evaluation.conversation_of,
                bounds=bounds_of(measure),
            )
