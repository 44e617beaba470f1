"""Requests to judges, counted before any is sent: prompts, their tokens, and simulated replies."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ragtasks.benchmarks import ROWS, Benchmark, rows_benchmark
from ragtasks.config import EvaluationConfig
from ragtasks.judges import Finding, Question, UnparsableReplyError, read_anchors
from ragtasks.metrics import NgramIdk, is_settled, parse_cited
from ragtasks.progress import Progress, no_progress
from ragtasks.records import IdkVerdict, Response
from ragtasks.results import SavedTask
from ragtasks.scoring._judge import Folders, open_named
from ragtasks.scoring._judging import given_metrics
from ragtasks.scoring._tokens import Count, tokens_of_text
from ragtasks.suites import Suite, suite_named

_EXPLANATION = (
    "The answer follows the passages in what it states and leaves out one condition that the reference names. " * 2
)


@dataclass(frozen=True, slots=True)
class SettingPlan:
    """The prompts of one setting of one benchmark."""

    name: str
    tokens: tuple[int, ...]
    """Tokens of each prompt, ascending."""
    reply_tokens: int
    """Maximum tokens of a reply."""
    answer_tokens: int = 0
    """Tokens of all answers, if they are as long as the reference answers."""

    @property
    def context(self) -> int:
        """Context length for the longest prompt with the longest reply."""
        return (self.tokens[-1] if self.tokens else 0) + self.reply_tokens

    def quantile(self, share: float) -> int:
        """Return the token count that this share of the prompts does not exceed; 0 without prompts."""
        return self.tokens[min(len(self.tokens) - 1, int(share * len(self.tokens)))] if self.tokens else 0

    def share_within(self, context: int) -> float:
        """Return the share of prompts, 0 to 1, that fit into a context together with the longest reply."""
        fitting = sum(count + self.reply_tokens <= context for count in self.tokens)
        return fitting / len(self.tokens) if self.tokens else 1.0


@dataclass(frozen=True, slots=True)
class JudgingPlan:
    """Number and size of the requests to each judge."""

    n_calls: int
    """Prompts, including second steps of rubrics."""
    tokens: int
    reply_tokens: int = 0
    """Tokens of all replies in the requested format."""


@dataclass(frozen=True, slots=True)
class JudgedAnswers:
    """Responses with the same rubrics."""

    suite: Suite
    benchmark: Benchmark
    config: EvaluationConfig
    answers: Sequence[tuple[Response, IdkVerdict | None]]
    """Each with its IDK verdict; a refusal has no statements."""


def judging_of(
    tasks: Sequence[SavedTask], count: Count, folders: Folders, progress: Progress = no_progress
) -> JudgingPlan:
    """Return the requests to each judge for saved answers; the offline detector finds refusals."""
    groups = []
    for task in tasks:
        opened = rows_benchmark(()) if task.benchmark == ROWS else open_named(task.benchmark, task.config.data, folders)
        suite = suite_named(task.provenance.get("suite") or opened.suite)
        answered = [response for response in task.responses if not response.no_answer]
        verdicts = [label.verdict for label in NgramIdk(suite.known_refusals).detect(answered)]
        groups.append(JudgedAnswers(suite, opened, task.config, list(zip(answered, verdicts, strict=True))))
    return judging_plan(groups, count, progress)


def judging_plan(groups: Sequence[JudgedAnswers], count: Count, progress: Progress) -> JudgingPlan:
    """Return the requests to each judge."""
    totals = [0.0, 0.0, 0.0]
    n_done, n_answers = 0, sum(len(group.answers) for group in groups)
    for group in groups:
        config, settled = group.config, group.suite.settled if group.config.skip_settled else ()
        rubrics = group.suite.rubrics_in(config.prompts, group.benchmark)
        counts = [0, 0, 0]
        for response, verdict in group.answers:
            n_done += 1
            progress("counting tokens of judge prompts", n_done, n_answers)
            has_settled_scores = is_settled(response.task.answerability, verdict)
            statements = (
                [sentence.text for sentence in parse_cited(response.text, 0)] if verdict is not IdkVerdict.YES else []
            )
            for rubric in rubrics:
                if has_settled_scores and rubric.name in settled:
                    continue
                for question, reply in _questions(rubric.open(response), statements):
                    sizes = 1, count([{"role": "user", "content": question.text}]), tokens_of_text(count, reply)
                    counts = [before + more for before, more in zip(counts, sizes, strict=True)]
        judgings = 1 + (config.repeats - 1) * config.repeat_share
        totals = [total + judgings * n for total, n in zip(totals, counts, strict=True)]
    # Anchors are other answers; each is assumed to need as many requests as a task.
    anchors = groups[0].config.anchors if groups else None
    n_anchors = len(read_anchors(Path(anchors).expanduser()).responses) if isinstance(anchors, str) else anchors or 0
    share = n_anchors / n_answers if n_answers else 0.0
    return JudgingPlan(*(math.ceil((1 + share) * total) for total in totals))


def _questions(first: Question | Finding, statements: Sequence[str]) -> Iterator[tuple[Question, str]]:
    """Yield the questions to a judge with simulated replies, assuming that each sentence is a statement."""
    question = first
    while isinstance(question, Question):
        reply = _reply_to(question, statements)
        yield question, reply
        try:
            question = question.read(reply)
        except UnparsableReplyError:  # an official prompt or one of another package: only one step is known
            return


def _reply_to(question: Question, statements: Sequence[str]) -> str:
    """Return a simulated reply in a question's format; a rating has an explanation before it."""
    fields = (question.schema or {}).get("properties") or {}
    if "id" not in fields:
        is_label = question.form.endswith("LABEL")
        return ("" if is_label else _EXPLANATION) + question.form.replace(": LABEL", ": no").replace(": N", ": 7")
    kinds: Mapping[str, Any] = {
        "array": list(statements) if "statements" in fields else ["What does the answer say about it?"] * 3,
        "object": {str(number): "yes" for number in range(1, max(len(statements), 1) + 1)},
    }
    reply = {name: kinds.get(field.get("type"), "no") for name, field in fields.items()}
    return json.dumps(reply | {"id": fields["id"]["const"]})


def scores_note(tasks: Iterable[SavedTask]) -> dict[str, str]:
    """Return the scores that the answers will have, and the scores missing without judges."""
    suites = {(task.provenance.get("suite"), task.config) for task in tasks}
    metrics = {metric.name: metric for name, _ in suites if name for metric in suite_named(name).metrics}
    computed = {name for _, config in suites for name in given_metrics(metrics.values(), config)}
    left_out = [name for name, metric in metrics.items() if name not in computed and not metric.needs_official_prompts]
    note = {"scores": ", ".join(name for name in metrics if name in computed)}
    return {**note, **({"only with --judge": ", ".join(left_out)} if left_out else {})}
