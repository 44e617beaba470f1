"""Common parts of both kinds of training: settings, checkpoints to resume from, and the publication of a model."""

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
    """Settings of a training; the defaults are those of the rewriter in the OR-CONVQA paper, appendix D."""

    epochs: Annotated[int, Field(ge=1)] = 100
    """Maximum number of passes over the training dialogues."""
    batch_size: Annotated[int, Field(ge=1)] = 8
    learning_rate: Annotated[float, Field(gt=0)] = 1e-4
    """Divided by ten after ten evaluations on the validation dialogues without improvement."""
    patience: Annotated[int, Field(ge=1)] = 15
    """Training stops after this many evaluations (one per epoch) without improvement."""
    seed: int = 0
    """Determines splits, order and new weights."""

    def arguments(self, folder: Path) -> dict[str, Any]:
        """Return the arguments of the libraries' trainers."""
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
            "restore_callback_states_from_checkpoint": True,  # evaluations without improvement
            "report_to": [],
            "disable_tqdm": True,
            "logging_strategy": "no",
            "dataloader_pin_memory": False,
        }


def require_new_folder(folder: Path) -> None:
    """Raise ConfigurationError if the folder is not empty."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        shutil.rmtree(_work_folder(folder), ignore_errors=True)  # a kill may leave it after the last step
        raise ConfigurationError(f"{folder} already exists: use another folder with --output, or remove it")


def fit(
    make_trainer: Callable[[Path], Any], folder: Path, made_by: Mapping[str, Any], progress: Progress
) -> tuple[Any, dict[str, Any]]:
    """Return a trainer with a trained model, and statistics: epochs, best validation loss.

    Checkpoints are stored next to `folder`. A killed call with the same `made_by` resumes from the last complete one.
    """
    work = _work_folder(folder)
    _clear_other_training(work, canonical_hash(made_by))
    trainer = make_trainer(work)
    _report_epochs(progress, trainer)
    checkpoint = _last_checkpoint(work)
    if checkpoint:
        _keep_early_stop(trainer, checkpoint)
    trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
    state = trainer.state
    return trainer, {"epochs": round(float(state.epoch or 0), 2), "best_validation_loss": state.best_metric}


def _keep_early_stop(trainer: Any, checkpoint: Path) -> None:
    """Allow no further epoch if training had stopped early at the checkpoint; the trainer then loads the best model."""
    state = json.loads((checkpoint / _STATE).read_bytes())
    stopping = state["stateful_callbacks"]["EarlyStoppingCallback"]
    patience = stopping["args"]["early_stopping_patience"]
    if stopping["attributes"]["early_stopping_patience_counter"] >= patience:
        trainer.args.num_train_epochs = round(state["epoch"])


def _work_folder(folder: Path) -> Path:
    """Return the folder of the checkpoints during training."""
    return folder.with_name(f".{folder.name}.training")


def publish_model(folder: Path, save: Callable[[Path], None], score: Callable[[Path], _Scores]) -> _Scores:
    """Save a model, score it, rename it to its folder, remove its checkpoints, and return its scores.

    Scoring precedes the rename, so a killed call never leaves a model without scores.
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


def _clear_other_training(work: Path, key: str) -> None:
    """Empty a folder with checkpoints of another training."""
    try:
        is_ours = json.loads((work / _KEY).read_bytes())["key"] == key
    except (OSError, ValueError, LookupError):
        is_ours = False
    if not is_ours:
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir(parents=True)
        (work / _KEY).write_bytes(orjson.dumps({"key": key}))


def _last_checkpoint(work: Path) -> Path | None:
    """Return the last complete checkpoint, and delete incomplete ones."""
    checkpoints = sorted(work.glob("checkpoint-*"), key=lambda path: int(path.name.rpartition("-")[2]), reverse=True)
    for path in checkpoints:
        try:
            json.loads((path / _STATE).read_bytes())
        except (OSError, ValueError):
            shutil.rmtree(path)
        else:
            return path
    return None


def _report_epochs(progress: Progress, trainer: Any) -> None:
    """Report a trainer's epochs to our progress bar, instead of its own output."""
    from transformers import PrinterCallback, TrainerCallback

    class EpochProgress(TrainerCallback):  # type: ignore[misc]
        """Reports progress after every epoch."""

        def on_epoch_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            progress("training\tepochs", round(state.epoch or 0), int(args.num_train_epochs))

    trainer.remove_callback(PrinterCallback)
    trainer.add_callback(EpochProgress())


# Splits by complete dialogues for training, validation and test, determined by a seed.

TEST_SHARE = 0.2
"""Share of all dialogues for the final scores."""
VALIDATION_SHARE = 0.25
"""Share of the remaining dialogues for early stopping (OR-CONVQA paper, appendix D)."""

_LEAST_DIALOGUES = 5


@dataclass(frozen=True)
class TaskSplit:
    """Tasks of three sets of dialogues."""

    train: tuple[Task, ...]
    validation: tuple[Task, ...]
    test: tuple[Task, ...]
    """Tasks for the final scores; training never uses them."""

    @property
    def sizes(self) -> dict[str, int]:
        """Set name -> number of its dialogues."""
        return {split.name: len({task.conversation_id for task in getattr(self, split.name)}) for split in fields(self)}


def split_by_dialogue(tasks: Sequence[Task], seed: int) -> TaskSplit:
    """Return tasks in three sets without common dialogues, each with at least one dialogue."""
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
