"""The MTRAG paper's own results next to ours: Table 5 (answers), Tables 3 and 4 (retrieval).

They are shown for the full benchmark only, not for its sample. A metric of Table 5 with another encoder, or without the
paper's judge and the official prompts, has no column. A note lists the conditions that are not tested.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from ragtasks.metrics import Metric
from ragtasks.published import PublishedTable, published_subsets, published_table
from ragtasks.records import Answerability, Setting
from ragtasks.reports.tables._published import official_judge, recorded_scoring, with_passages_of_setting
from ragtasks.reports.tables._scores import BOTH_SIDES, by_setting, metric_columns, row_slices, with_sides
from ragtasks.results import Evaluation, ScoredAnswer
from ragtasks.statistics import estimate_mean
from ragtasks.tables import Cell, Table, Value, table_of

_SETTINGS = (Setting.REFERENCE.value, Setting.REFERENCE_RAG.value, Setting.FULL_RAG.value)
_CONDITIONED = ("rl_f_raw", "rl_f", "rb_llm_raw", "rb_llm", "rb_alg_raw", "rb_alg")

_BENCHMARK, _SUITE = "mtrag", "mtrag"
_MOST_REFERENCES = 2  # maximum reference passages of a task in Table 5
_DEPTH = 5  # number of passages in the prompts of the paper's models
_JUDGE = "gpt-4o-mini"  # the only judge in the official scripts, and one of the four behind the paper's RB_llm
_ANSWERS_NOTE = (
    "paper: as printed, n = 426, passages of Elser in reference_rag and full_rag, RB_llm as the median of four judges. "
    "ours: tasks with at most two reference passages, as in the paper; refusals by {detector}. Left out, unless equal "
    "to the paper's: RB_alg with another encoder (here {encoder}), and RL_F and RB_llm without gpt-4o-mini and the "
    "official prompts (here {judges})."
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
    """Yield the effect of conditioning on refusals for unanswerable tasks (Table 13), if there are any."""
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
        comparable = _comparable(evaluations, paper)
        for row in reversed(paper.rows) if columns.keys() & comparable else ():
            scores = (paper.score(row, name) if name in comparable else "-" for name in columns)
            rows.insert(n_ours, (row.setting, row.name, "paper", str(paper.n), *scores))
    if rows:
        yield replace(table, rows=tuple(rows))


def paper_tables(evaluations: Sequence[Evaluation], present: Mapping[str, Metric]) -> Iterator[Table]:
    """Yield the paper's results for the evaluated settings. Yields nothing for other benchmarks."""
    evaluations = with_passages_of_setting(evaluations)
    if not evaluations or evaluations[0].kind[0] != _BENCHMARK or not evaluations[0].suite.startswith(_SUITE):
        return
    paper = published_table("MTRAG paper, Table 5")
    names = with_sides((name for name in _comparable(evaluations, paper) if name in present), present)
    answers = tuple(_answer_rows(evaluations, metric_columns(names, present), paper))
    if answers and names:
        _, encoder, detector = evaluations[0].kind
        judges = ", ".join(sorted({str(judge or "none") for (judge,) in recorded_scoring(evaluations, "judges")}))
        note = _ANSWERS_NOTE.format(encoder=encoder, judges=judges, detector=detector)
        yield Table("Compared with the paper: Table 5", ("setting", "model", "by", "n", *names), answers, note)
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


def _comparable(evaluations: Sequence[Evaluation], paper: PublishedTable) -> list[str]:
    """Return the metrics of a table whose encoder and judge are the paper's."""
    has_judge = official_judge(evaluations).startswith(_JUDGE)
    has_encoder = evaluations[0].kind[1] == paper.encoder
    fulfilled = {"rb_alg": has_encoder, "rl_f": has_judge, "rb_llm": has_judge}
    return [name for name in paper.metrics if fulfilled.get(name.removesuffix("_raw"), True)]


def _answer_rows(
    evaluations: Sequence[Evaluation],
    columns: Mapping[str, Callable[[Sequence[ScoredAnswer]], Cell]],
    paper: PublishedTable,
) -> Iterator[tuple[Cell, ...]]:
    """Yield our rows, then the paper's, setting by setting."""
    answered = list(by_setting(evaluations, _is_in_table_5))
    for setting in _SETTINGS:
        ours = [(model, rows) for (name, model), rows in answered if name == setting]
        for model, rows in ours:
            yield (setting, model, "ours", len(rows), *(score(rows) for score in columns.values()))
        for row in paper.of(setting) if ours else ():
            scores = ("-" if name == BOTH_SIDES else paper.score(row, name) for name in columns)
            yield (setting, row.name, "paper", str(paper.n), *scores)


def _is_in_table_5(row: ScoredAnswer) -> bool:
    is_short = len(row.references) <= _MOST_REFERENCES
    return is_short and row.task.answerability is not Answerability.CONVERSATIONAL


def _recall(rows: Sequence[ScoredAnswer]) -> Value:
    values = [row.n_found / len(row.references) for row in rows]
    return estimate_mean(values, [row.task.conversation_id for row in rows], (0.0, 1.0)).cell
