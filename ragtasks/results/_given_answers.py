"""Answers of a user's system, from a file or as records, in the form of logged samples of the harness."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ragtasks.benchmarks import (
    ROWS,
    SAMPLE,
    Benchmark,
    Doc,
    added_benchmark_names,
    benchmark_folder,
    benchmark_names,
    build_docs,
    contexts_for,
    open_benchmark,
    relevant_passages,
    trajectory_row,
)
from ragtasks.config import EvaluationConfig
from ragtasks.errors import BenchmarkFileError, ConfigurationError, RagtasksError, near_names
from ragtasks.files import (
    OFFICIAL,
    USAGE_KEYS,
    Problems,
    contexts_and_steps,
    contexts_in,
    first_row,
    json_lines,
    list_in,
    usage_in_record,
)
from ragtasks.metrics import answer_text
from ragtasks.records import Contexts, Ending, Passage, Setting, Trajectory, normalise_task_id
from ragtasks.results._record_keys import ANSWER_KEYS, JOINED, ROW_KEYS, RecordKeys, is_null, keys_step, value_under
from ragtasks.results._saved import SavedEvaluation, SavedTask, unusable_error
from ragtasks.results._scored_answer import ScoredAnswer, saved_answer
from ragtasks.suites import AGENTIC, suite_with
from ragtasks.tables import grouped

_FILTER, _SAMPLE_FILTER = "none", "sample"


def unscored_answers(
    given: Mapping[str, GivenAnswer], benchmark: Benchmark, contexts: Contexts, config: EvaluationConfig
) -> list[ScoredAnswer]:
    """Return the answers in the order of the benchmark, each with the sample that the harness would log.

    Conversational tasks are left out unless the configuration counts them, as in a run of the harness.
    """
    searched = {task.domain for task in benchmark.tasks if task.task_id in given and given[task.task_id].trajectory}
    relevant = relevant_passages(benchmark, searched)
    docs = build_docs(benchmark, contexts.setting, None, conversational=config.conversational, contexts=contexts)
    return [
        _unscored_answer(doc, given[task_id], config.end_of_thinking, relevant.get(task_id, ()))
        for doc in docs
        if (task_id := doc["task_id"]) in given
    ]


def answers_evaluation(
    given: Mapping[str, GivenAnswer],
    benchmark: Benchmark,
    contexts: Contexts,
    *,
    config: EvaluationConfig,
    source: Path,
    folder: Path,
    name: str,
    time: str,
) -> SavedEvaluation:
    """Return the answers of a user's system in the form of logged results of the harness."""
    setting, config = contexts.setting, config.model_copy(update={"run": contexts.run})
    answers = unscored_answers(given, benchmark, contexts, config)
    if not answers:
        raise unusable_error("answers", source, "an answer to a task that counts", "none: all tasks are conversational")
    by_domain = grouped(answers, lambda answer: answer.task.domain)
    counts = benchmark.count_tasks(setting, set(by_domain), conversational=config.conversational)
    provenance = {
        "benchmark": benchmark.label,
        "suite": suite_with(suite_of_answers(benchmark, setting, given), config),
        "revision": benchmark.revision,
        "setting_tasks": {setting.value: counts},
        "fingerprint": None,
    }
    tasks = tuple(
        SavedTask(
            f"{benchmark.name}_{setting.value}_{domain}",
            *(benchmark.name, config, provenance, {}),
            tuple(replace(answer, sample={"doc_id": n, **answer.sample}) for n, answer in enumerate(domain_answers)),
        )
        for domain, domain_answers in by_domain.items()
    )
    return SavedEvaluation(source, folder, time, _results_of(name, benchmark, setting, tasks), tasks, {})


def suite_of_answers(benchmark: Benchmark, setting: Setting, given: Mapping[str, GivenAnswer]) -> str:
    """Return the suite. Searches are scored in the setting `agentic`, and in the user's own rows."""
    of_rows = benchmark.name == ROWS and any(answer.trajectory for answer in given.values())
    return f"{benchmark.suite}+{AGENTIC}" if of_rows or setting is Setting.AGENTIC else benchmark.suite


def read_predictions(
    file: Path,
    folder: Path,
    benchmark: Benchmark,
    setting: Setting,
    *,
    config: EvaluationConfig = EvaluationConfig(),  # noqa: B008 (frozen)
    store: Path,
) -> SavedEvaluation:
    """Return the answers in a file as if the harness had logged them. The file's name is the name of the system."""
    answers = read_answers(file, benchmark)
    contexts = contexts_of_answers(answers, benchmark, setting, config.run, store)
    time = file.stem.replace("_", "-")
    return answers_evaluation(
        answers, benchmark, contexts, config=config, source=file, folder=folder, name=file.stem, time=time
    )


def _unscored_answer(doc: Doc, answer: GivenAnswer, end_of_thinking: str, relevant: Sequence[str]) -> ScoredAnswer:
    text = answer_text(answer.text, end_of_thinking)
    if answer.usage:
        doc["usage"] = answer.usage
    if answer.trajectory is not None:
        ending = Ending.ERROR if answer.no_answer else Ending.ANSWERED if text.strip() else Ending.GAVE_UP
        trajectory = trajectory_row(replace(answer.trajectory, ending=ending))
        doc["trajectory"] = {**trajectory, "relevant": list(relevant)}
    if answer.no_answer:
        doc["no_answer"] = answer.no_answer
    return saved_answer(
        {
            "doc": doc,
            "target": doc["target"],
            "arguments": {},  # the prompt is unknown
            "resps": [[answer.text]],
            "filtered_resps": [text],
            "filter": _SAMPLE_FILTER if doc["is_sample"] else _FILTER,
            "metrics": [],
        }
    )


def _results_of(name: str, benchmark: Benchmark, setting: Setting, tasks: Sequence[SavedTask]) -> dict[str, Any]:
    """Return the results that the harness would write for the answers, as far as they are known."""
    names = [task.name for task in tasks]
    counts = {task.name: {"original": len(task.answers), "effective": len(task.answers)} for task in tasks}
    return {
        "group_subtasks": {f"{benchmark.name}_{setting.value}": names},
        "configs": {name: {"task": name} for name in names},
        "n-samples": counts,
        "config": {"model": "answers", "model_args": {"model": name}},
        "model_source": "answers",
        "model_name": name,
    }


# Answers of the user's own system: records with an id and a text, and with passages if the system retrieves. Files and
# Python programs bring the same records, so there is one reader. It reads every record and reports all errors at once.

Note = Callable[[int, str, object, str], None]
"""Receives (number of the record from 1, expected, found, id of the task)."""

_LISTS: Mapping[str, tuple[type, ...]] = {
    **dict.fromkeys(("contexts", "searches", "messages"), (object,)),
    "question": (dict,),
    "reference": (str,),
}
"""Value that may be a list, or a text in a cell of a table -> types of the members of such a list."""
_NUMBERS = frozenset(USAGE_KEYS) - {"currency"}
_LIST_STARTS = ('["', "['", "[{")
_MAX_FOREIGN = 3  # mistyped ids, each of which is listed
_MAX_HINTS = 20  # each takes milliseconds, and in a file of another benchmark every id is unknown
_NEXT_STEP = (
    'fix these lines; each is {"id": ..., "answer": "text", "contexts": [{"text": ...}]} (docs/score-your-system.md). '
    'Questions of your own, without a benchmark: {"question": "text", "answer": "text", "contexts": ["text", ...]}'
)


@dataclass(frozen=True, slots=True)
class GivenAnswer:
    """One answer as the user's system gave it."""

    text: str
    passages: tuple[Passage, ...] | None = None
    """Passages that the answer is based on. None if these are the passages of the setting."""
    trajectory: Trajectory | None = None
    """Searches of the system before it answered. None if the record has no searches."""
    usage: Mapping[str, Any] = field(default_factory=dict)
    """Usage: amounts by metric name, and under `calls` the usage of each reply of a server."""
    no_answer: str = ""
    """Reason for a missing answer, such as a failed request."""


class AnswerRow:
    """One record of an answer from a file or a program, and whether it has an error."""

    def __init__(self, number: int, row: Mapping[str, Any], keys: RecordKeys, note: Note) -> None:
        """Read the values by name.

        Args:
            number: the record's number, from 1.
            row: the record.
            keys: the possible keys of each value. The first with a value counts.
            note: receives each error.
        """
        self.name = ""
        """Id of the task, for errors."""
        self.is_valid = True
        self._number, self._note, self._row = number, note, row
        self._null = [key for key in keys.all_of("answer") if key in row and is_null(row[key])]
        self.values: dict[str, Any] = {}
        for name in keys.names:
            if present := keys.keys_in(row, name):
                self.values[name] = _from_cell(name, present[0], plain(value_under(row, present[0])))

    def note(self, expected: str, found: object) -> None:
        """Report an error of the record."""
        self.is_valid = False
        self._note(self._number, expected, found, self.name)

    def answer(self) -> GivenAnswer:
        """Return the answer. A value with an error is reported and left out."""
        return GivenAnswer(self._text(), *self._passages_and_searches(), self._usage())

    def _text(self) -> str:
        text = self.values.get("answer")
        if isinstance(text, list) and len(text) == 1 and isinstance(text[0], Mapping):
            text = text[0].get("text", text)  # MTRAGEval's `predictions`
        if isinstance(text, str):
            return text
        if text is None:
            similar = get_close_matches("answer", map(str, self._row), n=1, cutoff=0.7)
            missing = "no `answer`" + "".join(f" but `{key}`" for key in similar)
            if self._null:
                missing = f"no text: `{self._null[0]}` is null"
            self.note("`answer`: a text, which may be empty", missing)
        else:
            self.note("`answer`: a text", text)
        return ""

    def _passages_and_searches(self) -> tuple[tuple[Passage, ...] | None, Trajectory | None]:
        contexts = None
        try:
            if "contexts" in self.values:
                value = self.values["contexts"]
                if isinstance(value, str) and value.lstrip().startswith(_LIST_STARTS):
                    raise ValueError("a list", f"a text that begins like a list, {value[:40]}...")
                contexts = contexts_in([value] if isinstance(value, (str, Mapping)) else value)
        except ValueError as error:
            expected, found = error.args
            self.note(f"`contexts`: {expected}", found)
        try:
            return contexts_and_steps(contexts, self.values.get("searches"))
        except ValueError as error:
            self.note(*error.args)
            return contexts, None

    def _usage(self) -> dict[str, float]:
        try:
            return usage_in_record(self.values)
        except ValueError as error:
            expected, found = error.args
            hint = " (--keys cost=- leaves it out)" if "currency" in expected else ""
            self.note(f"{expected}{hint}", found)
            return {}


def plain(value: Any) -> Any:
    """Return a numpy array as a list and a numpy number as a plain number; other values unchanged."""
    as_list: Callable[[], Any] | None = getattr(value, "tolist", None) or getattr(value, "to_list", None)
    return as_list() if callable(as_list) else value


def _from_cell(name: str, key: str, value: Any) -> Any:
    """Return the list or number that a cell of a table contains as text; any other value unchanged."""
    if not isinstance(value, str):
        return value
    if name in _NUMBERS:
        with suppress(ValueError):
            return float(value)
    members = list_in(value) if name in _LISTS else None
    members = value.split(JOINED[key]) if members is None and key in JOINED else members
    is_list = members is not None and all(isinstance(member, _LISTS[name]) for member in members)
    # A question in brackets is a text, and so is an empty list.
    return members if is_list and (members or name != "question") else value


class AnswerReader:
    """Reader of the answers of one system to one benchmark."""

    def __init__(
        self, benchmark: Benchmark, note: Note, unit: str = "line", keys: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        """Begin with no records. `keys` are those that the user named."""
        self._keys = ANSWER_KEYS.with_keys(keys)
        self._label, self._note, self._unit = benchmark.label, note, unit
        self._name, self._is_sample = benchmark.name, benchmark.is_sample
        self._ids = _spellings(benchmark)
        self._task_ids = [task.task_id for task in benchmark.tasks]
        self._foreign: dict[str, int] = {}
        self._n_read = 0
        self._number_of: dict[str, int] = {}
        self._n_hints = 0

    def read(self, number: int, row: object) -> tuple[str, GivenAnswer] | None:
        """Return task id and answer of a record, or None after an error, which is reported."""
        self._n_read += 1
        if not isinstance(row, Mapping):
            self._note(number, "an object with `id` and `answer`", type(row).__name__, "")
            return None
        record = AnswerRow(number, row, self._keys, self._note)
        record.name = self._task_id(number, record)
        answer = record.answer()
        return (record.name, answer) if record.is_valid else None

    def _task_id(self, number: int, record: AnswerRow) -> str:
        """Return the task id of a record, or an empty text after an error."""
        id_value = record.values.get("id")
        if id_value is None:
            record.note(f"`id`: a task of {self._label}", "no `id`")
            return ""
        is_number = isinstance(id_value, int) and not isinstance(id_value, bool)
        id_value = str(id_value) if is_number else id_value  # TREC's topics have numbers
        task_id = self._ids.get(_normalized(id_value)) if isinstance(id_value, str) else None
        if task_id is None:
            self._foreign.setdefault(str(id_value), number)
            record.note(f"`id`: a task of {self._label}{self._hint(id_value)}", id_value)
            return ""
        record.name = task_id
        first = self._number_of.setdefault(task_id, number)
        if first != number:
            record.note("each task once", f"the task of {self._unit} {first}")
        return task_id

    def require_answers(self, where: str, data: Path | None) -> None:
        """Raise BenchmarkFileError if more than `_MAX_FOREIGN` ids, and more than half, are not tasks of the benchmark.

        The error names benchmarks with these ids: samples, and benchmarks in the folder `data`.
        """
        n = len(self._foreign)
        if n <= max(_MAX_FOREIGN, self._n_read / 2):
            return
        first, number = next(iter(self._foreign.items()))
        found = f"{n} of {self._n_read} ids of other tasks, such as {first!r} in {self._unit} {number}"
        option = " --data sample" if self._is_sample else ""
        command = f"ragtasks tasks export --benchmark {self._name}{option} --output tasks.jsonl"
        example = f"ids are such as {self._task_ids[0]!r} (`{command}` writes them)"
        step = f"{example}; for answers to another benchmark, name that benchmark"
        if matches := _benchmarks_with(self._foreign, data):
            found += f"; these are tasks of {' and '.join(benchmark.label for benchmark in matches)}"
            setting, option = f"`benchmark: {matches[0].name}`", f"--benchmark {matches[0].name}"
            if matches[0].is_sample:
                setting, option = f"{setting} and `data: sample`", f"{option} --data sample"
            remark = ", and leave `data` out" if self._is_sample and not matches[0].is_sample else ""
            step = f"name the benchmark: {setting} in evaluation.yaml, {option} on the command line{remark}"
        expected = f"ids of tasks of {self._label}"
        raise BenchmarkFileError("answers", where=where, expected=expected, found=found, next_step=step)

    def _hint(self, id_value: object) -> str:
        self._n_hints += 1
        if not isinstance(id_value, str) or self._n_hints > _MAX_HINTS:
            return ""
        hint = near_names(id_value, self._task_ids)
        return f" ({hint})" if hint else ""


def _benchmarks_with(ids: Collection[str], data: Path | None) -> list[Benchmark]:
    """Return the available benchmarks with the most of the ids, and at least half of them."""
    matches: list[tuple[int, Benchmark]] = []
    names = (*benchmark_names(), *added_benchmark_names())
    for name, variant in [(name, variant) for name in names for variant in (SAMPLE, None) if variant or data]:
        with suppress(RagtasksError):
            benchmark = open_benchmark(name, benchmark_folder(name, variant, data or Path()).resolve())
            task_ids = _spellings(benchmark)
            matches.append((sum(_normalized(id_text) in task_ids for id_text in ids), benchmark))
    most = max([n for n, _ in matches], default=0)
    return [benchmark for n, benchmark in matches if n == most and n >= len(ids) / 2]


def read_answers(
    file: Path, benchmark: Benchmark, data: Path | None = None, keys: Mapping[str, str] = MappingProxyType({})
) -> dict[str, GivenAnswer]:
    """Return task id -> answer in a file of any container, one object per task.

    `data` is the data folder. If most ids are unknown, it is searched for the benchmark that they belong to. `keys` are
    those that the user named.
    """
    problems = Problems(file, "answers", _NEXT_STEP)
    reader = AnswerReader(benchmark, problems.add, keys=keys)
    answers = dict(answer for line, row in json_lines(problems) if (answer := reader.read(line, row)))
    reader.require_answers(str(file), data)
    if not answers:
        first = first_row(file)
        call = f"ragtasks score {file} --benchmark {benchmark.name} --keys {{}}"
        problems.next_step = keys_step(ANSWER_KEYS.with_keys(keys), first, call) or _NEXT_STEP
        if first and not ROW_KEYS.with_keys(keys).missing(first):
            problems.next_step = f"leave --benchmark out for rows of your own: `ragtasks score {file}`"
    problems.raise_if_any()
    return answers


def _spellings(benchmark: Benchmark) -> dict[str, str]:
    """Return spelling -> task id. If a conversation has only one task, its own id is a spelling of the task id."""
    of_conversation = grouped(benchmark.tasks, lambda task: task.conversation_id)
    alone = {name: tasks[0].task_id for name, tasks in of_conversation.items() if len(tasks) == 1}
    return {**alone, **{task.task_id: task.task_id for task in benchmark.tasks}}


def _normalized(id_text: str) -> str:
    try:
        return normalise_task_id(id_text)
    except ValueError:
        return id_text


# Passages of the answers: those that the system reports, or else those of the setting.

CONTEXTS_OF_FILE = "file"
"""Name of the run if the answers themselves contain their passages."""

_MAX_LISTED = 5


def contexts_of_answers(
    given: Mapping[str, GivenAnswer], benchmark: Benchmark, setting: Setting, run: str, store: Path
) -> Contexts:
    """Return the passages of each task of a setting. Passages in the answers take precedence.

    The run is `CONTEXTS_OF_FILE` if every answer contains its passages and any passages differ from the setting's.
    """
    own = {task_id: answer.passages for task_id, answer in given.items() if answer.passages is not None}
    is_own = bool(own) and all(answer.passages is not None or answer.no_answer for answer in given.values())
    try:
        published = contexts_for(benchmark, setting, run, store).passages
    except RagtasksError as error:
        if not is_own or run != OFFICIAL or setting is Setting.REFERENCE_RAG:
            raise (error if is_own else _no_passages_error(benchmark, setting, len(given) - len(own), error)) from error
        published = {task.task_id: () for task in benchmark.tasks}
    if outside := [task_id for task_id in given if task_id not in published]:
        raise _other_setting_error(benchmark, setting, outside)
    differs = any(_identity(passages) != _identity(published[task_id]) for task_id, passages in own.items())
    return Contexts(CONTEXTS_OF_FILE if is_own and differs else run, setting, {**published, **own})


def _identity(passages: Sequence[Passage]) -> list[tuple[str, str]]:
    return [(passage.passage_id, passage.text) for passage in passages]


def _no_passages_error(benchmark: Benchmark, setting: Setting, n: int, error: RagtasksError) -> RagtasksError:
    if not isinstance(error, ConfigurationError):
        return error
    return ConfigurationError(
        "answers",
        where=f"to {benchmark.label} in setting {setting.value}",
        expected="`contexts` in every answer, as the setting has no passages of its own",
        found=f"{n} answers without contexts ({str(error).splitlines()[0]})",
        next_step="add the passages of each answer as `contexts`, or name a stored run with --run",
    )


def _other_setting_error(benchmark: Benchmark, setting: Setting, ids: Sequence[str]) -> ConfigurationError:
    more = f" and {len(ids) - _MAX_LISTED} more" if len(ids) > _MAX_LISTED else ""
    return ConfigurationError(
        "answers",
        where=f"to {benchmark.label}",
        expected=f"tasks of the setting {setting.value}",
        found=f"{len(ids)} answers to other tasks: {', '.join(ids[:_MAX_LISTED])}{more}",
        next_step="name the setting of the answers; "
        "`ragtasks tasks export --setting SETTING --output tasks.jsonl` writes its tasks",
    )
