"""Answers for people to label: a random draw with more of the answers that judges find hard.

Answers on which verdicts differ, or whose score is near the middle, are drawn more often than others. So each row
contains the number of answers that it stands for, and a card weights its rows by it. The number is masked, because it
depends on the verdicts, which people must not see.
"""

from __future__ import annotations

import itertools
import json
import math
import random
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from ragtasks.errors import ConfigurationError
from ragtasks.files import canonical_hash, written_lines
from ragtasks.judges import CLARIFICATION, IDK
from ragtasks.results._scored_answer import ScoredAnswer
from ragtasks.tables import csv_lines, grouped

DRAW = "draw"
"""Key of the masked weight of a row."""

_SPREAD = 0.1  # largest difference of verdicts that agree: one step of ten
_MIDDLE = (0.3, 0.7)  # mean verdicts between these are near the middle
_LONGEST_CELL = 32_767  # characters
_OPEN_SHARE = 2.0  # share of an open stratum, relative to another of its size
_MASKED, _CHECKED = 8, 4  # hexadecimal digits
_TEXT = "w"  # a spreadsheet takes 12e45 for a number


@dataclass(frozen=True, slots=True)
class DrawnAnswer:
    """An answer to label."""

    answer: ScoredAnswer
    weight: int
    """Number of answers that it stands for, itself included."""

    @property
    def row(self) -> dict[str, Any]:
        """The row for people. It names neither the system nor a verdict."""
        task, response = self.answer.task, self.answer.response
        messages = [{"role": message.role.value, "content": message.text} for message in task.messages]
        name = _name(self.answer)
        return {
            "id": name,
            "conversation_id": task.conversation_id,
            "messages": messages,
            "contexts": [
                {"id": passage.passage_id, "title": passage.title, "text": passage.text}
                for passage in response.passages
            ],
            "reference": task.target,
            "answer": response.text,
            "label": "",
            DRAW: masked_weight(self.weight, name),
        }


def draw_answers(answers: Iterable[ScoredAnswer], rubric: str, n: int) -> list[DrawnAnswer]:
    """Return `n` answers, or all if there are fewer, in random order. The draw depends only on the input.

    Strata are made of the verdicts under the rubric and of refusals; without verdicts, of refusals and answerability.
    Within a stratum, answers are ordered by length, domain and conversation, and one is drawn at random from each of
    equal parts. So an answer has the probability 1 / weight.
    """
    distinct = {_name(answer): answer for answer in answers if answer.response.text.strip()}
    strata = grouped(distinct.values(), lambda answer: _stratum(answer, rubric))
    chance = random.Random(canonical_hash(sorted(distinct)))
    drawn = [
        chosen
        for stratum, size in zip(strata.values(), _sizes(strata, n), strict=True)
        for chosen in _spread(stratum, size, chance)
    ]
    chance.shuffle(drawn)
    return drawn


def rubrics_with_verdicts(answers: Iterable[ScoredAnswer]) -> list[str]:
    """Return the rubrics with verdicts, those on refusals and clarifying questions last."""
    names = dict.fromkeys(verdict["rubric"] for answer in answers for verdict in answer.requested)
    return sorted(names, key=lambda name: name in {IDK, CLARIFICATION})


def label_file(drawn: Sequence[DrawnAnswer], path: Path) -> bytes:
    """Return the content of a file for people's labels. Cells of CSV with lists are JSON."""
    rows = [one.row for one in drawn]
    if path.suffix == ".jsonl":
        return written_lines(rows)
    if path.suffix != ".csv":
        raise ConfigurationError(f"--output {path}: expected a name that ends with .jsonl or .csv")
    cells = [
        [json.dumps(value, ensure_ascii=False) if isinstance(value, list) else value for value in row.values()]
        for row in rows
    ]
    longest = max(len(str(cell)) for row in cells for cell in row)
    if longest > _LONGEST_CELL:
        raise ConfigurationError(
            f"--output {path}: a cell has {longest:,} characters, and spreadsheets cut it after {_LONGEST_CELL:,}. "
            f"Next step: --output {path.with_suffix('.jsonl')}"
        )
    return csv_lines(list(rows[0]), cells).encode("utf-8", errors="replace")


def _name(answer: ScoredAnswer) -> str:
    """Return the id of an answer, without the name of its system."""
    return f"{answer.task.task_id} {answer.answer_hash[:8]}"


def _stratum(answer: ScoredAnswer, rubric: str) -> tuple[bool, Hashable, bool]:
    """Return whether an answer is open, its group, and whether it refuses."""
    judgings = [answer.requested, *(judging.get("verdicts", ()) for judging in answer.repeats)]
    verdicts = [verdict for judging in judgings for verdict in judging if verdict["rubric"] == rubric]
    values = [verdict["value"] for verdict in verdicts if verdict["value"] is not None]
    refuses = answer.idk == "yes"
    if not values:
        return False, answer.task.answerability, refuses
    mean = fmean(values)
    is_open = max(values) - min(values) > _SPREAD + 1e-9 or _MIDDLE[0] < mean < _MIDDLE[1]
    return is_open, mean >= fmean(_MIDDLE), refuses


def _sizes(strata: dict[tuple[bool, Hashable, bool], list[ScoredAnswer]], n: int) -> list[int]:
    """Return the number of answers to draw from each stratum: by the root of its size, and at least one.

    Small strata get more than their share, so that agreement on rare labels can be estimated. Sainte-Laguë's method
    gives whole numbers.
    """
    limits = [len(stratum) for stratum in strata.values()]
    shares = [math.sqrt(len(stratum)) * (_OPEN_SHARE if is_open else 1) for (is_open, *_), stratum in strata.items()]
    sizes = [0 for _ in limits]
    for _ in range(min(n, sum(limits))):
        open_strata = [index for index, limit in enumerate(limits) if sizes[index] < limit]
        first = max(open_strata, key=lambda index: (sizes[index] == 0, shares[index] / (2 * sizes[index] + 1)))
        sizes[first] += 1
    return sizes


def _spread(stratum: Sequence[ScoredAnswer], size: int, chance: random.Random) -> Iterator[DrawnAnswer]:
    """Yield an answer from each of `size` equal parts of a stratum, ordered by length, domain and conversation."""
    by_length = sorted(stratum, key=lambda answer: (len(answer.response.text.split()), _name(answer)))
    third = {_name(answer): 3 * index // len(by_length) for index, answer in enumerate(by_length)}
    ordered = sorted(
        stratum, key=lambda a: (third[_name(a)], a.task.domain, a.task.conversation_id, a.task.turn, _name(a))
    )
    ends = [len(ordered) * number // size for number in range(size + 1)] if size else []
    for start, end in itertools.pairwise(ends):
        yield DrawnAnswer(ordered[chance.randrange(start, end)], end - start)


def masked_weight(weight: int, name: str) -> str:
    """Return a weight that only `unmasked_weight` can read, with the id of its row."""
    masked = weight ^ int(canonical_hash([DRAW, name])[:_MASKED], 16)
    return f"{_TEXT}{masked:0{_MASKED}x}{canonical_hash([DRAW, name, weight])[:_CHECKED]}"


def unmasked_weight(text: str, name: str) -> int | None:
    """Return the weight of a row, or None if the text or the id was edited."""
    try:
        weight = int(text.removeprefix(_TEXT)[:_MASKED], 16) ^ int(canonical_hash([DRAW, name])[:_MASKED], 16)
    except ValueError:
        return None
    return weight if masked_weight(weight, name) == text else None
