"""The official input: the tasks that a submission must answer, and what goes along with each of them.

A benchmark's own task file has the format of an input file, so both are read the same way. Of a task only what a
participant is given is kept: no target and no label can get from here into a submission.
"""

from __future__ import annotations

import ctypes
import io
import itertools
import json
import math
import re
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from ragtasks.benchmarks import Benchmark, once, retrieval_side
from ragtasks.benchmarks.mtrag import domain_of
from ragtasks.errors import BenchmarkFileError, ConfigurationError, close_matches
from ragtasks.files import Problems, bounded_lines, json_lines, parse_json, passage_of
from ragtasks.records import Passage, normalise_task_id, split_task_id
from ragtasks.submissions._findings import Finding, Problem, Report, Rule, Severity, SubmissionTask, Words, reading

_TASK_FILES = {
    "mtrag": "mtrag-human/generation_tasks/reference.jsonl",
    "mtrag_un": "mtragun-human/generation_tasks/reference.jsonl",
}
_ALONG = ("conversation_id", "task_type", "turn", "dataset")


@dataclass(frozen=True, slots=True)
class InputTask:
    """One task as participants are given it."""

    task_id: str
    """Id as the file writes it: official files differ in the separator, and the official checker compares texts."""
    collection: str
    """Name of the corpus, as the file writes it."""
    domain: str | None
    """Short name of the corpus; None for one that is not known."""
    messages: tuple[tuple[str, str], ...]
    """(speaker, text) of the conversation."""
    contexts: tuple[Passage, ...] | None
    """The passages that task B gives; None where the file gives none to any task."""
    along: Mapping[str, Any]
    """Further fields that official files have beside these."""


Inputs = Mapping[str, InputTask]
"""Task id in the one form in use (`ragtasks.records`) -> task, in the order of the file."""


def benchmark_inputs(benchmark: Benchmark) -> Inputs:
    """Return the input of a benchmark: all its tasks."""
    if benchmark.name not in _TASK_FILES:
        hint = close_matches(benchmark.name, _TASK_FILES)
        raise ConfigurationError(f"MTRAGEval has no tasks of benchmark {benchmark.name!r}: {hint}")
    return read_inputs(benchmark.root / _TASK_FILES[benchmark.name])


def read_inputs(path: Path) -> Inputs:
    """Return the tasks of an official input file."""
    problems = Problems(path, "input of MTRAGEval", "take the input file that the organisers published")
    tasks = ((line, _input_task(line, row, problems)) for line, row in json_lines(problems))
    found = once(problems, ((line, normalise_task_id(task.task_id), task) for line, task in tasks if task), "task")
    problems.raise_if_any()
    return found


def _input_task(line: int, row: Mapping[str, Any], problems: Problems) -> InputTask | None:
    """Return the task of one line, or None after noting what is wrong with it."""
    before = len(problems)
    task_id = row.get("task_id")
    try:
        normalise_task_id(task_id if isinstance(task_id, str) else "")
    except ValueError:
        problems.add(line, "`task_id` such as <conversation><::><turn>", task_id)
    messages = messages_of(row.get("input"))
    if not messages:
        problems.add(line, "`input` with speakers and texts", row.get("input"), str(task_id))
    raw = row.get("contexts", [])
    contexts = [passage_of(item, "document_id") for item in raw] if isinstance(raw, list) else [None]
    if None in contexts:
        problems.add(line, "`contexts` with texts as `document_id` and `text`", raw, str(task_id))
    if len(problems) > before:
        return None
    collection = row.get("Collection", row.get("collection"))
    return InputTask(
        task_id=str(task_id),
        collection=collection if isinstance(collection, str) else "",
        domain=domain_of(collection),
        messages=messages,
        contexts=tuple(item for item in contexts if item) if "contexts" in row else None,
        along={key: row[key] for key in _ALONG if key in row},
    )


def messages_of(value: object) -> tuple[tuple[str, str], ...]:
    """Return (speaker, text) of the messages of an `input`; () where it is no list of messages."""
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        return ()
    pairs = [(item.get("speaker"), item.get("text")) for item in value]
    kept = tuple((speaker, text) for speaker, text in pairs if isinstance(speaker, str) and isinstance(text, str))
    return kept if len(kept) == len(pairs) else ()


# Which documents there are: the ids of a benchmark's corpora, for those that are on this machine.

_BLOCK = 1 << 20  # read ahead: a zip's own reader of bounded lines is slow

Documents = Mapping[str, frozenset[str]]
"""Short name of a corpus -> ids of its documents."""


def document_ids_by_domain(benchmark: Benchmark) -> Documents:
    """Return the ids of the documents of every corpus that the benchmark's tasks search."""
    side = retrieval_side(benchmark.name)
    present = {task.domain for task in benchmark.tasks}
    files = {domain: side.corpus_file(benchmark.root, domain) for domain in side.domains if domain in present}
    return {domain: frozenset(document_ids(path)) for domain, path in files.items()}


def document_ids(path: Path) -> Iterator[str]:
    """Yield the ids of the documents of a zipped corpus, which is read as a stream."""
    number = 0
    # `number` outlives the loop: the error below says how far the file could be read.
    try:
        with zipfile.ZipFile(path) as archive, archive.open(archive.namelist()[0]) as member:
            lines = io.BufferedReader(cast(io.RawIOBase, member), _BLOCK)
            for number, line in enumerate(bounded_lines(lines), start=1):  # noqa: B007
                if line.strip():
                    yield str(parse_json(line)["_id"])
    # A damaged stream shows as one of these; RuntimeError is zipfile's word for a password or an unknown method.
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, RuntimeError, ValueError, LookupError, TypeError) as e:
        raise BenchmarkFileError(
            "corpus",
            where=f"{path}, line {number}",
            expected="a zip with one file of JSON lines with `_id`",
            found=f"{type(e).__name__}: {e}",
            next_step="fetch the corpora again, or leave documents unchecked with --no-documents",
        ) from e


# Scores as the official evaluation reads them: 32-bit floats, equal ones ordered by document id descending.
# Two scores that differ can be one number there, and the ranking then is not the one that was meant. What is
# written therefore falls strictly as 32-bit numbers.


def single(score: float) -> float:
    """Return a score as trec_eval holds it: the nearest 32-bit float; infinite beyond their range, NaN for NaN."""
    try:
        return ctypes.c_float(score).value
    except OverflowError:  # a whole number that is too large for any float
        return math.inf if score > 0 else -math.inf


def falls_strictly(scores: Sequence[float]) -> bool:
    """Return whether every score is finite and smaller than the one before it, as 32-bit floats; True for none."""
    values = [single(score) for score in scores]
    return all(map(math.isfinite, values)) and all(first > second for first, second in itertools.pairwise(values))


def rank_scores(n: int) -> tuple[float, ...]:
    """Return n, n - 1, ..., 1: scores that say no more than the rank."""
    return tuple(float(n - index) for index in range(n))


def official_scores(scores: Sequence[float]) -> tuple[float, ...]:
    """Return scores under which a list ranks officially as it stands: its own where they do, else by rank."""
    return tuple(map(float, scores)) if falls_strictly(scores) else rank_scores(len(scores))


# Checks a submission line by line, in constant memory, and names everything that is wrong with it at once.

_SUFFIX = ".jsonl"

# The rules: how grave a problem is, and what the official side makes of it.
# Source: format_checker.py and run_retrieval_eval.py of IBM/mt-rag-benchmark at cc5b1d4.

MAX_CONTEXTS = 10
"""Contexts that a task may have."""
RECOMMENDED_CONTEXTS = 5
"""Contexts that the organisers recommend for task C."""
MAX_BYTES = 20 * 1024 * 1024
"""Size that a file may have."""

_REJECTS = "the official checker rejects it"
_STOPS = "the official checker stops at it"


_TABLE = (
    # The file.
    Rule("file_name", Severity.PROBLEM, _REJECTS),
    Rule("file_size", Severity.PROBLEM, _REJECTS),
    Rule("no_tasks", Severity.PROBLEM, "the numbers of tasks differ: " + _REJECTS),
    Rule("missing_task", Severity.PROBLEM, _REJECTS),
    Rule("unknown_task", Severity.PROBLEM, _REJECTS),
    Rule("task_spelling", Severity.PROBLEM, "ids are compared as texts: " + _REJECTS),
    Rule("duplicate_task", Severity.PROBLEM, "the official checker sees only that the numbers of tasks differ"),
    # A line.
    Rule("line_end", Severity.PROBLEM, "read as the end of the line: " + _REJECTS),
    Rule("carriage_returns", Severity.WARNING, "passed; the official evaluation ends lines at line feeds only"),
    Rule("utf8", Severity.PROBLEM, _STOPS),
    Rule("json", Severity.PROBLEM, _REJECTS),
    Rule("json_limit", Severity.PROBLEM, _STOPS),
    Rule("object", Severity.PROBLEM, _STOPS),
    Rule("required_field", Severity.PROBLEM, _REJECTS),
    Rule("field_type", Severity.PROBLEM, _REJECTS),
    Rule("duplicate_key", Severity.WARNING, "only the last value is read"),
    Rule("encoding", Severity.WARNING, "half of a surrogate pair: no request to a judge can carry it"),
    # Contexts.
    Rule("too_many_contexts", Severity.PROBLEM, _REJECTS),
    Rule("context_object", Severity.PROBLEM, _REJECTS),
    Rule("document_id", Severity.PROBLEM, _REJECTS),
    Rule("score", Severity.PROBLEM, _REJECTS),
    Rule("score_boolean", Severity.WARNING, "passed as 1 or 0"),
    Rule("score_not_finite", Severity.WARNING, "passed; as a 32-bit number it has no place in a ranking"),
    Rule("scores_unordered", Severity.WARNING, "ranked by score, not by place: others count as the first", "BC"),
    Rule("scores_tied", Severity.WARNING, "equal as 32-bit numbers: ranked by document id, descending", "BC"),
    Rule("duplicate_document", Severity.WARNING, "one place is lost; the last score counts"),
    Rule("blank_document_id", Severity.WARNING, "passed; matches no document"),
    Rule("unknown_document", Severity.WARNING, "passed; never relevant"),
    Rule("context_text", Severity.WARNING, "passed; the generation metrics read the text"),
    Rule("no_contexts", Severity.NOTE, "scores 0 where the task is judged; the official checker warns"),
    Rule("many_contexts", Severity.NOTE, f"{RECOMMENDED_CONTEXTS} are recommended"),
    # Predictions.
    Rule("prediction_object", Severity.PROBLEM, _REJECTS),
    Rule("prediction_text", Severity.PROBLEM, _REJECTS),
    Rule("n_predictions", Severity.WARNING, "passed; the evaluation scores one prediction"),
    Rule("empty_prediction", Severity.WARNING, "passed; scores next to nothing"),
    Rule("thinking_text", Severity.NOTE, "judged as part of the answer"),
    # What goes along.
    Rule("task_id_shape", Severity.WARNING, "passed; names no conversation and turn"),
    Rule("conversation_id", Severity.WARNING, "passed; contradicts the task id"),
    Rule("turn", Severity.WARNING, "passed; contradicts the task id"),
    Rule("collection", Severity.WARNING, "passed; the retrieval evaluation finds no judgements for it"),
    Rule("message", Severity.WARNING, "passed; judges are shown the conversation"),
    Rule("other_input", Severity.WARNING, "passed; judged by another question than was asked"),
    Rule("other_contexts", Severity.WARNING, "passed; task B answers from the passages that it is given"),
    Rule("other_context_text", Severity.WARNING, "passed; judged by another text than was given"),
)

RULES = {rule.name: rule for rule in _TABLE}
"""Rule name -> rule."""


@dataclass(frozen=True, slots=True)
class Against:
    """What a submission is compared with."""

    inputs: Inputs | None = None
    """The tasks that must be answered; None: not compared."""
    documents: Documents | None = None
    """The documents that there are; None: not compared."""
    unchecked: tuple[str, ...] = ()


def check_file(path: Path, task: SubmissionTask, against: Against) -> Report:
    """Return what is wrong with a submission on disk."""
    with reading("submission", path) as lines:
        return check_lines(bounded_lines(lines), path.name, task, against, n_bytes=path.stat().st_size)


def check_lines(lines: Iterable[bytes], name: str, task: SubmissionTask, against: Against, *, n_bytes: int) -> Report:
    """Return what is wrong with a submission."""
    checker = _Checker(task, against)
    parts = itertools.chain.from_iterable(map(checker.parts, lines))
    found = [finding for number, line in enumerate(parts, start=1) for finding in checker.line(number, line)]
    whole = [*checker.file(name, n_bytes), *checker.missing()]
    return Report(name, f"task {task.value}", checker.n_rows, (*whole, *found), against.unchecked)


class _Checker:
    """What one pass over a file has to remember."""

    def __init__(self, task: SubmissionTask, against: Against) -> None:
        self.n_rows = 0
        self._n_carriage_returns = 0
        self._task = task
        self._against = against
        self._line_of: dict[str, int] = {}

    def file(self, name: str, n_bytes: int) -> Iterator[Finding]:
        """Yield what is wrong with the file as such."""
        if not name.endswith(_SUFFIX):
            yield self._found(0, "", ("file_name", f"a name that ends with {_SUFFIX}", name))
        if n_bytes > MAX_BYTES:
            yield self._found(0, "", ("file_size", f"at most {MAX_BYTES} bytes", n_bytes))
        if not self.n_rows:
            yield self._found(0, "", ("no_tasks", "a line for each task", Words("no task")))
        if n := self._n_carriage_returns:
            found = Words(f"only a carriage return {n} times")
            yield self._found(0, "", ("carriage_returns", "a line feed between lines", found))

    def missing(self) -> Iterator[Finding]:
        """Yield the tasks that no line answers."""
        for key, given in (self._against.inputs or {}).items():
            if key not in self._line_of:
                yield self._found(0, given.task_id, ("missing_task", "a line for this task", Words("no line")))

    def parts(self, raw: bytes) -> list[bytes]:
        """Return the lines in what a line feed ends: those that carriage returns end too, as text mode reads them.

        A carriage return within an object stays where it is, so that the line's problem can be named.
        """
        raw = raw.rstrip(b"\r\n")
        if b"\r" not in raw:
            return [raw]
        groups = itertools.groupby(raw.split(b"\r"), _is_whole)
        lines = [line for whole, group in groups for line in (group if whole else [b"\r".join(group)])]
        self._n_carriage_returns += max(0, sum(bool(line.strip()) for line in lines) - 1)
        return lines

    def line(self, number: int, raw: bytes) -> Iterator[Finding]:
        """Yield what is wrong with a line; blank ones are passed over, as they are officially."""
        row, problems = _parse(raw)
        task_id = row.get("task_id") if row is not None else None
        name = task_id if isinstance(task_id, str) else ""
        yield from (self._found(number, name, problem) for problem in problems)
        if row is None:
            return
        self.n_rows += 1
        key = _key(name)
        if isinstance(task_id, str):
            yield from (self._found(number, name, problem) for problem in self._task_problems(number, name, key))
        inputs = self._against.inputs or {}
        line = Line(self._task, row, inputs.get(key), self._against.documents)
        yield from (self._found(number, name, problem) for rule in LINE_RULES for problem in rule(line))

    def _task_problems(self, number: int, name: str, key: str) -> Iterator[Problem]:
        """Yield what is wrong with a task's being here."""
        first = self._line_of.setdefault(key, number)
        if first != number:
            yield "duplicate_task", "each task once", f"the task of line {first} again"
        inputs = self._against.inputs
        if inputs is None:
            return
        if key not in inputs:
            yield "unknown_task", "a task of the input", name
        elif name != inputs[key].task_id:
            yield "task_spelling", f"the id as the input writes it, {inputs[key].task_id!r}", name

    def _found(self, number: int, task_id: str, problem: Problem) -> Finding:
        rule, expected, found = problem
        return RULES[rule].finding(number, task_id, expected, found, self._task.value)


def _key(name: str) -> str:
    """Return the id in the one form in use, or as it is where it is none."""
    try:
        return normalise_task_id(name)
    except ValueError:
        return name


def _parse(raw: bytes) -> tuple[dict[str, Any] | None, list[Problem]]:
    """Return the object in a line, None where there is none, and what is wrong with it: nothing with a blank line."""
    if b"\r" in raw:
        return None, [("line_end", "a line without a carriage return in it", raw.decode("utf-8", errors="replace"))]
    try:
        text = raw.decode("utf-8").strip()
    except UnicodeDecodeError as error:
        return None, [("utf8", "UTF-8", str(error))]
    return _object(text) if text else (None, [])


def _object(text: str) -> tuple[dict[str, Any] | None, list[Problem]]:
    """Return the object that a text is, None where it is none, and what is wrong with it.

    NaN is let through: official files have it in fields that nobody reads. In a score it is found there.
    """
    twice: list[str] = []

    def one_of_each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        content = dict(pairs)
        if len(content) < len(pairs):
            counts = Counter(key for key, _ in pairs)
            twice.extend(sorted(key for key, n in counts.items() if n > 1))
        return content

    try:
        row = json.loads(text, object_pairs_hook=one_of_each)
    except (RecursionError, ValueError) as error:
        return None, [_json_problem(error)]
    if not isinstance(row, dict):
        return None, [("object", "one JSON object", row)]
    problems: list[Problem] = [("duplicate_key", "each key of an object once", twice)] if twice else []
    if problem := _encoding_problem(row):
        problems.append(("encoding", "texts that UTF-8 can hold", problem))
    return row, problems


def _json_problem(error: RecursionError | ValueError) -> Problem:
    """Return what is wrong with JSON that cannot be read: the official checker notes only what is not JSON at all."""
    if isinstance(error, json.JSONDecodeError):
        return "json", "one JSON object", str(error)
    found = "JSON that is nested too deeply" if isinstance(error, RecursionError) else str(error)
    return "json_limit", "JSON that Python can read", found


def _is_whole(line: bytes) -> bool:
    """Return whether a line is blank or one JSON value."""
    try:
        if text := line.decode("utf-8").strip():
            json.loads(text)
    except (RecursionError, ValueError):
        return False
    return True


def _encoding_problem(row: dict[str, Any]) -> str:
    """Return why a text in an object is none that UTF-8 can hold, "" where all are; however deep it is nested."""
    waiting: list[Any] = [row]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            waiting += [*value, *value.values()]
        elif isinstance(value, list):
            waiting += value
        elif isinstance(value, str):
            try:
                value.encode("utf-8")
            except UnicodeEncodeError as error:
                return str(error)
    return ""


# What is asked of one line of a submission: small functions that yield their problems, and the table of them.
# Tasks A, B and C share nearly all of them; the fields that a task must have decide which apply. A function looks
# only at parts that have the right shape, so that one problem is found once.

_FIELDS: tuple[tuple[str, str, type, str], ...] = (
    ("task_id", "ABC", str, "a text"),
    ("Collection", "AC", str, "a text"),
    ("input", "BC", list, "a list of messages"),
    ("contexts", "ABC", list, "a list of objects"),
    ("predictions", "BC", list, "a list of objects"),
)
_SPEAKERS = ("user", "agent")
_THINKING = re.compile(r"</?think>", re.IGNORECASE)
_ABSENT = Words("no such field")


@dataclass(frozen=True, slots=True)
class Line:
    """One line, with what is known of its task."""

    task: SubmissionTask
    row: Mapping[str, Any]
    given: InputTask | None
    """The task as participants are given it; None where it is not known."""
    documents: Documents | None
    """Documents that there are; None where they are not known."""

    @property
    def objects(self) -> list[tuple[int, dict[str, Any]]]:
        """Place and content of the contexts that are objects."""
        contexts = self.row.get("contexts")
        found = enumerate(contexts if isinstance(contexts, list) else [])
        return [(index, item) for index, item in found if isinstance(item, dict)]

    @property
    def scores(self) -> list[tuple[int, float]]:
        """Place and value of the scores that are numbers."""
        pairs = [(index, item.get("score")) for index, item in self.objects]
        return [(i, value) for i, value in pairs if isinstance(value, (int, float)) and not isinstance(value, bool)]

    @property
    def document_ids(self) -> list[tuple[int, str]]:
        """Place and value of the document ids that are texts."""
        pairs = [(index, item.get("document_id")) for index, item in self.objects]
        return [(index, value) for index, value in pairs if isinstance(value, str)]

    @property
    def answers(self) -> bool:
        """Whether the task asks for answers."""
        return self.task is not SubmissionTask.A


def fields(line: Line) -> Iterator[Problem]:
    """Required fields are there and have the right type."""
    for name, tasks, kind, described in _FIELDS:
        if line.task.value not in tasks:
            continue
        if name not in line.row:
            near = [key for key in line.row if key.lower() == name.lower()]
            found = Words(f"no such field, but {near[0]!r}") if near else _ABSENT
            yield "required_field", f"the field {name!r}", found
        elif not isinstance(line.row[name], kind):
            yield "field_type", f"{name!r} to be {described}", line.row[name]


def number_of_contexts(line: Line) -> Iterator[Problem]:
    """There are contexts, and no more than are allowed."""
    contexts = line.row.get("contexts")
    if not isinstance(contexts, list):
        return
    if len(contexts) > MAX_CONTEXTS:
        yield "too_many_contexts", f"at most {MAX_CONTEXTS} contexts", len(contexts)
    elif line.task is SubmissionTask.C and len(contexts) > RECOMMENDED_CONTEXTS:
        yield "many_contexts", f"{RECOMMENDED_CONTEXTS} contexts or fewer", len(contexts)
    elif line.task is not SubmissionTask.B and not contexts:
        yield "no_contexts", "contexts", Words("no contexts")


def shape_of_contexts(line: Line) -> Iterator[Problem]:
    """A context is an object with a text as document id and a number as score; with answers, its text is there."""
    contexts = line.row.get("contexts")
    for index, item in enumerate(contexts if isinstance(contexts, list) else []):
        if not isinstance(item, dict):
            yield "context_object", f"contexts[{index}] to be an object", item
            continue
        if not isinstance(item.get("document_id"), str):
            yield "document_id", f"a text as contexts[{index}].document_id", item.get("document_id", _ABSENT)
        if not isinstance(item.get("score"), (int, float)):
            yield "score", f"a number as contexts[{index}].score", item.get("score", _ABSENT)
        text = item.get("text", _ABSENT)
        if line.answers and (text is _ABSENT or not isinstance(text, str) or not text.strip()):
            yield "context_text", f"a text that says something as contexts[{index}].text", text


def values_of_scores(line: Line) -> Iterator[Problem]:
    """A score is a finite number, also as a 32-bit float."""
    for index, item in line.objects:
        if isinstance(item.get("score"), bool):
            yield "score_boolean", f"a number as contexts[{index}].score", item["score"]
    for index, score in line.scores:
        if not math.isfinite(single(score)):
            yield "score_not_finite", f"a finite 32-bit number as contexts[{index}].score", score


def order_of_scores(line: Line) -> Iterator[Problem]:
    """Scores fall from one context to the next, as 32-bit floats; the first problem of each kind is named."""
    found: dict[str, Problem] = {}
    for (_, before), (index, score) in itertools.pairwise(line.scores):
        if single(score) >= single(before):
            rule = "scores_unordered" if single(score) > single(before) else "scores_tied"
            expected = f"contexts[{index}].score below the one before it"
            found.setdefault(rule, (rule, expected, f"{score!r} after {before!r}"))
    yield from found.values()


def documents(line: Line) -> Iterator[Problem]:
    """A document stands once, has an id, and exists."""
    first: dict[str, int] = {}
    domain = line.given.domain if line.given else domain_of(line.row.get("Collection"))
    listed = line.documents.get(domain or "") if line.documents else None
    for index, document_id in line.document_ids:
        if first.setdefault(document_id, index) != index:
            expected = f"contexts[{index}] to be another document than contexts[{first[document_id]}]"
            yield "duplicate_document", expected, document_id
        elif not document_id.strip():
            yield "blank_document_id", f"an id as contexts[{index}].document_id", document_id
        elif listed is not None and document_id not in listed:
            yield "unknown_document", f"a document of {domain} as contexts[{index}].document_id", document_id


def predictions(line: Line) -> Iterator[Problem]:
    """There is one prediction, an object with a text that says something."""
    found = line.row.get("predictions")
    if not line.answers or not isinstance(found, list):
        return
    if len(found) != 1:
        yield "n_predictions", "one prediction", f"{len(found)} predictions"
    for index, item in enumerate(found):
        text = item.get("text", _ABSENT) if isinstance(item, dict) else None
        if not isinstance(item, dict):
            yield "prediction_object", f"predictions[{index}] to be an object", item
        elif text is _ABSENT or not isinstance(text, str):
            yield "prediction_text", f"a text as predictions[{index}].text", text
        elif not text.strip():
            yield "empty_prediction", f"an answer as predictions[{index}].text", text
        elif _THINKING.search(text):
            yield "thinking_text", f"predictions[{index}].text without the model's thinking", text


def identity(line: Line) -> Iterator[Problem]:
    """Conversation and turn are those of the task id."""
    task_id = line.row.get("task_id")
    if not isinstance(task_id, str):
        return
    try:
        conversation_id, turn = split_task_id(task_id)
    except ValueError:
        yield "task_id_shape", "a task id such as <conversation><::><turn>", task_id
        return
    if line.row.get("conversation_id", conversation_id) != conversation_id:
        yield "conversation_id", f"'conversation_id' {conversation_id!r}", line.row["conversation_id"]
    written = line.row.get("turn", turn)
    if not isinstance(written, (str, int)) or str(written) != str(turn):
        yield "turn", f"'turn' {turn}", written


def collection(line: Line) -> Iterator[Problem]:
    """The collection is the task's own, or at least one that there is."""
    name = line.row.get("Collection")
    if not isinstance(name, str):
        return
    if line.given and line.given.collection:
        if name != line.given.collection:
            yield "collection", f"the task's own collection {line.given.collection!r}", name
    elif domain_of(name) is None:
        yield "collection", "a collection of MTRAG", name


def conversation(line: Line) -> Iterator[Problem]:
    """The conversation is made of messages, and is the one that was asked."""
    raw = line.row.get("input")
    if not isinstance(raw, list):
        return
    messages = messages_of(raw)
    if not messages or any(speaker not in _SPEAKERS for speaker, _ in messages):
        bad: object = Words("no messages")
        with suppress(StopIteration):
            bad = next(item for item in raw if not messages_of([item]) or item["speaker"] not in _SPEAKERS)
        yield "message", "messages with a speaker, user or agent, and a text", bad
    elif line.given and messages != line.given.messages:
        yield "other_input", "the conversation of the input file", messages[-1][1]


def given_contexts(line: Line) -> Iterator[Problem]:
    """Task B's contexts are those that the input gives; of more than are allowed, any that are."""
    if line.task is not SubmissionTask.B or line.given is None or line.given.contexts is None:
        return
    theirs = {passage.passage_id for passage in line.given.contexts}
    ours = {document_id for _, document_id in line.document_ids}
    if ours - theirs or (theirs - ours and len(ours) < MAX_CONTEXTS):
        found = [*sorted(ours - theirs), *(f"without {document_id}" for document_id in sorted(theirs - ours))]
        yield "other_contexts", f"the {len(theirs)} contexts of the input file", found


def given_texts(line: Line) -> Iterator[Problem]:
    """Of task B's contexts, those that the input gives have the texts that it gives them."""
    given = line.given.contexts if line.task is SubmissionTask.B and line.given else None
    theirs = {passage.passage_id: passage.text for passage in given or ()}
    for index, item in line.objects:
        document_id, text = item.get("document_id"), item.get("text")
        known = theirs.get(document_id) if isinstance(document_id, str) else None
        if known is not None and isinstance(text, str) and text.strip() and _words(text) != _words(known):
            same = sum(1 for _ in itertools.takewhile(bool, map(str.__eq__, text, known)))
            expected = f"contexts[{index}].text as in the input file, from character {same + 1} on too"
            yield "other_context_text", expected, text[same:]


def _words(text: str) -> list[str]:
    """Return what a text says: IBM's own sample writes capitals otherwise than its input file."""
    return text.casefold().split()


LINE_RULES: tuple[Callable[[Line], Iterator[Problem]], ...] = (
    fields,
    identity,
    collection,
    conversation,
    number_of_contexts,
    shape_of_contexts,
    values_of_scores,
    order_of_scores,
    documents,
    given_contexts,
    given_texts,
    predictions,
)
"""Every check of one line."""
