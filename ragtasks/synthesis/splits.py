"""Complete dialogues for training, validation and test, chosen by a seed alone."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, fields

from ragtasks.errors import ConfigurationError
from ragtasks.records import Task

TEST_SHARE = 0.2
"""Of all dialogues: what trained models are measured on."""
VALIDATION_SHARE = 0.25
"""Of the others: what training stops by (OR-CONVQA paper, appendix D)."""

_LEAST_DIALOGUES = 5


@dataclass(frozen=True)
class TaskSplit:
    """The tasks of three sets of dialogues."""

    train: tuple[Task, ...]
    validation: tuple[Task, ...]
    test: tuple[Task, ...]
    """What the result is measured on; training never sees them."""

    @property
    def sizes(self) -> dict[str, int]:
        """Name of each set -> its dialogues."""
        return {item.name: len({task.conversation_id for task in getattr(self, item.name)}) for item in fields(self)}


def split_by_dialogue(tasks: Sequence[Task], seed: int) -> TaskSplit:
    """Return tasks in three sets that share no dialogue, each with one at least."""
    names = list(dict.fromkeys(task.conversation_id for task in tasks))
    if len(names) < _LEAST_DIALOGUES:
        raise ConfigurationError(
            f"training needs at least {_LEAST_DIALOGUES} dialogues, found {len(names)}: synthesize more"
        )
    shuffled = sorted(names, key=lambda name: hashlib.sha256(f"{seed} {name}".encode()).digest())
    n_test = max(1, round(TEST_SHARE * len(names)))
    n_validation = max(1, round(VALIDATION_SHARE * (len(names) - n_test)))
    test, validation = set(shuffled[:n_test]), set(shuffled[n_test : n_test + n_validation])
    return TaskSplit(
        tuple(task for task in tasks if task.conversation_id not in test | validation),
        tuple(task for task in tasks if task.conversation_id in validation),
        tuple(task for task in tasks if task.conversation_id in test),
    )
