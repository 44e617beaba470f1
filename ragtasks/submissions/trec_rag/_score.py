"""Scores of any system's answers by judges: nugget assignments and metrics, in the track's file formats.

The judge receives the same prompts as in a harness task, and its replies are cached, so a killed command can resume.
Two metrics files are written. `metrics.jsonl` has no score for answers on which a judge failed. In
`metrics_official.jsonl` their nuggets count as 0, as in the track's own tool.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean, median
from typing import Any

from ragtasks.benchmarks.trec_rag import TopicNuggets, nugget_rows
from ragtasks.judges import (
    NUGGET_ASSIGNMENT,
    Rubric,
    Verdicts,
    citation_support,
    nugget_assignment,
    nuggets_of,
)
from ragtasks.metrics import (
    NUGGET_SCORES,
    SUB_NARRATIVE_SCORES,
    SUPPORT_SCORES,
    nugget_scores_official,
    scores_by_part,
)
from ragtasks.records import Grade, Nugget, Passage, Response, Score, Task
from ragtasks.submissions.trec_rag._answer import CitedAnswer, write_rows
from ragtasks.suites.trec_rag import judged_part_scores, judged_scores

Judge = Callable[[Sequence[Response], Sequence[Rubric]], Verdicts]
"""(responses, rubrics) -> verdicts of the judges."""


@dataclass(frozen=True, slots=True)
class ScoredAnswers:
    """Answers with verdicts and scores. Sequences have one item per answer."""

    answers: Sequence[CitedAnswer]
    """The answers to topics with nuggets."""
    verdicts: Verdicts
    """Verdicts on nuggets and, if the texts of segments are available, on citations."""
    scores: Sequence[Mapping[str, Score]]

    def names(self) -> tuple[str, ...]:
        """Return the names of the scores. Those over parts of narratives are included only if nuggets name parts."""
        nuggets = (nugget for response in self.verdicts.responses for nugget in nuggets_of(response.task))
        parts = SUB_NARRATIVE_SCORES if any(nugget.sub_narrative for nugget in nuggets) else ()
        return (*NUGGET_SCORES, *SUPPORT_SCORES, *parts)

    def means(self) -> dict[str, tuple[float | None, int]]:
        """Return score -> (mean over the answers with a value, or None; number of values)."""
        names = self.names()
        values = {name: [row[name].value for row in self.scores] for name in names}
        present = {name: [value for value in column if value is not None] for name, column in values.items()}
        return {name: (fmean(column) if column else None, len(column)) for name, column in present.items()}


def with_nuggets(task: Task, topic_nuggets: TopicNuggets | None) -> Task:
    """Return a task with the given nuggets, or unchanged for None."""
    if topic_nuggets is None:
        return task
    return replace(task, extra={**task.extra, "nuggets": nugget_rows(topic_nuggets.nuggets)})


def score_answers(
    answers: Sequence[CitedAnswer], tasks: Mapping[str, Task], segments: Mapping[str, Passage] | None, judge: Judge
) -> ScoredAnswers:
    """Return the scores of answers to topics with nuggets, without answers to other topics."""
    scored_answers = [answer for answer in answers if nuggets_of(tasks[answer.topic_id])]
    texts = segments or {}
    responses = [
        Response(
            tasks[answer.topic_id],
            tuple(texts.get(segment_id, Passage(segment_id, "")) for segment_id in answer.references),
            answer.text,
        )
        for answer in scored_answers
    ]
    sentences = {answer.topic_id: answer.sentences for answer in scored_answers}
    rubrics = [nugget_assignment(shown=lambda response: response.text)]
    if segments is not None:
        rubrics.append(citation_support(sentences=lambda response: sentences[response.task.task_id]))
    verdicts = judge(responses, rubrics)
    scores = [
        {**judged_scores(verdicts, index, answer.sentences), **judged_part_scores(verdicts, index)}
        for index, answer in enumerate(scored_answers)
    ]
    return ScoredAnswers(scored_answers, verdicts, scores)


def first_cited(answers: Sequence[CitedAnswer]) -> frozenset[str]:
    """Return the ids of the first cited segment of each sentence. Prompts of judges contain only these segments."""
    return frozenset(
        answer.references[sentence.citations[0]]
        for answer in answers
        for sentence in answer.sentences
        if sentence.citations
    )


def write_scores(folder: Path, scored: ScoredAnswers) -> list[Path]:
    """Write assignments, both metrics files and the scores by part of a narrative, and return the paths.

    Assignments have one file per judge. Each file is written atomically. The file by part is omitted if no nugget names
    a part.
    """
    judges = scored.verdicts.judges
    names = ["assignments.jsonl"] if len(judges) == 1 else [f"assignments_{n}.jsonl" for n in range(1, len(judges) + 1)]
    for name, judge in zip(names, judges, strict=True):
        write_rows(folder / name, (_assignment_row(scored, index, judge) for index in range(len(scored.answers))))
    write_rows(folder / "metrics.jsonl", _metrics_rows(scored))
    write_rows(folder / "metrics_official.jsonl", _official_rows(scored))
    names += ["metrics.jsonl", "metrics_official.jsonl"]
    if rows := _part_rows(scored):
        names.append("sub_narratives.jsonl")
        write_rows(folder / names[-1], rows)
    return [folder / name for name in names]


def _grades(scored: ScoredAnswers, index: int, judge: str) -> tuple[Sequence[Nugget], list[Grade | None]]:
    """Return the nuggets of an answer's topic and one judge's grades; all None without a verdict."""
    nuggets = nuggets_of(scored.verdicts.responses[index].task)
    label = scored.verdicts.verdict(index, NUGGET_ASSIGNMENT, judge).label
    return nuggets, [None] * len(nuggets) if label is None else [Grade(grade) for grade in json.loads(label)]


def _assignment_row(scored: ScoredAnswers, index: int, judge: str) -> dict[str, Any]:
    answer = scored.answers[index]
    nuggets, grades = _grades(scored, index, judge)
    return {
        "query": answer.topic,
        "qid": answer.topic_id,
        "answer_text": answer.text,
        "response_length": answer.length,
        "run_id": answer.run_id,
        "judge": judge,
        "nuggets": [
            {
                "text": nugget.text,
                "importance": nugget.importance.value,
                "assignment": grade.value if grade else "failed",
            }
            for nugget, grade in zip(nuggets, grades, strict=True)
        ],
    }


def _metrics_rows(scored: ScoredAnswers) -> list[dict[str, Any]]:
    """Return a row per topic, with null for missing values, and a row with the means of the present values."""
    names = scored.names()
    rows = [
        {"qid": answer.topic_id, **{name: scores[name].value for name in names}}
        for answer, scores in zip(scored.answers, scored.scores, strict=True)
    ]
    return [*rows, {"qid": "all", **{name: mean for name, (mean, _) in scored.means().items()}}]


def _part_rows(scored: ScoredAnswers) -> list[dict[str, Any]]:
    """Return a row per topic and part of its narrative, with medians over the judges that graded all its nuggets."""
    rows: list[dict[str, Any]] = []
    for index, answer in enumerate(scored.answers):
        by_judge = [scores_by_part(*_grades(scored, index, judge)) for judge in scored.verdicts.judges]
        for part, (n_nuggets, _) in by_judge[0].items():
            values = {name: [parts[part][1][name].value for parts in by_judge] for name in NUGGET_SCORES}
            present = {name: [value for value in column if value is not None] for name, column in values.items()}
            scores = {name: median(column) if column else None for name, column in present.items()}
            rows.append({"qid": answer.topic_id, "sub_narrative": part, "n_nuggets": n_nuggets, **scores})
    return rows


def _official_rows(scored: ScoredAnswers) -> list[dict[str, Any]]:
    """Return a row per topic by the track's convention, with medians over judges, and a row with the means."""
    rows: list[dict[str, Any]] = []
    for index, answer in enumerate(scored.answers):
        by_judge = []
        for judge in scored.verdicts.judges:
            nuggets, grades = _grades(scored, index, judge)
            by_judge.append(nugget_scores_official([nugget.importance for nugget in nuggets], grades))
        rows.append(
            {"qid": answer.topic_id, **{name: median(scores[name] for scores in by_judge) for name in by_judge[0]}}
        )
    means = {name: fmean(row[name] for row in rows) for name in NUGGET_SCORES[:4]} if rows else {}
    return [*rows, {"qid": "all", **means}]
