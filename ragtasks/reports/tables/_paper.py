"""The MTRAG paper's own results next to ours: Table 5 (answers), Tables 3 and 4 (retrieval).

They are shown for the full benchmark only, not for its sample. They are comparable only if encoder, judges and passages
are the paper's, so a note lists those of the evaluation.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from ragtasks.metrics import Metric
from ragtasks.published import PublishedTable, published_subsets, published_table
from ragtasks.records import Answerability, Setting
from ragtasks.reports.tables._scores import by_setting, metric_columns, row_slices
from ragtasks.results import Evaluation, ScoredAnswer
from ragtasks.statistics import estimate_mean
from ragtasks.tables import Cell, Table, Value, table_of

_SETTINGS = (Setting.REFERENCE.value, Setting.REFERENCE_RAG.value, Setting.FULL_RAG.value)
_CONDITIONED = ("rl_f_raw", "rl_f", "rb_llm_raw", "rb_llm", "rb_alg_raw", "rb_alg")

_BENCHMARK, _SUITE = "mtrag", "mtrag"
_MOST_REFERENCES = 2  # maximum reference passages of a task in Table 5
_DEPTH = 5  # number of passages in the prompts of the paper's models
_ANSWERS_NOTE = (
    "paper: as printed, n = 426. ours: tasks with at most two reference passages, as in the paper. Comparable only "
    "with the paper's setup: BERTScore by deberta-xlarge-mnli (here {encoder}), its judges (here {judges}), and in "
    "reference_rag and full_rag the passages of Elser."
)
_FOUND_NOTE = (
    "Recall of the reference passages among the five passages in the prompt, over tasks with reference passages. "
    "paper: Elser with rewritten questions, over the complete corpora."
)
_CONDITIONED_NOTE = (
    "_raw: the score before conditioning on refusals. After conditioning, a refusal scores 1 and an answer 0. "
    "Unconditioned judges and word overlaps reward plausible answers to unanswerable questions (MTRAG paper, Table "
    "13)."
)


def conditioning_table(evaluations: Sequence[Evaluation], present: Mapping[str, Metric]) -> Iterator[Table]:
    """Yield the effect of conditioning on refusals for unanswerable tasks (Table 13).

    Yields nothing without such tasks.
    """
    columns = metric_columns(_CONDITIONED, present)
    if not any(name.endswith("_raw") for name in columns):
        return
    heads, title = ("setting", "model", "by"), "Before and after conditioning, on unanswerable tasks"
    unanswerable = by_setting(evaluations, lambda row: row.task.answerability is Answerability.UNANSWERABLE)
    groups = [((*names, "ours"), rows) for names, rows in unanswerable]
    table = table_of(title, heads, groups, {"n": len, **columns}, _CONDITIONED_NOTE)
    rows = list(table.rows)
    n_ours = sum(setting == Setting.REFERENCE for (setting, *_), _ in groups)
    if n_ours and evaluations[0].kind[0] == _BENCHMARK:
        paper = published_table("MTRAG paper, Table 13")
        rows[n_ours:n_ours] = [
            (row.setting, row.name, "paper", str(paper.n), *(paper.score(row, name) for name in columns))
            for row in paper.rows
        ]
    if rows:
        yield replace(table, rows=tuple(rows))


def paper_tables(evaluations: Sequence[Evaluation], present: Mapping[str, Metric]) -> Iterator[Table]:
    """Yield the paper's results for the evaluated settings. Yields nothing for other benchmarks."""
    if evaluations[0].kind[0] != _BENCHMARK or not evaluations[0].suite.startswith(_SUITE):
        return
    paper = published_table("MTRAG paper, Table 5")
    answers = tuple(_answer_rows(evaluations, present, paper))
    if answers and any(name in present for name in paper.metrics):
        scoring = [
            provenance.get("scoring", {}) for evaluation in evaluations for provenance in evaluation.provenance.values()
        ]
        judges = ", ".join(dict.fromkeys(str(scores.get("judges") or "none") for scores in scoring)) or "none"
        note = _ANSWERS_NOTE.format(encoder=evaluations[0].kind[1], judges=judges)
        columns = ("setting", "model", "by", "n", *paper.metrics)
        yield Table("Compared with the paper: Table 5", columns, answers, note)
    # Models with up to five retrieved passages in the prompt.
    retrieved = [
        (model, [row for row in rows if row.references])
        for (setting, model), rows in by_setting(evaluations)
        if setting == Setting.FULL_RAG and max(len(row.response.passages) for row in rows) == _DEPTH
    ]
    printed = published_subsets()
    recall_rows: list[tuple[Cell, ...]] = []
    for part in row_slices([row for _, rows in retrieved for row in rows]) if retrieved else ():
        if (part.dimension, part.value) in printed:
            n, score = printed[part.dimension, part.value]
            shares = (_recall(part.of(rows)) for _, rows in retrieved)
            recall_rows.append((part.dimension, part.value, f"{score} (n = {n})", *shares))
    if recall_rows:
        heads = ("dimension", "value", "paper", *(model for model, _ in retrieved))
        yield Table("Compared with the paper: Tables 3 and 4", heads, tuple(recall_rows), _FOUND_NOTE)


def _answer_rows(
    evaluations: Sequence[Evaluation], present: Mapping[str, Metric], paper: PublishedTable
) -> Iterator[tuple[Cell, ...]]:
    """Yield our rows, then the paper's, setting by setting."""
    columns = metric_columns(paper.metrics, present)
    answered = list(by_setting(evaluations, _is_in_table_5))
    for setting in _SETTINGS:
        ours = [(model, rows) for (name, model), rows in answered if name == setting]
        for model, rows in ours:
            scores = (columns[name](rows) if name in columns else Value(None, 0, len(rows)) for name in paper.metrics)
            yield (setting, model, "ours", len(rows), *scores)
        for row in paper.of(setting) if ours else ():
            yield (setting, row.name, "paper", str(paper.n), *row.scores)


def _is_in_table_5(row: ScoredAnswer) -> bool:
    is_short = len(row.references) <= _MOST_REFERENCES
    return is_short and row.task.answerability is not Answerability.CONVERSATIONAL


def _recall(rows: Sequence[ScoredAnswer]) -> Value:
    values = [row.n_found / len(row.references) for row in rows]
    return estimate_mean(values, [row.task.conversation_id for row in rows], (0.0, 1.0)).cell
