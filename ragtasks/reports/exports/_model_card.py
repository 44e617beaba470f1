"""Scores as `model-index`, the metadata at the head of a model card that the Hugging Face hub shows as results."""

from __future__ import annotations

from collections.abc import Sequence

from ragtasks.errors import ConfigurationError
from ragtasks.logs import UNKNOWN
from ragtasks.reports.history import Entry

_TASK = "text-generation"


def model_card(entries: Sequence[Entry]) -> str:
    """Return the YAML that goes between the `---` lines of a model's README.md: its main scores by setting.

    Args:
        entries: of one model, as from `read_history`.

    Raises:
        ConfigurationError: no evaluation, or those of several models.
    """
    from huggingface_hub import EvalResult, ModelCardData

    models = list(dict.fromkeys(entry.model for entry in entries))
    if len(models) != 1:
        found = ", ".join(models) or "none"
        raise ConfigurationError(f"a model card is of one model, found {found}. Next step: name one with --model")
    results = [
        EvalResult(
            task_type=_TASK,
            task_name="Multi-turn retrieval-augmented generation",
            dataset_type=entry.benchmark,
            dataset_name=f"{entry.title}, {entry.setting}",
            dataset_config=entry.setting,
            dataset_revision=None
            if entry.provenance["data revision"] == UNKNOWN
            else entry.provenance["data revision"],
            metric_type=metric.name,
            metric_name=metric.name,
            metric_value=round(mean.value, 4),
        )
        for entry in entries
        for metric in entry.main_metrics
        if (mean := entry.means[metric.name]).value is not None
    ]
    return str(ModelCardData(model_name=models[0], eval_results=results).to_yaml()) + "\n"


__all__ = ["model_card"]
