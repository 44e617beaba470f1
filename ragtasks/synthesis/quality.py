"""Counts over synthetic dialogues, in total and for each, next to published counts."""

from __future__ import annotations

import itertools
import statistics
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from typing import Any

import orjson

from ragtasks.benchmarks import Benchmark, open_benchmark
from ragtasks.clients import Secrets, no_secrets
from ragtasks.errors import ConfigurationError
from ragtasks.metrics import retrieval_metric, score_run
from ragtasks.progress import Progress, no_progress
from ragtasks.records import Answerability, Qrel, Task
from ragtasks.synthesis.asking import terms
from ragtasks.synthesis.encoder_training import MEASURES, relevant
from ragtasks.synthesis.folder import DETAILS, DIALOGUES, standalone
from ragtasks.synthesis.qrelscore import QRelScore, relevance_table
from ragtasks.tables import Cell, Section, Table, fixed, grouped, table_of
from retrieval_cache import LLM_REWRITE, Rewriter, Workspace, fallbacks_of, needs_model, read_run, retrieve

PAPER_FORMS = ("context", "contextualized", "decontextualized")
"""Query forms of Table 2: with the previous question and answer, conversational, stand-alone."""
_MIN_REPEATED = 0.8  # Jaccard similarity of the words of two questions of a dialogue

# MTRAG paper, Table 8 (questions and responses in words); OR-CONVQA paper, section 4.2 and Table 7, public documents.
_PUBLISHED: Mapping[str, tuple[str, str, str]] = {
    "turns": ("7.7", "5.9", "14.58"),
    "unique passages": ("16.9", "4.6", "-"),
    "question words": ("8.6", "13.7", "-"),
    "answer words": ("97.2", "72.4", "-"),
    "passages a turn": ("2.8", "4.1", "1.99"),
    "needs rewriting": ("-", "-", "0.27"),
}
_NOTE = "Needs rewriting, alike and unanswerable are shares of all questions, grounded is a share of all written pairs."
_LEGEND = (
    "unique passages, passages a turn: passages that support answers (propositions in the OR-CONVQA paper)",
    "needs rewriting: questions with a different standalone form",
    "grounded: accepted pairs with supporting statements",
    f"alike: questions that repeat the words of an earlier question of the dialogue by {_MIN_REPEATED:.0%}",
)


@dataclass(frozen=True, slots=True)
class _SynthesizedDialogue:
    tasks: Sequence[Task]
    n_removed: int
    """Number of removed pairs."""

    @property
    def n_alike(self) -> int:
        """Number of questions that repeat the words of an earlier question."""
        words = [terms(standalone(task)) for task in self.tasks]
        return sum(
            any(
                len(question_words & earlier) >= _MIN_REPEATED * len(question_words | earlier)
                for earlier in words[:index]
                if question_words | earlier
            )
            for index, question_words in enumerate(words)
        )


def quality_section(
    folder: Path,
    relevance: QRelScore | None = None,
    retrievers: Sequence[str] = (),
    queries: Sequence[str] = PAPER_FORMS,
    progress: Progress = no_progress,
    *,
    store: Path | None = None,
    rewriter: Rewriter | None = None,
    secrets: Secrets = no_secrets,
) -> Section:
    """Return the tables of a synthesized benchmark: all dialogues next to published ones, then each dialogue."""
    removed = _removed(folder)
    benchmark = open_benchmark("custom", folder)
    by_dialogue = grouped(benchmark.tasks, lambda task: task.conversation_id)
    dialogues = {name: _SynthesizedDialogue(tasks, removed[name]) for name, tasks in by_dialogue.items()}
    statistics = {"folder": str(folder), "dialogues": str(len(dialogues))}
    means = {name: fixed(mean(list(dialogues.values())), 2) for name, mean in _MEANS.items()}
    rows = tuple((name, mean, *_PUBLISHED.get(name, ("-", "-", "-"))) for name, mean in means.items())
    tables = [Table("All dialogues", ("mean", "here", "MTRAG", "MTRAG-S", "OR-CONVQA paper"), rows, _NOTE, _LEGEND)]
    if relevance:
        tables.append(relevance_table(benchmark, relevance, progress))
    if retrievers:
        with TemporaryDirectory() as work:
            workspace = Workspace("custom", str(folder), Path(work), store or Path(work), secrets)
            tables += retrieval_tables(
                benchmark,
                retrievers,
                queries,
                workspace=workspace,
                rewriter=rewriter or Rewriter(None),
                progress=progress,
            )
    each = table_of(
        "Each dialogue", ["dialogue"], [([name], [dialogue]) for name, dialogue in dialogues.items()], _COLUMNS
    )
    return Section(f"synthetic: {folder.name}", statistics, (*tables, each))


def _removed(folder: Path) -> Counter[str]:
    """Return dialogue -> number of removed pairs."""
    path = folder / DETAILS / DIALOGUES
    try:
        rows: list[Any] = [orjson.loads(line) for line in path.read_bytes().splitlines()]
        return Counter({row["dialogue_id"]: len(row["removed"]) for row in rows})
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise ConfigurationError(
            "synthesis",
            where=str(path),
            expected="the dialogues that `ragtasks synthesize` writes",
            found=getattr(error, "strerror", None) or type(error).__name__,
            next_step="use the output folder of a synthesis; `ragtasks data describe FOLDER` accepts other folders",
        ) from error


def _a_turn(value: Callable[[Task], float]) -> Callable[[Sequence[_SynthesizedDialogue]], float]:
    """Return a function: dialogues -> mean of a task's value over all turns."""
    return lambda dialogues: fmean(value(task) for dialogue in dialogues for task in dialogue.tasks)


def _unique_passages(dialogues: Sequence[_SynthesizedDialogue]) -> float:
    return fmean(
        len({passage.passage_id for task in dialogue.tasks for passage in task.references}) for dialogue in dialogues
    )


def _passages_a_turn(dialogues: Sequence[_SynthesizedDialogue]) -> float:
    counts = [len(task.references) for dialogue in dialogues for task in dialogue.tasks if task.references]
    return fmean(counts) if counts else 0.0


def _grounded(dialogues: Sequence[_SynthesizedDialogue]) -> float:
    n_turns = sum(len(dialogue.tasks) for dialogue in dialogues)
    return n_turns / (n_turns + sum(dialogue.n_removed for dialogue in dialogues))


_MEANS: Mapping[str, Callable[[Sequence[_SynthesizedDialogue]], float]] = {
    "turns": lambda dialogues: fmean(len(dialogue.tasks) for dialogue in dialogues),
    "unique passages": _unique_passages,
    "question words": _a_turn(lambda task: len(task.question.split())),
    "answer words": _a_turn(lambda task: len(task.target.split())),
    "passages a turn": _passages_a_turn,
    "needs rewriting": _a_turn(lambda task: task.question != standalone(task)),
    "grounded": _grounded,
    "alike": lambda dialogues: (
        sum(dialogue.n_alike for dialogue in dialogues) / sum(len(dialogue.tasks) for dialogue in dialogues)
    ),
    "unanswerable": _a_turn(lambda task: task.answerability is Answerability.UNANSWERABLE),
}
_COLUMNS: Mapping[str, Callable[[Sequence[_SynthesizedDialogue]], Cell]] = {
    "turns": lambda dialogue: len(dialogue[0].tasks),
    "unique passages": lambda dialogue: round(_unique_passages(dialogue)),
    "question words": lambda dialogue: fixed(_MEANS["question words"](dialogue), 1),
    "answer words": lambda dialogue: fixed(_MEANS["answer words"](dialogue), 1),
    "needs rewriting": lambda dialogue: fixed(_MEANS["needs rewriting"](dialogue), 2),
    "grounded": lambda dialogue: fixed(_grounded(dialogue), 2),
    "alike": lambda dialogue: dialogue[0].n_alike,
    "unanswerable": lambda dialogue: round(_MEANS["unanswerable"](dialogue) * len(dialogue[0].tasks)),
}


# Retrieval on synthetic dialogues by query form, in total and per domain (OR-CONVQA paper, Tables 2, 3 and 8 to 10).

_DEPTH = 20
# Tables 2 and 3, dialogues from propositions, by reciprocal rank fusion: MAP, R@5, R@10, R@20.
_PUBLISHED_RETRIEVAL = {
    "paper: RRF, proprietary documents": {
        "context": ("0.19", "0.31", "0.44", "0.56"),
        "contextualized": ("0.46", "0.55", "0.63", "0.69"),
        "decontextualized": ("0.50", "0.60", "0.67", "0.73"),
        "llm_rewrite (T5)": ("0.49", "0.57", "0.65", "0.72"),
    },
    "paper: RRF, public documents": {
        "context": ("0.18", "0.30", "0.44", "0.56"),
        "contextualized": ("0.49", "0.59", "0.65", "0.72"),
        "decontextualized": ("0.54", "0.63", "0.71", "0.77"),
        "llm_rewrite (T5)": ("0.52", "0.62", "0.69", "0.76"),
    },
}
_SEARCH_NOTE = "Over questions with supporting passages, within the first 20 results."
_SEEN = "A rewriter that was trained on these dialogues was trained on most of the answers."
_Values = Mapping[tuple[str, str], Mapping[str, Mapping[str, float]]]


def retrieval_tables(
    benchmark: Benchmark,
    retrievers: Sequence[str],
    forms: Sequence[str],
    *,
    workspace: Workspace,
    rewriter: Rewriter,
    progress: Progress,
) -> tuple[Table, ...]:
    """Return a table of the means over all judged questions, and one per domain if there are several domains."""
    qrels = relevant(benchmark)
    domains = {task.task_id: task.domain for task in benchmark.tasks if task.task_id in qrels}
    if not domains:
        raise ConfigurationError(f"{benchmark.label}: no question is judged, so retrieval cannot be measured")
    judged = [Qrel(name, passage, 1) for name in domains for passage in qrels[name]]
    metrics = [retrieval_metric(name) for name in MEASURES]
    values: dict[tuple[str, str], Mapping[str, Mapping[str, float]]] = {}
    fallbacks: list[str] = []
    for line, form in itertools.product(retrievers, forms):
        # A rewriter model that no form uses is an error.
        form_rewriter = rewriter if needs_model(form) else replace(rewriter, model=None)
        made = retrieve(workspace, line, form, depth=_DEPTH, rewriter=form_rewriter, progress=progress)
        values[line, form] = score_run(read_run(made, domains), judged, metrics).values
        fallbacks += [f"{form}: {fallback}" for fallback in [fallbacks_of(made.manifest)] if fallback]
    rows: list[tuple[Cell, ...]] = [
        (line, form, len(by_task), *_means(list(by_task.values()))) for (line, form), by_task in values.items()
    ]
    labels = {"llm_rewrite (T5)" if form.startswith(LLM_REWRITE) else form for form in forms}
    for source, published in _PUBLISHED_RETRIEVAL.items():
        rows += [(source, form, "-", *cells) for form, cells in published.items() if form in labels]
    is_trained = any(form.startswith(f"{LLM_REWRITE}:") for form in forms)
    note = " ".join(
        [_SEARCH_NOTE, *([_SEEN] if is_trained else []), *(f"{text}." for text in dict.fromkeys(fallbacks))]
    )
    total = Table("Retrieval by query form", ("retriever", "query", "questions", *MEASURES), tuple(rows), note)
    names = list(dict.fromkeys(domains.values()))
    return (total, _by_domain(values, domains, names)) if len(names) > 1 else (total,)


def _by_domain(values: _Values, domains: Mapping[str, str], names: Sequence[str]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for name in names:
        for (line, form), by_task in values.items():
            of_domain = [row for task_id, row in by_task.items() if domains[task_id] == name]
            rows.append((name, line, form, len(of_domain), *_means(of_domain)))
    return Table("Retrieval per domain", ("domain", "retriever", "query", "questions", *MEASURES), tuple(rows))


def _means(rows: Sequence[Mapping[str, float]]) -> list[str]:
    names = [retrieval_metric(name).name for name in MEASURES]
    return [fixed(statistics.fmean(row[name] for row in rows)) for name in names]
