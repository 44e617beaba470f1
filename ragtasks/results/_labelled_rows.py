"""Rows that people labelled: answers, or pairs of answers, with one label per person.

A row is one of the user's own (`_own_rows`) with people's labels: a column `label`; several columns, such as `label_1`
and `label_2`, or a list for several people; or one row per person with a column `rater`. With `answer_2` the row is a
pair.

Two official files are label files too, by the functions at the end: RAGChecker's pairs, and MTRAG's human evaluation,
whose layout the files of other ratings have.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ragtasks.benchmarks.mtrag import FANC, HUMAN_EVALUATION_FILE, REFERENCE_MODEL, RatedResponse, load_human_evaluation
from ragtasks.benchmarks.ragchecker import load_labelled_pairs
from ragtasks.errors import ConfigurationError, close_matches
from ragtasks.files import Problems, canonical_hash, contexts_in, first_row, json_lines, list_in
from ragtasks.judges import CLARIFICATION, LABEL_VALUES, SECOND_ANSWER, Rubric
from ragtasks.records import Answerability, Response, Task
from ragtasks.results._label_draw import DRAW, unmasked_weight
from ragtasks.results._own_rows import NO_CONTEXTS, own_rows
from ragtasks.results._record_keys import ROW_KEYS, RecordKeys, is_null, keys_step, value_under
from ragtasks.tables import grouped, text_of_csv

LABEL_KEYS = ("label", "rater", "cluster", SECOND_ANSWER, "contexts_2")
"""Keys of a labelled row, in addition to those of the user's own rows."""

_NO_KEYS: Mapping[str, str] = MappingProxyType({})
_NEXT_STEP = "fix these lines; docs/judges.md#calibrate-a-judge shows a file"
_ALIASES = {"annotator": "rater", "answer_a": "answer", "answer_b": SECOND_ANSWER, "contexts_b": "contexts_2"}
_ONLY_RATER = "1"
_OF_AN_ANSWER = frozenset({*LABEL_KEYS, DRAW})
_MOST_LABELS = 12
"""Different numbers that people may use as labels."""


@dataclass(frozen=True, slots=True)
class LabelledRow:
    """An answer, or a pair of answers, with people's labels."""

    response: Response
    """The answer; of a pair the first answer."""
    labels: Mapping[str, str]
    """Person -> label, as written in the scale. Empty without a label."""
    cluster: str
    """Unit of intervals: the conversation, else the row."""
    second: Response | None = None
    """The second answer of a pair."""
    weight: int = 1
    """Number of answers that the row stands for, if `judges label` drew it."""

    @property
    def name(self) -> str:
        """Id of the row, or `row-N`."""
        return self.response.task.task_id


@dataclass(frozen=True, slots=True)
class LabelledRows:
    """The rows of a file."""

    rows: tuple[LabelledRow, ...]
    """Rows with at least one label, in the order of the file."""
    scale: Mapping[str, float]
    """Label -> its score, 0 to 1, the lowest first. For a rubric with numbers: the labels that people used."""
    n_unlabelled: int = 0
    """Rows without a label, which are left out."""


def read_labelled_rows(path: Path, rubric: Rubric, keys: Mapping[str, str] = _NO_KEYS) -> LabelledRows:
    """Return the labelled rows of a file for a rubric. `keys` are those that the user named.

    Raises:
        BenchmarkFileError: no row has a label, a label is none of the rubric's, a row is without a value that the
            rubric needs, or an id is given twice.
    """
    file = path / HUMAN_EVALUATION_FILE if path.is_dir() else path
    problems = Problems(file, "labels", _NEXT_STEP)
    numbered, keys = _source(file, problems, rubric, keys)
    own_keys = {name: key for name, key in keys.items() if name not in LABEL_KEYS}
    table = ROW_KEYS.with_keys(own_keys)
    rows, labels = _by_answer(((number, _renamed(row, keys)) for number, row in numbered), table, problems)
    if SECOND_ANSWER in rubric.needs and not any(SECOND_ANSWER in row for row in rows.values()):
        expected = f"`{SECOND_ANSWER}` for the rubric {rubric.name} (--rubric names one for single answers)"
        problems.add(0, expected, f"no `{SECOND_ANSWER}` in {len(rows)} rows")
        problems.raise_if_any()
    named = {number: _named_labels(number, labels[number], rubric, problems) for number in rows}
    own = own_rows(rows.items(), problems.add, own_keys)
    if not own.answers:
        problems.next_step = keys_step(table, first_row(file), "--keys {}") or problems.next_step
    problems.raise_if_any()
    tasks: Iterable[Task] = own.benchmark.tasks
    if rubric.name == CLARIFICATION:  # it has no question about other tasks
        tasks = (replace(task, answerability=Answerability.UNDERSPECIFIED) for task in tasks)
    read: list[LabelledRow] = []
    number_of: dict[tuple[str, str], int] = {}
    for (number, row), task in zip(rows.items(), tasks, strict=True):
        answer = own.answers[task.task_id]
        response = Response(task, answer.passages or (), answer.text)
        first = number_of.setdefault((task.conversation_id, task.question), number)
        if first != number and "messages" not in row:
            expected = "each question once per conversation (`cluster` groups other answers, `messages` has a history)"
            problems.add(number, expected, f"the question of row {first}", task.task_id)
        second = _second(number, row, response, problems)
        empty = {
            "contexts": NO_CONTEXTS in task.extra,
            "reference": not task.target,
            SECOND_ANSWER: SECOND_ANSWER not in row,
        }
        for name in rubric.needs:
            if empty[name]:
                expected = f"`{name}`, which the rubric {rubric.name} needs"
                problems.add(number, expected, f"no `{name}`", task.task_id)
        weight = unmasked_weight(str(row[DRAW]), task.task_id) if DRAW in row else 1
        if weight is None:
            problems.add(number, f"`id` and `{DRAW}` as `judges label` wrote them", row[DRAW], task.task_id)
        cluster = str(row.get("cluster", "")) or task.conversation_id
        read.append(LabelledRow(response, named[number], cluster, second, weight or 1))
    if 0 < sum(DRAW in row for row in rows.values()) < len(rows):
        problems.add(0, f"`{DRAW}` in every row or in none: rows that were not drawn have no weight", "both")
    labelled = tuple(row for row in read if row.labels)
    if not labelled:
        expected = "a person's label in at least one row, under `label` or another key (--keys label=KEY)"
        problems.add(0, expected, f"no label in {len(read)} rows with {', '.join(first_row(file))}")
    problems.raise_if_any()
    return LabelledRows(labelled, _scale(labelled, rubric, problems), len(read) - len(labelled))


def _renamed(row: Mapping[str, Any], keys: Mapping[str, str]) -> dict[str, Any]:
    """Return a row with the keys of this module in place of their aliases and of those that the user named.

    Labels under other keys than the named one are left out: they answer another question.
    """
    keys = {"label": "label", **keys}
    named = {keys[name]: name for name in LABEL_KEYS if name in keys}
    prefix = f"{keys['label']}_"
    renamed = {
        _ALIASES.get(key, key): value
        for key, value in row.items()
        if key not in named and key != "label" and not key.startswith("label_")
    }
    renamed |= {f"label_{key.removeprefix(prefix)}": row[key] for key in row if key.startswith(prefix)}
    renamed |= {name: value_under(row, key) for key, name in named.items()}
    return {key: value for key, value in renamed.items() if not is_null(value)}


def _by_answer(
    numbered: Iterable[tuple[int, dict[str, Any]]], table: RecordKeys, problems: Problems
) -> tuple[dict[int, dict[str, Any]], dict[int, dict[str, str]]]:
    """Return number -> row without labels, and number -> person -> label. Rows of one answer by `rater` are joined.

    Columns that are not read, such as a rater's notes, may differ between them.
    """
    rows: dict[int, dict[str, Any]] = {}
    labels: dict[int, dict[str, str]] = {}
    number_of: dict[str, int] = {}
    for number, row in numbered:
        has_rater, first = "rater" in row, number
        person = str(row.pop("rater", "")) or _ONLY_RATER
        given = {key: row.pop(key) for key in [key for key in row if key == "label" or key.startswith("label_")]}
        if has_rater:
            unread = {*table.unread(row)} - _OF_AN_ANSWER
            answer = canonical_hash({key: value for key, value in row.items() if key not in unread})
            first = number_of.setdefault(answer, number)
            if person in labels.get(first, {}):
                problems.add(number, "each `rater` once per answer", person)
        rows.setdefault(first, row)
        of_answer = labels.setdefault(first, {})
        for key, value in given.items():
            members = list_in(value) if isinstance(value, str) else value
            if isinstance(members, list):
                of_answer |= {str(position): _text(member) for position, member in enumerate(members, start=1)}
            else:
                of_answer[key.removeprefix("label_") if key != "label" else person] = _text(value)
    return rows, labels


def _text(value: Any) -> str:
    """Return a label as text: empty without a label, and a whole number without decimals."""
    try:
        return str(value).lower() if isinstance(value, bool) else "" if is_null(value) else f"{float(value):g}"
    except (TypeError, ValueError, OverflowError):
        return str(value).strip()


def _second(number: int, row: Mapping[str, Any], first: Response, problems: Problems) -> Response | None:
    """Return the second answer of a pair, with its own passages or those of the first answer."""
    contexts = row.get("contexts_2")
    if SECOND_ANSWER not in row:
        return None
    try:
        members = list_in(contexts) or [contexts] if isinstance(contexts, str) else contexts
        return Response(first.task, contexts_in(members) if members else first.passages, str(row[SECOND_ANSWER]))
    except ValueError as error:
        expected, found = error.args
        problems.add(number, f"`contexts_2`: {expected}", found, first.task.task_id)
        return None


# Labels of a rubric. A rubric with numbers accepts numbers on its own scale.


def _named_labels(number: int, labels: Mapping[str, str], rubric: Rubric, problems: Problems) -> dict[str, str]:
    """Return person -> label as the rubric writes it. Other labels are reported, and empty cells are no labels."""
    lowest = 0 if rubric.highest == 1 else 1
    allowed = f"one of {', '.join(rubric.labels)}" if rubric.labels else f"a number from {lowest} to {rubric.highest:g}"
    by_lower_case = {_text(label).lower(): label for label in rubric.labels}
    named: dict[str, str] = {}
    for person, text in labels.items():
        label = by_lower_case.get(text.lower()) if rubric.labels else _number(text, lowest, rubric.highest)
        if label is not None:
            named[person] = label
        elif text:
            problems.add(number, f"a label of the rubric {rubric.name}: {allowed}", text)
    return named


def _number(text: str, lowest: float, highest: float) -> str | None:
    """Return a number within bounds as text, also for `yes`, `partial` and `no`; None for other texts."""
    with suppress(ValueError):
        value = float(LABEL_VALUES.get(text.lower(), text))
        return f"{value:g}" if lowest <= value <= highest else None
    return None


def _scale(rows: Sequence[LabelledRow], rubric: Rubric, problems: Problems) -> dict[str, float]:
    """Return label -> score, the lowest first."""
    used = {label for row in rows for label in row.labels.values()}
    if not rubric.labels and len(used) > _MOST_LABELS:
        problems.add(0, f"at most {_MOST_LABELS} different numbers as labels: round them", f"{len(used)} numbers")
        problems.raise_if_any()
    scores = rubric.labels or {label: float(label) / rubric.highest for label in used}
    return dict(sorted(scores.items(), key=lambda labelled: labelled[1]))


# Official files as rows.


def _source(
    file: Path, problems: Problems, rubric: Rubric, keys: Mapping[str, str]
) -> tuple[Iterable[tuple[int, Mapping[str, Any]]], Mapping[str, str]]:
    """Return the numbered rows of a file, and the keys for them. For official files, `label` names a property."""
    first = first_row(file)
    if first.keys() >= {"model1", "model2", "overall_label"}:
        return enumerate(_ragchecker_rows(file, keys.get("label", "overall")), start=1), _NO_KEYS
    if first.keys() >= {"tasks", "documents", "evaluations"}:
        return enumerate(_mtrag_rows(file, rubric, keys.get("label", "")), start=1), _NO_KEYS
    rows = json_lines(problems)
    if file.suffix != ".csv":
        return rows, keys
    return ((number, {name: text_of_csv(cell) for name, cell in row.items()}) for number, row in rows), keys


def _ragchecker_rows(file: Path, criterion: str) -> Iterator[dict[str, Any]]:
    """Yield RAGChecker's pairs: the answer that each annotator prefers by a criterion."""
    for number, pair in enumerate(load_labelled_pairs(file), start=1):
        if criterion not in pair.labels:
            raise _unknown_property(criterion, pair.labels)
        yield {
            "id": f"pair-{number}",
            "cluster": pair.first.task.conversation_id,
            "question": pair.first.task.question,
            "answer": pair.first.text,
            SECOND_ANSWER: pair.second.text,
            "reference": pair.first.task.target,
            "label": list(map(_preference, pair.labels[criterion])),
        }


def _mtrag_rows(file: Path, rubric: Rubric, name: str) -> Iterator[dict[str, Any]]:
    """Yield the models' answers in MTRAG's human evaluation, or the pairs of answers to a task.

    Without a property, pairs and the labels of a rating count all that the rubric is about: the sum of the four
    properties for pairs, and faithfulness, appropriateness and completeness for a rating from 1 to 10.
    """
    rated = [row for row in load_human_evaluation(file) if row.model_id != REFERENCE_MODEL]
    if name and name not in FANC:
        raise _unknown_property(name, FANC)
    if SECOND_ANSWER in rubric.needs:
        by_task = grouped(rated, lambda row: row.response.task.task_id).values()
        for first, second in (pair for of_task in by_task for pair in itertools.combinations(of_task, 2)):
            sums, others = (_sums(row, [name] if name else FANC) for row in (first, second))
            labels = {f"label_{rater}": _preference(sums[rater] - others[rater]) for rater in sums if rater in others}
            pair = {**_mtrag_row(first), SECOND_ANSWER: second.response.text, **labels}
            yield {**pair, "id": f"{pair['id']} {second.model_id}"}
        return
    properties = [name] if name else [FANC[0]] if rubric.highest == 1 else [FANC[0], FANC[1], FANC[3]]
    for row in rated:
        means = {rater: total / len(properties) for rater, total in _sums(row, properties).items()}
        if not rubric.labels:  # from 1 to 4, to 0 to 1 or 1 to 10
            means = {r: round((mean - 1) / 3, 2) if rubric.highest == 1 else 3 * mean - 2 for r, mean in means.items()}
        yield {**_mtrag_row(row), **{f"label_{rater}": mean for rater, mean in means.items()}}


def _sums(row: RatedResponse, properties: Sequence[str]) -> dict[str, float]:
    """Return rater -> sum of the ratings of several properties, for raters with all of them."""
    raters = [rater for rater in row.ratings[properties[0]] if all(rater in row.ratings[name] for name in properties)]
    return {rater: sum(row.ratings[name][rater] for name in properties) for rater in raters}


def _mtrag_row(row: RatedResponse) -> dict[str, Any]:
    task = row.response.task
    return {
        "id": f"{task.task_id} {row.model_id}",
        "conversation_id": task.conversation_id,
        "messages": [{"role": message.role.value, "content": message.text} for message in task.messages],
        "answer": row.response.text,
        "contexts": list(row.response.passages),
        "reference": task.target,
    }


def _preference(gap: float) -> str:
    """Return the preferred answer by how much higher the first is rated."""
    return "tie" if gap == 0 else "a" if gap > 0 else "b"


def _unknown_property(name: str, names: Iterable[str]) -> ConfigurationError:
    return ConfigurationError(f"--keys label={name}: the file has no such labels; {close_matches(name, list(names))}")
