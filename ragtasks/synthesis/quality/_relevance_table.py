"""The table of QRelScore: questions as they are asked, and as they stand alone, beside the published values."""

from __future__ import annotations

from collections.abc import Sequence

from ragtasks.benchmarks import Benchmark
from ragtasks.clients import Progress, no_progress
from ragtasks.records import Task
from ragtasks.synthesis.quality._qrelscore import PUBLISHED_MODELS, QRelScore, Relevance
from ragtasks.tables import Table, fixed

# OR-CONVQA paper, Table 1, dialogues from propositions of public and of proprietary documents.
_PUBLISHED = {"as asked": ("0.33", "0.36"), "standing alone": ("0.36", "0.41")}


def relevance_table(benchmark: Benchmark, measure: QRelScore, progress: Progress = no_progress) -> Table:
    """Return the means over all questions whose answers rest on passages.

    Args:
        benchmark: one whose questions have references.
        measure: the models.
        progress: told after every question.
    """
    tasks = [task for task in benchmark.tasks if task.references]
    forms = {"as asked": [task.question for task in tasks], "standing alone": [_alone(task) for task in tasks]}
    rows = []
    n_done = 0
    for form, questions in forms.items():
        found: list[Relevance | None] = []
        for task, question in zip(tasks, questions, strict=True):
            found.append(measure(question, [item.text for item in task.references]))
            n_done += 1
            progress("QRelScore\tquestions", n_done, 2 * len(tasks))
        scored = [one for one in found if one is not None]
        means = [_mean([getattr(one, name) for one in scored]) for name in ("local", "gain", "score")]
        rows.append((form, f"{len(scored)} of {len(benchmark.tasks)}", *means, *_PUBLISHED[form]))
    columns = ("questions", "scored", "local", "global", "QRelScore", "paper, public", "paper, proprietary")
    encoder, language_model = measure.models
    note = (
        f"Encoder {encoder}, language model {language_model}; the paper's values have {' and '.join(PUBLISHED_MODELS)}."
    )
    if measure.models != PUBLISHED_MODELS:
        note += " Values of other models do not compare with them, only with each other."
    legend = ("not scored: questions whose answers rest on no passage, and texts of one token",)
    return Table("QRelScore", columns, tuple(rows), note, legend)


def _alone(task: Task) -> str:
    return str(task.extra.get("rewrite") or task.question)


def _mean(values: Sequence[float]) -> str:
    return fixed(sum(values) / len(values)) if values else "-"


__all__ = ["relevance_table"]
