"""The answers that battles are fought with: every system's answer to a task in a setting, from logs or predictions."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from ragtasks.arena._vote import Side
from ragtasks.benchmarks import Benchmark
from ragtasks.config import config_from_options
from ragtasks.errors import ConfigurationError, close_matches
from ragtasks.files import OFFICIAL, canonical_hash
from ragtasks.logs import SavedTask, evaluation_files, model_of, read_predictions, read_results
from ragtasks.metrics import RuleBasedIdk, n_words
from ragtasks.records import IdkVerdict, Response, Setting
from ragtasks.scoring import EXEMPT, CheckedAnswers, find_implausible

REFERENCE = "reference"
"""The system that gives the benchmark's own answers."""

ItemKey = tuple[str, str, str]
"""(Label of the benchmark, setting, task id)."""


@dataclass(frozen=True, slots=True)
class Answer:
    """One system's answer to one task."""

    system: str
    """Who answered."""
    benchmark: str
    """Label of the benchmark, which says `sample` where it is one."""
    setting: str
    """Where its passages came from."""
    response: Response
    """Task, passages, text."""
    refuses: bool
    """Whether it says that it does not know, by rules."""
    scores: Mapping[str, float]
    """Metric -> score in the logs; () for answers that were never scored."""

    @property
    def item(self) -> ItemKey:
        """What it answers."""
        return self.benchmark, self.setting, self.response.task.task_id

    @property
    def version(self) -> str:
        """Hash of the text and its passages."""
        shown = [[passage.title, passage.text] for passage in self.response.passages]
        return canonical_hash([self.response.text, shown])[:16]

    @property
    def side(self) -> Side:
        """What a vote keeps of it."""
        return Side(
            system=self.system, version=self.version, n_words=n_words([self.response.text]), refuses=self.refuses
        )


@dataclass(frozen=True, slots=True)
class Battle:
    """Two systems' answers to one task; the first system comes first by name, whatever order is shown."""

    first: Answer
    """One answer."""
    second: Answer
    """The other one."""

    @property
    def battle_id(self) -> str:
        """Hash of what is compared."""
        sides = [[answer.system, answer.version] for answer in (self.first, self.second)]
        return canonical_hash([list(self.first.item), sides])[:16]

    @property
    def systems(self) -> tuple[str, str]:
        """Their names."""
        return self.first.system, self.second.system

    @property
    def is_equal(self) -> bool:
        """Whether both texts are the same: a tie, about which nobody need be asked."""
        return self.first.response.text == self.second.response.text

    @property
    def conversation_id(self) -> str:
        """The conversation of the task."""
        return self.first.response.task.conversation_id


class AnswerPool:
    """The answers of all systems."""

    def __init__(self, answers: Iterable[Answer]) -> None:
        """Take answers; those without a text that a request gave (failed ones) are left out and counted.

        Raises:
            ConfigurationError: a system answers a task of a setting twice, or there are not two systems on one task.
        """
        self.n_failed = 0
        self._items: dict[ItemKey, dict[str, Answer]] = {}
        for answer in answers:
            if answer.response.no_answer:
                self.n_failed += 1
            elif self._items.setdefault(answer.item, {}).setdefault(answer.system, answer) is not answer:
                raise ConfigurationError(
                    f"{answer.system} answers {answer.item[2]} in {answer.item[1]} twice: name results of one "
                    "evaluation of each model"
                )
        if not any(len(found) > 1 for found in self._items.values()):
            raise ConfigurationError(
                f"no task was answered by two systems in one setting; there: {', '.join(self.systems) or 'no answer'}. "
                "Next step: name the results of another model on the same tasks"
            )

    @property
    def systems(self) -> tuple[str, ...]:
        """Names, sorted."""
        return tuple(sorted({system for found in self._items.values() for system in found}))

    @property
    def items(self) -> tuple[ItemKey, ...]:
        """Tasks that two systems answered at least, in the order read."""
        return tuple(key for key, found in self._items.items() if len(found) > 1)

    def implausible(self) -> list[str]:
        """Return a line for each kind of answers that cannot be answers: battles with these say little of a system."""
        groups: dict[tuple[str, str, str], list[Response]] = {}
        for (benchmark, setting, _), found in self._items.items():
            for system, answer in found.items():
                groups.setdefault((system, benchmark, setting), []).append(answer.response)
        lines = []
        for (system, benchmark, setting), responses in groups.items():
            if system not in {REFERENCE, *EXEMPT}:
                found_in = find_implausible(responses)
                pairs = zip(responses, found_in, strict=True)
                checked = CheckedAnswers("", tuple((item.task.task_id, own) for item, own in pairs))
                lines += [f"{system}, {benchmark} in {setting}: {item}" for item in checked.summary]
        return lines

    def answers_to(self, item: ItemKey) -> Mapping[str, Answer]:
        """Return system -> its answer; {} for an unknown item."""
        return dict(sorted(self._items.get(item, {}).items()))

    @cached_property
    def battles(self) -> tuple[Battle, ...]:
        """Every two answers to one item."""
        return tuple(
            Battle(found[one], found[other])
            for found in map(self.answers_to, self.items)
            for one, other in itertools.combinations(found, 2)
        )


def shuffled(texts: Iterable[str], seed: str = "") -> list[str]:
    """Return texts in an order that only they and the seed decide."""
    return sorted(texts, key=lambda text: hashlib.sha256(f"{seed}\n{text}".encode(errors="replace")).digest())


def read_answers(
    paths: Sequence[Path],
    *,
    benchmark: Benchmark | None = None,
    setting: str | None = None,
    with_reference: bool = False,
) -> AnswerPool:
    """Return the answers in results of the harness (with logged samples) and predictions files.

    Systems have the names of reports: the model, with the run where it is not the benchmark's own; predictions that of
    their file.

    Args:
        paths: files or folders.
        benchmark: of predictions, which do not say it.
        setting: of predictions; of results, the one to take (default: all).
        with_reference: whether the benchmark's own answers take part, as the system `reference`.

    Raises:
        BenchmarkFileError: a file cannot be read, or has errors: all of them, by line.
        ConfigurationError: as `AnswerPool`, or predictions without benchmark and setting.
    """
    answers = [answer for path in paths for answer in _at(path.resolve(), benchmark, setting)]
    if with_reference:
        answers += _references(answers)
    return AnswerPool(answers)


def _at(path: Path, benchmark: Benchmark | None, setting: str | None) -> Iterator[Answer]:
    results, predictions = evaluation_files(path)
    for file in results:
        saved = read_results(file, Path(), {})
        model = model_of(saved.results)
        for task in saved.tasks:
            run = str(task.recorded.get("run", OFFICIAL))
            system = model if run == OFFICIAL else f"{model} (run {run})"
            yield from (answer for answer in _of_task(task, system) if setting in {None, answer.setting})
    if not predictions:
        return
    if benchmark is None or setting is None:
        raise ConfigurationError(
            f"{predictions[0]}: predictions do not say what they answer: give --benchmark and --setting"
        )
    known = [item.value for item in Setting]
    if setting not in known:
        raise ConfigurationError(f"unknown setting {setting!r}: {close_matches(setting, known)}")
    config = config_from_options({})
    for file in predictions:
        saved = read_predictions(file, Path(), benchmark, Setting(setting), config=config, store=Path())
        for task in saved.tasks:
            yield from _of_task(task, file.stem)


def _of_task(task: SavedTask, system: str) -> Iterator[Answer]:
    refusals = RuleBasedIdk().detect(task.responses)
    for row, response, label in zip(task.rows, task.responses, refusals, strict=True):
        found = {name: row[name] for name in row.get("metrics", ()) if isinstance(row.get(name), (int, float))}
        yield Answer(
            system=system,
            benchmark=str(task.provenance["benchmark"]),
            setting=str(row["doc"]["setting"]),
            response=response,
            refuses=label.verdict is IdkVerdict.YES,
            scores={name: float(value) for name, value in found.items()},
        )


def _references(answers: Sequence[Answer]) -> list[Answer]:
    """Return the benchmark's own answer to every item, with the passages that the first system was shown."""
    firsts: dict[ItemKey, Answer] = {}
    for answer in answers:
        if answer.response.task.target:
            firsts.setdefault(answer.item, answer)
    responses = [
        Response(answer.response.task, answer.response.passages, answer.response.task.target)
        for answer in firsts.values()
    ]
    refusals = RuleBasedIdk().detect(responses)
    return [
        Answer(REFERENCE, answer.benchmark, answer.setting, response, label.verdict is IdkVerdict.YES, {})
        for answer, response, label in zip(firsts.values(), responses, refusals, strict=True)
    ]


__all__ = ["REFERENCE", "Answer", "AnswerPool", "Battle", "ItemKey", "read_answers", "shuffled"]
