"""Answers of any system scored by judges: nugget assignments and metrics, in the track's files.

The judge is asked the same questions as in a harness task, and its replies are cached: a killed call goes on where it
was. Two metrics files are written. `metrics.jsonl` has no score for an answer that a judge failed on; in
`metrics_official.jsonl` such a nugget counts 0, as the track's own tool has it.
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
"""Asks judges about responses under rubrics."""


@dataclass(frozen=True, slots=True)
class ScoredAnswers:
    """Answers with what judges found; sequences have one item an answer."""

    answers: Sequence[CitedAnswer]
    """Those to topics with nuggets."""
    verdicts: Verdicts
    """Under the rubric of nuggets, and that of citations where the segments' texts were there."""
    scores: Sequence[Mapping[str, Score]]

    def names(self) -> tuple[str, ...]:
        """Return the scores, those over the parts of narratives only where nuggets name such parts."""
        nuggets = (nugget for response in self.verdicts.responses for nugget in nuggets_of(response.task))
        parts = SUB_NARRATIVE_SCORES if any(nugget.sub_narrative for nugget in nuggets) else ()
        return (*NUGGET_SCORES, *SUPPORT_SCORES, *parts)

    def means(self) -> dict[str, tuple[float | None, int]]:
        """Return score -> (mean over the answers that have it, None for none; how many have it)."""
        names = self.names()
        values = {name: [row[name].value for row in self.scores] for name in names}
        present = {name: [value for value in column if value is not None] for name, column in values.items()}
        return {name: (fmean(column) if column else None, len(column)) for name, column in present.items()}


def with_nuggets(task: Task, known: TopicNuggets | None) -> Task:
    """Return a task with other nuggets than its own, its own for None."""
    if known is None:
        return task
    return replace(task, extra={**task.extra, "nuggets": nugget_rows(known.nuggets)})


def score_answers(
    answers: Sequence[CitedAnswer], tasks: Mapping[str, Task], segments: Mapping[str, Passage] | None, judge: Judge
) -> ScoredAnswers:
    """Return the scores of answers to topics with nuggets; answers to other topics are left out."""
    chosen = [answer for answer in answers if nuggets_of(tasks[answer.topic_id])]
    texts = segments or {}
    responses = [
        Response(
            tasks[answer.topic_id],
            tuple(texts.get(item, Passage(item, "")) for item in answer.references),
            answer.text,
        )
        for answer in chosen
    ]
    sentences = {answer.topic_id: answer.sentences for answer in chosen}
    rubrics = [nugget_assignment(shown=lambda response: response.text)]
    if segments is not None:
        rubrics.append(citation_support(sentences=lambda response: sentences[response.task.task_id]))
    verdicts = judge(responses, rubrics)
    scores = [
        {**judged_scores(verdicts, index, answer.sentences), **judged_part_scores(verdicts, index)}
        for index, answer in enumerate(chosen)
    ]
    return ScoredAnswers(chosen, verdicts, scores)


def first_cited(answers: Sequence[CitedAnswer]) -> frozenset[str]:
    """Return the segments that some sentence cites first: those that judges are shown."""
    return frozenset(
        answer.references[sentence.citations[0]]
        for answer in answers
        for sentence in answer.sentences
        if sentence.citations
    )


def write_scores(folder: Path, scored: ScoredAnswers) -> list[Path]:
    """Write assignments (a file a judge), both metrics files and the scores by part of a narrative; return their paths.

    Each is written atomically; there is no file by part where no nugget names one.
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
    """Return the nuggets of an answer's topic and one judge's grades, None for each where it gave no verdict."""
    nuggets = nuggets_of(scored.verdicts.responses[index].task)
    label = scored.verdicts.verdict(index, NUGGET_ASSIGNMENT, judge).label
    return nuggets, [None] * len(nuggets) if label is None else [Grade(item) for item in json.loads(label)]


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
    """Return a row a topic, null where a score has no value, and the means over the others."""
    names = scored.names()
    rows = [
        {"qid": answer.topic_id, **{name: scores[name].value for name in names}}
        for answer, scores in zip(scored.answers, scored.scores, strict=True)
    ]
    return [*rows, {"qid": "all", **{name: mean for name, (mean, _) in scored.means().items()}}]


def _part_rows(scored: ScoredAnswers) -> list[dict[str, Any]]:
    """Return a row a topic and part of its narrative, medians over the judges that graded all its nuggets."""
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
    """Return a row a topic by the track's convention, medians over judges, and their means."""
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
