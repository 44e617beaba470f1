"""Dialogues for training, validation and test: whole ones, by a seed and nothing else."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from ragtasks.errors import ConfigurationError
from ragtasks.records import Task

TEST_SHARE = 0.2
"""Of all dialogues: what trained models are measured on."""
VALIDATION_SHARE = 0.25
"""Of the others: what training stops by (OR-CONVQA paper, appendix D)."""

_LEAST_DIALOGUES = 5


@dataclass(frozen=True)
class Split:
    """The tasks of three sets of dialogues."""

    train: tuple[Task, ...]
    """What weights are fitted to."""
    validation: tuple[Task, ...]
    """What training stops by."""
    test: tuple[Task, ...]
    """What the result is measured on; training never sees them."""


def split_by_dialogue(tasks: Sequence[Task], seed: int) -> Split:
    """Return tasks in three sets that share no dialogue, each with one at least.

    Raises:
        ConfigurationError: fewer than five dialogues.
    """
    names = list(dict.fromkeys(task.conversation_id for task in tasks))
    if len(names) < _LEAST_DIALOGUES:
        raise ConfigurationError(
            f"training needs at least {_LEAST_DIALOGUES} dialogues, found {len(names)}: synthesize more"
        )
    shuffled = sorted(names, key=lambda name: hashlib.sha256(f"{seed} {name}".encode()).digest())
    n_test = max(1, round(TEST_SHARE * len(names)))
    n_validation = max(1, round(VALIDATION_SHARE * (len(names) - n_test)))
    test, validation = set(shuffled[:n_test]), set(shuffled[n_test : n_test + n_validation])
    return Split(
        tuple(task for task in tasks if task.conversation_id not in test | validation),
        tuple(task for task in tasks if task.conversation_id in validation),
        tuple(task for task in tasks if task.conversation_id in test),
    )


__all__ = ["TEST_SHARE", "VALIDATION_SHARE", "Split", "split_by_dialogue"]
