"""Answers of a user's system, from a file or as records, in the form of logged samples of the harness."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
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
from ragtasks.records import (
    Contexts,
    Ending,
    Passage,
    Setting,
    Trajectory,
    normalise_task_id,
)
from ragtasks.results._record_keys import ANSWER_KEYS, JOINED, ROW_KEYS, RecordKeys, is_null, keys_step, value_under
from ragtasks.results._saved import SavedEvaluation, SavedTask, unusable
from ragtasks.results._scored_answer import ScoredAnswer, saved_answer
from ragtasks.suites import AGENTIC, suite_with

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
        _unscored(doc, given[task_id], config.end_of_thinking, relevant.get(task_id, ()))
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
        raise unusable("answers", source, "an answer to a task that counts", "none: all tasks are conversational")
    by_domain: dict[str, list[ScoredAnswer]] = {}
    for answer in answers:
        by_domain.setdefault(answer.task.domain, []).append(answer)
    provenance = {
        "benchmark": benchmark.label,
        "suite": suite_with(suite_of_answers(benchmark, setting, given), config),
        "revision": benchmark.revision,
        "setting_tasks": {
            setting.value: benchmark.count_tasks(setting, set(by_domain), conversational=config.conversational)
        },
        "fingerprint": None,
    }
    tasks = tuple(
        SavedTask(
            f"{benchmark.name}_{setting.value}_{domain}", benchmark.name, config, provenance, {}, _with_numbers(items)
        )
        for domain, items in by_domain.items()
    )
    return SavedEvaluation(source, folder, time, _results_of(name, benchmark, setting, tasks), tasks, {})


def _with_numbers(answers: Iterable[ScoredAnswer]) -> tuple[ScoredAnswer, ...]:
    return tuple(replace(item, sample={"doc_id": number, **item.sample}) for number, item in enumerate(answers))


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
    given = read_answers(file, benchmark)
    contexts = contexts_of_answers(given, benchmark, setting, config.run, store)
    time = file.stem.replace("_", "-")
    return answers_evaluation(
        given, benchmark, contexts, config=config, source=file, folder=folder, name=file.stem, time=time
    )


def _unscored(doc: Doc, answer: GivenAnswer, end_of_thinking: str, relevant: Sequence[str]) -> ScoredAnswer:
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
    sizes = {task.name: {"original": len(task.answers), "effective": len(task.answers)} for task in tasks}
    return {
        "group_subtasks": {f"{benchmark.name}_{setting.value}": names},
        "configs": {name: {"task": name} for name in names},
        "n-samples": sizes,
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
_LIKE_A_LIST = ('["', "['", "[{")
_FEW_FOREIGN = 3  # mistyped ids, each of which is listed
_MOST_HINTS = 20  # each takes milliseconds, and in a file of another benchmark every id is unknown
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
        self.is_right = True
        self._number, self._note, self._row = number, note, row
        self._null = [key for key in keys.all_of("answer") if key in row and is_null(row[key])]
        self.values: dict[str, Any] = {}
        for name in keys.names:
            if found := keys.keys_in(row, name):
                self.values[name] = _from_cell(name, found[0], plain(value_under(row, found[0])))

    def note(self, expected: str, found: object) -> None:
        """Report an error of the record."""
        self.is_right = False
        self._note(self._number, expected, found, self.name)

    def answer(self) -> GivenAnswer:
        """Return the answer. A part with an error is reported and left out."""
        return GivenAnswer(self._text(), *self._used(), self._usage())

    def _text(self) -> str:
        found = self.values.get("answer")
        if isinstance(found, list) and len(found) == 1 and isinstance(found[0], Mapping):
            found = found[0].get("text", found)  # MTRAGEval's `predictions`
        if isinstance(found, str):
            return found
        if found is None:
            near = get_close_matches("answer", map(str, self._row), n=1, cutoff=0.7)
            missing = "no `answer`" + "".join(f" but `{key}`" for key in near)
            if self._null:
                missing = f"no text: `{self._null[0]}` is null"
            self.note("`answer`: a text, which may be empty", missing)
        else:
            self.note("`answer`: a text", found)
        return ""

    def _used(self) -> tuple[tuple[Passage, ...] | None, Trajectory | None]:
        contexts = None
        try:
            if "contexts" in self.values:
                given = self.values["contexts"]
                if isinstance(given, str) and given.lstrip().startswith(_LIKE_A_LIST):
                    raise ValueError("a list", f"no list: a text that begins like one, {given[:40]}...")
                contexts = contexts_in([given] if isinstance(given, (str, Mapping)) else given)
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
            way = " (--keys cost=- leaves it out)" if "currency" in expected else ""
            self.note(f"{expected}{way}", found)
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
    listed = list_in(value) if name in _LISTS else None
    listed = value.split(JOINED[key]) if listed is None and key in JOINED else listed
    is_meant = listed is not None and all(isinstance(item, _LISTS[name]) for item in listed)
    # A question in brackets is a text, and so is an empty list.
    return listed if is_meant and (listed or name != "question") else value


class AnswerReader:
    """Reader of the answers of one system to one benchmark."""

    def __init__(
        self, benchmark: Benchmark, note: Note, place: str = "line", keys: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        """Begin with no records. `keys` are those that the user named."""
        self._keys = ANSWER_KEYS.with_keys(keys)
        self._label, self._note, self._place = benchmark.label, note, place
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
        return (record.name, answer) if record.is_right else None

    def _task_id(self, number: int, record: AnswerRow) -> str:
        """Return the task id of a record, or an empty text after an error."""
        written = record.values.get("id")
        if written is None:
            record.note(f"`id`: a task of {self._label}", "no `id`")
            return ""
        is_number = isinstance(written, int) and not isinstance(written, bool)
        written = str(written) if is_number else written  # TREC's topics have numbers
        task_id = self._ids.get(_normal(written)) if isinstance(written, str) else None
        if task_id is None:
            self._foreign.setdefault(str(written), number)
            record.note(f"`id`: a task of {self._label}{self._hint(written)}", written)
            return ""
        record.name = task_id
        first = self._number_of.setdefault(task_id, number)
        if first != number:
            record.note("each task once", f"a task that stands in {self._place} {first} already")
        return task_id

    def require_answers(self, where: str, data: Path | None) -> None:
        """Raise BenchmarkFileError if most ids are not tasks of the benchmark.

        The error names benchmarks that have them.

        `data` is the folder in which other benchmarks are searched, next to the samples.
        """
        n = len(self._foreign)
        if n <= max(_FEW_FOREIGN, self._n_read / 2):
            return
        first, number = next(iter(self._foreign.items()))
        found = f"{n} of {self._n_read} ids are of none, such as {first!r} in {self._place} {number}"
        option = " --data sample" if self._is_sample else ""
        command = f"ragtasks tasks export --benchmark {self._name}{option} --output tasks.jsonl"
        example = f"ids are such as {self._task_ids[0]!r} (`{command}` writes them)"
        step = f"{example}; if another benchmark was answered, name that one"
        if fits := _benchmarks_with(self._foreign, data):
            found += f"; these are of {' and '.join(item.label for item in fits)}"
            named, option = f"`benchmark: {fits[0].name}`", f"--benchmark {fits[0].name}"
            if fits[0].is_sample:
                named, option = f"{named} and `data: sample`", f"{option} --data sample"
            more = ", and leave `data` out" if self._is_sample and not fits[0].is_sample else ""
            step = f"name what was answered: {named} in evaluation.yaml, {option} on the command line{more}"
        expected = f"ids of tasks of {self._label}"
        raise BenchmarkFileError("answers", where=where, expected=expected, found=found, next_step=step)

    def _hint(self, written: object) -> str:
        self._n_hints += 1
        if not isinstance(written, str) or self._n_hints > _MOST_HINTS:
            return ""
        hint = near_names(written, self._task_ids)
        return f" ({hint})" if hint else ""


def _benchmarks_with(ids: Collection[str], data: Path | None) -> list[Benchmark]:
    """Return the available benchmarks with the most of the ids, and at least half of them."""
    n_of: list[tuple[int, Benchmark]] = []
    names = (*benchmark_names(), *added_benchmark_names())
    for name, of in [(name, of) for name in names for of in (SAMPLE, None) if of or data]:
        with suppress(RagtasksError):
            benchmark = open_benchmark(name, benchmark_folder(name, of, data or Path()).resolve())
            known = _spellings(benchmark)
            n_of.append((sum(_normal(written) in known for written in ids), benchmark))
    most = max([n for n, _ in n_of], default=0)
    return [benchmark for n, benchmark in n_of if n == most and n >= len(ids) / 2]


def read_answers(
    file: Path, benchmark: Benchmark, data: Path | None = None, keys: Mapping[str, str] = MappingProxyType({})
) -> dict[str, GivenAnswer]:
    """Return task id -> answer in a file of any container, one object per task.

    `data` is the data folder, in which the benchmark is searched that the ids may belong to. `keys` are those that the
    user named.
    """
    problems = Problems(file, "answers", _NEXT_STEP)

    reader = AnswerReader(benchmark, problems.add, keys=keys)
    given = dict(item for line, row in json_lines(problems) if (item := reader.read(line, row)))
    reader.require_answers(str(file), data)
    if not given:
        first = first_row(file)
        call = f"ragtasks score {file} --benchmark {benchmark.name} --keys {{}}"
        problems.next_step = keys_step(ANSWER_KEYS.with_keys(keys), first, call) or _NEXT_STEP
        if first and not ROW_KEYS.with_keys(keys).missing(first):
            problems.next_step = f"leave --benchmark out for rows of your own: `ragtasks score {file}`"
    problems.raise_if_any()
    return given


def _spellings(benchmark: Benchmark) -> dict[str, str]:
    """Return spelling -> task id. The id of a conversation stands for its task if the conversation has only one."""
    of_conversation: dict[str, list[str]] = {}
    for task in benchmark.tasks:
        of_conversation.setdefault(task.conversation_id, []).append(task.task_id)
    alone = {name: ids[0] for name, ids in of_conversation.items() if len(ids) == 1}
    return {**alone, **{task.task_id: task.task_id for task in benchmark.tasks}}


def _normal(written: str) -> str:
    try:
        return normalise_task_id(written)
    except ValueError:
        return written


# Passages of the answers: those that the system reports, or else those of the setting.

CONTEXTS_OF_FILE = "file"
"""Name of the run if the answers themselves contain their passages."""

_MAX_LISTED = 5


def contexts_of_answers(
    given: Mapping[str, GivenAnswer], benchmark: Benchmark, setting: Setting, run: str, store: Path
) -> Contexts:
    """Return the passages of each task of a setting. Passages in the answers take precedence.

    The run is `CONTEXTS_OF_FILE` if every answer has passages of its own that differ from those of the setting.
    """
    own = {task_id: answer.passages for task_id, answer in given.items() if answer.passages is not None}
    is_own = bool(own) and all(item.passages is not None or item.no_answer for item in given.values())
    try:
        published = contexts_for(benchmark, setting, run, store).passages
    except RagtasksError as error:
        if not is_own or run != OFFICIAL or setting is Setting.REFERENCE_RAG:
            raise _no_passages(benchmark, setting, len(given) - len(own), error) if not is_own else error from error
        published = {task.task_id: () for task in benchmark.tasks}
    if outside := [task_id for task_id in given if task_id not in published]:
        raise _outside(benchmark, setting, outside)
    differs = any(_key(passages) != _key(published[task_id]) for task_id, passages in own.items())
    return Contexts(CONTEXTS_OF_FILE if is_own and differs else run, setting, {**published, **own})


def _key(passages: Sequence[Passage]) -> list[tuple[str, str]]:
    return [(passage.passage_id, passage.text) for passage in passages]


def _no_passages(benchmark: Benchmark, setting: Setting, n: int, error: RagtasksError) -> RagtasksError:
    if not isinstance(error, ConfigurationError):
        return error
    return ConfigurationError(
        "answers",
        where=f"to {benchmark.label} in setting {setting.value}",
        expected="`contexts` in every answer, as the setting has no passages of its own",
        found=f"{n} answers without ({str(error).splitlines()[0]})",
        next_step="write what each answer rests on as `contexts`, or name a stored run with --run",
    )


def _outside(benchmark: Benchmark, setting: Setting, ids: Sequence[str]) -> ConfigurationError:
    more = f" and {len(ids) - _MAX_LISTED} more" if len(ids) > _MAX_LISTED else ""
    return ConfigurationError(
        "answers",
        where=f"to {benchmark.label}",
        expected=f"tasks of the setting {setting.value}",
        found=f"{len(ids)} answers to others: {', '.join(ids[:_MAX_LISTED])}{more}",
        next_step="name the setting that was answered; "
        "`ragtasks tasks export --setting SETTING --output tasks.jsonl` writes its tasks",
    )
