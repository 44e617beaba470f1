"""Print the results of the Python API on the sample, as JSON: a part of `same_numbers.py`."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from typing import Any

import ragtasks

JUDGES = [{"model": name, "base_url": f"{sys.argv[1]}/v1"} for name in ("steady", "other")]
PASSAGES = ["Books are lent for three weeks. A loan can be renewed twice.", "Magazines are lent for a week."]
ANSWER = "Books are lent for 3 weeks [1]. You can renew a loan 5 times [2]. Fines are paid in cash. They are not lent."


@cache
def benchmark() -> Any:
    """Return the sample of MTRAG."""
    return ragtasks.load_benchmark("mtrag", data="sample")


@cache
def scored(answers_from: str) -> Any:
    """Return the scores of the reference answers, or of the questions as answers."""
    answers = {task.task_id: getattr(task, answers_from) for task in benchmark().tasks}
    return ragtasks.score(benchmark(), answers, setting="reference", metrics=["cited_precision"], name=answers_from)


def tasks() -> Any:
    """Return the contents of a benchmark."""
    passages = benchmark().passages("full_rag")
    passage_ids = {task: [passage.passage_id for passage in ranked] for task, ranked in passages.items()}
    return {"qrels": benchmark().qrels, "passages": passage_ids}


def score() -> Any:
    """Return rows of scores, with implausible answers."""
    return {"rows": scored("question").rows, "by_task": scored("target").by_task, "missing": scored("target").missing}


def judged() -> Any:
    """Return scores by judges of a few answers."""
    answers = {task.task_id: task.question for task in benchmark().tasks[:12]}
    return ragtasks.score(benchmark(), answers, setting="reference", encoder="none", judges=JUDGES, repeats=2).rows


def score_rows() -> Any:
    """Return the scores of rows without a benchmark."""
    rows = [{"question": "How long?", "answer": ANSWER, "contexts": PASSAGES, "reference": "Three weeks."}]
    return ragtasks.score_rows(rows, judges=JUDGES, encoder="minilm", name="mine").rows


def read_results() -> Any:
    """Return the rows of saved results."""
    return ragtasks.read_results("results/extractive").rows


def compare() -> Any:
    """Return differences with their intervals and p."""
    metric = ["rouge_l", "ans_acc", "rb_alg"]
    return plain(ragtasks.compare(scored("question"), scored("target"), metric=metric).comparisons, 6)


def decided() -> Any:
    """Return the decision of judges between two saved results."""
    decision = ragtasks.compare_until_decided(
        ["scored/answers", "scored/asked"], JUDGES, metric="rl_f", output="judged/api", data="sample"
    )
    return {"verdict": decision.verdict, "better": decision.better, "decided": plain(decision.decided, 4)}


def ground() -> Any:
    """Return the source of each sentence of an answer."""
    return plain(ragtasks.ground(ANSWER, PASSAGES, ["How long may I keep a book?"]), 6)


def evaluate_run() -> Any:
    """Return the values of a run of a retriever."""
    run = ragtasks.retrieve(benchmark(), "bm25", queries="rewrite", name="api")
    evaluation = ragtasks.evaluate_run(run, benchmark(), measures=["recall_5", "nDCG@20", "R@100"])
    return {"means": evaluation.means, "values": evaluation.values, "rankings": run.rankings}


def plain(value: Any, depth: int) -> Any:
    """Return dataclasses and enumerations as JSON."""
    if depth == 0:
        return None
    if is_dataclass(value) and not isinstance(value, type):
        return {member.name: plain(getattr(value, member.name), depth - 1) for member in fields(value)}
    if isinstance(value, Enum):
        return value.value
    if hasattr(value, "items"):
        return {str(key): plain(member, depth - 1) for key, member in value.items()}
    if isinstance(value, list | tuple | frozenset):
        items = [plain(member, depth - 1) for member in value]
        return sorted(items, key=str) if isinstance(value, frozenset) else items
    return value if isinstance(value, str | int | float | None) else type(value).__name__


def _part(make: Callable[[], Any]) -> Any:
    """Return the result of a part. A failure does not hide other parts."""
    try:
        return plain(make(), 12)
    except Exception as error:  # noqa: BLE001
        print(f"{make.__name__}: {error!r}", file=sys.stderr)
        return {"failed": type(error).__name__}


PARTS = (tasks, score, judged, score_rows, read_results, compare, decided, ground, evaluate_run)
print(json.dumps({make.__name__: _part(make) for make in PARTS}, indent=1))
