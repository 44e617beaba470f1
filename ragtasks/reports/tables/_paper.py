"""The MTRAG paper's own results next to ours: Table 5 (answers), Tables 3 and 4 (retrieval).

They are shown for the full benchmark only, not for its sample. They are comparable only if encoder, judges and passages
are the paper's, so a note lists those of the evaluation.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from ragtasks.metrics import Metric
from ragtasks.records import Answerability, Setting
from ragtasks.reports.tables._scores import by_setting, metric_columns, row_slices
from ragtasks.results import Evaluation, ScoredAnswer
from ragtasks.statistics import estimate_mean
from ragtasks.tables import ALL, Cell, Table, Value, table_of

_SETTINGS = (Setting.REFERENCE.value, Setting.REFERENCE_RAG.value, Setting.FULL_RAG.value)
PAPER_METRICS = ("ans_acc", "rl_f", "rb_llm", "rb_alg")
"""The columns of Table 5."""
PAPER_TABLE_5: Mapping[str, Mapping[str, tuple[float, float, float, float]]] = MappingProxyType(
    {
        model: MappingProxyType(dict(zip(_SETTINGS, scores, strict=True)))
        for model, *scores in (
            ("reference answers", (0.98, 0.86, 0.94, 0.88), (0.97, 0.87, 0.94, 0.88), (0.98, 0.67, 0.94, 0.86)),
            ("Command-R+ (104B)", (0.86, 0.69, 0.66, 0.43), (0.86, 0.71, 0.62, 0.40), (0.87, 0.66, 0.59, 0.38)),
            ("GPT-4o", (0.89, 0.69, 0.73, 0.46), (0.86, 0.69, 0.68, 0.40), (0.86, 0.65, 0.66, 0.38)),
            ("GPT-4o-mini", (0.87, 0.66, 0.72, 0.43), (0.86, 0.69, 0.68, 0.40), (0.84, 0.64, 0.64, 0.37)),
            ("Llama 3.1 405B Instruct", (0.87, 0.69, 0.70, 0.47), (0.86, 0.70, 0.68, 0.42), (0.85, 0.65, 0.63, 0.39)),
            ("Llama 3.1 70B Instruct", (0.78, 0.63, 0.62, 0.43), (0.83, 0.66, 0.64, 0.42), (0.81, 0.64, 0.59, 0.39)),
            ("Llama 3.1 8B Instruct", (0.71, 0.50, 0.54, 0.36), (0.75, 0.51, 0.54, 0.33), (0.74, 0.53, 0.52, 0.34)),
            ("Mixtral 8x22B Instruct", (0.86, 0.54, 0.66, 0.39), (0.87, 0.61, 0.64, 0.38), (0.86, 0.56, 0.61, 0.35)),
            ("Qwen 2.5 (72B)", (0.87, 0.65, 0.71, 0.43), (0.87, 0.71, 0.69, 0.40), (0.87, 0.64, 0.65, 0.37)),
            ("Qwen 2.5 (7B)", (0.88, 0.62, 0.68, 0.42), (0.86, 0.66, 0.65, 0.38), (0.87, 0.62, 0.63, 0.37)),
        )
    }
)
"""Model -> setting -> the scores of `PAPER_METRICS` as printed in Table 5 (n = 426)."""
PAPER_RECALL: Mapping[tuple[str, str], tuple[float, int]] = MappingProxyType(
    {
        (ALL, ""): (0.52, 777),
        ("turn", "first"): (0.89, 102),
        ("turn", "later"): (0.47, 675),
        ("domain", "clapnq"): (0.56, 208),
        ("domain", "cloud"): (0.47, 188),
        ("domain", "fiqa"): (0.50, 180),
        ("domain", "govt"): (0.56, 201),
    }
)
"""Slice -> recall at 5 of Elser with rewritten questions, and its number of queries (Tables 3 and 4)."""
PAPER_TABLE_13: Mapping[str, tuple[float, ...]] = MappingProxyType(
    {
        "reference answers": (0.18, 0.87, 0.89, 0.87, 0.75, 0.87),
        "GPT-4o": (0.19, 0.20, 0.66, 0.20, 0.26, 0.20),
        "Llama 3.1 405B Instruct": (0.21, 0.20, 0.69, 0.20, 0.27, 0.20),
    }
)
"""Model -> rl_f, rb_llm and rb_alg, each before and after conditioning, in the reference setting (n = 55)."""
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
        indices = [_CONDITIONED.index(name) for name in columns]
        rows[n_ours:n_ours] = [
            (Setting.REFERENCE.value, model, "paper", "55", *(f"{printed[index]:.2f}" for index in indices))
            for model, printed in PAPER_TABLE_13.items()
        ]
    if rows:
        yield replace(table, rows=tuple(rows))


def paper_tables(evaluations: Sequence[Evaluation], present: Mapping[str, Metric]) -> Iterator[Table]:
    """Yield the paper's results for the evaluated settings. Yields nothing for other benchmarks."""
    if evaluations[0].kind[0] != _BENCHMARK or not evaluations[0].suite.startswith(_SUITE):
        return
    answers = tuple(_answer_rows(evaluations, present))
    if answers and any(name in present for name in PAPER_METRICS):
        scoring = [
            provenance.get("scoring", {}) for evaluation in evaluations for provenance in evaluation.provenance.values()
        ]
        judges = ", ".join(dict.fromkeys(str(scores.get("judges") or "none") for scores in scoring)) or "none"
        note = _ANSWERS_NOTE.format(encoder=evaluations[0].kind[1], judges=judges)
        columns = ("setting", "model", "by", "n", *PAPER_METRICS)
        yield Table("Compared with the paper: Table 5", columns, answers, note)
    # Models with up to five retrieved passages in the prompt.
    retrieved = [
        (model, [row for row in rows if row.references])
        for (setting, model), rows in by_setting(evaluations)
        if setting == Setting.FULL_RAG and max(len(row.response.passages) for row in rows) == _DEPTH
    ]
    recall_rows: list[tuple[Cell, ...]] = []
    for part in row_slices([row for _, rows in retrieved for row in rows]) if retrieved else ():
        paper = PAPER_RECALL.get((part.dimension, part.value))
        if paper is not None:
            shares = (_recall(part.of(rows)) for _, rows in retrieved)
            recall_rows.append((part.dimension, part.value, f"{paper[0]:.2f} (n = {paper[1]})", *shares))
    if recall_rows:
        heads = ("dimension", "value", "paper", *(model for model, _ in retrieved))
        yield Table("Compared with the paper: Tables 3 and 4", heads, tuple(recall_rows), _FOUND_NOTE)


def _answer_rows(evaluations: Sequence[Evaluation], present: Mapping[str, Metric]) -> Iterator[tuple[Cell, ...]]:
    """Yield our rows, then the paper's, setting by setting."""
    columns = metric_columns(PAPER_METRICS, present)
    answered = list(by_setting(evaluations, _is_in_table_5))
    for setting in _SETTINGS:
        ours = [(model, rows) for (name, model), rows in answered if name == setting]
        for model, rows in ours:
            scores = (columns[name](rows) if name in columns else Value(None, 0, len(rows)) for name in PAPER_METRICS)
            yield (setting, model, "ours", len(rows), *scores)
        for model, printed in PAPER_TABLE_5.items() if ours else ():
            yield (setting, model, "paper", "426", *(f"{score:.2f}" for score in printed[setting]))


def _is_in_table_5(row: ScoredAnswer) -> bool:
    is_short = len(row.references) <= _MOST_REFERENCES
    return is_short and row.task.answerability is not Answerability.CONVERSATIONAL


def _recall(rows: Sequence[ScoredAnswer]) -> Value:
    values = [row.n_found / len(row.references) for row in rows]
    return estimate_mean(values, [row.task.conversation_id for row in rows], (0.0, 1.0)).cell
