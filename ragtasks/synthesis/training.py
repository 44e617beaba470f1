"""The parts that both trainings share: settings, checkpoints to resume from, a folder that is complete or absent."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any, TypeVar

import orjson
from pydantic import Field

from ragtasks.errors import ConfigurationError
from ragtasks.files import canonical_hash
from ragtasks.progress import Progress
from ragtasks.records import Task

_KEY = "ragtasks_training.json"
_STATE = "trainer_state.json"
_Scores = TypeVar("_Scores")


@dataclass(frozen=True, slots=True)
class Hyperparameters:
    """How long and how fast weights are fitted; the defaults are the rewriter's of the OR-CONVQA paper, appendix D."""

    epochs: Annotated[int, Field(ge=1)] = 100
    """Most passes over the training dialogues."""
    batch_size: Annotated[int, Field(ge=1)] = 8
    learning_rate: Annotated[float, Field(gt=0)] = 1e-4
    """Divided by ten after ten looks at the validation dialogues without a better one."""
    patience: Annotated[int, Field(ge=1)] = 15
    """Looks (one an epoch) without a better one after which training stops."""
    seed: int = 0
    """Decides splits, order and new weights."""

    def arguments(self, folder: Path) -> dict[str, Any]:
        """Return what the libraries' trainers are told."""
        return {
            "output_dir": str(folder),
            "num_train_epochs": self.epochs,
            "per_device_train_batch_size": self.batch_size,
            "per_device_eval_batch_size": self.batch_size,
            "learning_rate": self.learning_rate,
            "lr_scheduler_type": "reduce_lr_on_plateau",
            "lr_scheduler_kwargs": {"factor": 0.1, "patience": 10},
            "eval_strategy": "epoch",
            "save_strategy": "epoch",
            "save_total_limit": 2,
            "load_best_model_at_end": True,
            "metric_for_best_model": "eval_loss",
            "greater_is_better": False,
            "seed": self.seed,
            "data_seed": self.seed,
            "restore_callback_states_from_checkpoint": True,  # how long there was no better one
            "report_to": [],
            "disable_tqdm": True,
            "logging_strategy": "no",
            "dataloader_pin_memory": False,
        }


def needs_new_folder(folder: Path) -> None:
    """Refuse a folder that holds something."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        shutil.rmtree(_work_folder(folder), ignore_errors=True)  # a kill may leave it after the last step
        raise ConfigurationError(f"{folder} is there already: name another folder with --output, or remove it")


def fit(
    make_trainer: Callable[[Path], Any], folder: Path, made_by: Mapping[str, Any], progress: Progress
) -> tuple[Any, dict[str, Any]]:
    """Return a trainer whose model is fitted, and what happened: epochs, best validation loss.

    Checkpoints stand beside `folder`; a killed call with the same `made_by` goes on from the last whole one.
    """
    work = _work_folder(folder)
    _keep_only(work, canonical_hash(made_by))
    trainer = make_trainer(work)
    _show_by(progress, trainer)
    checkpoint = _last_checkpoint(work)
    if checkpoint:
        _end_where_it_ended(trainer, checkpoint)
    trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
    state = trainer.state
    return trainer, {"epochs": round(float(state.epoch or 0), 2), "best_validation_loss": state.best_metric}


def _end_where_it_ended(trainer: Any, checkpoint: Path) -> None:
    """Let a trainer run no further epoch where its checkpoint had stopped early: the best one is loaded as it is."""
    state = json.loads((checkpoint / _STATE).read_bytes())
    stopping = state["stateful_callbacks"]["EarlyStoppingCallback"]
    patience = stopping["args"]["early_stopping_patience"]
    if stopping["attributes"]["early_stopping_patience_counter"] >= patience:
        trainer.args.num_train_epochs = round(state["epoch"])


def _work_folder(folder: Path) -> Path:
    """Return where checkpoints of a training stand until it has ended."""
    return folder.with_name(f".{folder.name}.training")


def publish_model(folder: Path, save: Callable[[Path], None], score: Callable[[Path], _Scores]) -> _Scores:
    """Give a model its folder in one step, remove its checkpoints, and return its scores.

    It is scored before it has its name, so that a killed call never leaves a model whose scores nobody saw.
    """
    part = _work_folder(folder) / folder.name  # results name a model by its folder
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir()
    save(part)
    scores = score(part)
    if folder.is_dir():
        folder.rmdir()
    part.rename(folder)
    shutil.rmtree(_work_folder(folder), ignore_errors=True)
    return scores


def _keep_only(work: Path, key: str) -> None:
    """Empty a folder of checkpoints that another training left."""
    try:
        is_ours = json.loads((work / _KEY).read_bytes())["key"] == key
    except (OSError, ValueError, LookupError):
        is_ours = False
    if not is_ours:
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir(parents=True)
        (work / _KEY).write_bytes(orjson.dumps({"key": key}))


def _last_checkpoint(work: Path) -> Path | None:
    """Return the last checkpoint that is whole; those that a kill left in pieces go."""
    found = sorted(work.glob("checkpoint-*"), key=lambda path: int(path.name.rpartition("-")[2]), reverse=True)
    for path in found:
        try:
            json.loads((path / _STATE).read_bytes())
        except (OSError, ValueError):
            shutil.rmtree(path)
        else:
            return path
    return None


def _show_by(progress: Progress, trainer: Any) -> None:
    """Let a trainer tell our progress in the place of its own prints."""
    from transformers import PrinterCallback, TrainerCallback

    class EpochProgress(TrainerCallback):  # type: ignore[misc]
        """Tells progress after every epoch."""

        def on_epoch_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            progress("training\tepochs", round(state.epoch or 0), int(args.num_train_epochs))

    trainer.remove_callback(PrinterCallback)
    trainer.add_callback(EpochProgress())


# Complete dialogues for training, validation and test, chosen by a seed alone.

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
