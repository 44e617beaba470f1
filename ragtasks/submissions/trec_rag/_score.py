"""Answers of any system scored by judges: nugget assignments and metrics, in the track's files.

The judge is asked the same questions as in a harness task, and its replies are cached: a killed call goes on where it
was. Two metrics files are written. `metrics.jsonl` has no score for an answer that a judge failed on; in
`metrics_official.jsonl` such a nugget counts 0, as the track's own tool has it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean, median
from typing import Any

from ragtasks.benchmarks.trec_rag import NARRATIVES, Assignment, SupportJudgement, TopicNuggets, nugget_rows
from ragtasks.errors import BenchmarkFileError, JudgeError
from ragtasks.judges import (
    NUGGET_ASSIGNMENT,
    NUGGET_CREATION,
    Rubric,
    Verdict,
    Verdicts,
    citation_support,
    nugget_assignment,
    nugget_creation,
    nuggets_of,
)
from ragtasks.metrics import (
    NUGGET_SCORES,
    SUB_NARRATIVE_SCORES,
    SUPPORT_SCORES,
    nugget_scores,
    nugget_scores_official,
    scores_by_part,
    support_scores,
)
from ragtasks.records import Grade, Importance, Nugget, Passage, Qrel, Response, Score, Task
from ragtasks.results import evaluation_files, read_results
from ragtasks.submissions._findings import render_text
from ragtasks.submissions.trec_rag._check import (
    CitedAnswer,
    answer_of,
    check_lines,
    check_lines_2025,
    row_2025,
    write_rows,
)
from ragtasks.suites.trec_rag import judged_part_scores, judged_scores
from ragtasks.tables import Cell, Table, Value

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
    responses = [_response(answer, tasks[answer.topic_id], segments or {}) for answer in chosen]
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


def _response(answer: CitedAnswer, task: Task, segments: Mapping[str, Passage]) -> Response:
    passages = tuple(segments.get(item, Passage(item, "")) for item in answer.references)
    return Response(task, passages, answer.text)


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


# Scores of runs by labels that are there already: nugget assignments and support judgements of people, or of a
# judge.
# No judge, no topics and no texts are needed. A run is scored on the topics that it has labels for; where others
# have more, its means say so, and what they would be with the missing topics at 0 stands below. Nuggets and support
# keep to themselves: NIST's two files cover other topics, and name the same runs differently.

_ALL = "all"


@dataclass(frozen=True, slots=True)
class LabelledRuns:
    """What labels of one kind say of runs."""

    names: tuple[str, ...]
    """The scores; runs are ranked by the first."""
    values: Mapping[str, Mapping[str, Mapping[str, float | None]]]
    """Run -> topic -> score -> value, None for no value."""
    note: str = ""

    @property
    def n_topics(self) -> int:
        """Topics that some run has labels for."""
        return len({topic for rows in self.values.values() for topic in rows})

    def mean(self, run_id: str, name: str, *, missing: float | None = None) -> Value:
        """Return the mean of a score over a run's topics, and how many of all topics it covers."""
        rows, n_topics = self.values[run_id], self.n_topics
        present = [value for scores in rows.values() if (value := scores[name]) is not None]
        present += [missing] * (n_topics - len(rows)) if missing is not None else []
        return Value(fmean(present) if present else None, len(present), n_topics)

    def rows(self) -> list[dict[str, Any]]:
        """Return a row a run and topic, in the order of the file, and one (`all`) with the means of each run."""
        return [
            {"run_id": run_id, "qid": topic_id, **scores}
            for run_id, by_metric in self.values.items()
            for topic_id, scores in [
                *by_metric.items(),
                (_ALL, {name: self.mean(run_id, name).value for name in self.names}),
            ]
        ]


def assigned_runs(assignments: Sequence[Assignment]) -> LabelledRuns:
    """Return the six nugget scores of every run."""
    values: dict[str, dict[str, dict[str, float | None]]] = {}
    for one in assignments:
        scores = nugget_scores([nugget.importance for nugget in one.nuggets.nuggets], one.grades)
        row = {name: score.value for name, score in scores.items()}
        values.setdefault(one.run_id, {})[one.nuggets.topic_id] = row
    return LabelledRuns(NUGGET_SCORES, values)


def assigned_runs_official(assignments: Sequence[Assignment]) -> LabelledRuns:
    """Return the four scores of the track's own tool: a nugget without a grade and a score over no nuggets count 0."""
    values: dict[str, dict[str, dict[str, float | None]]] = {}
    for one in assignments:
        scores = nugget_scores_official([nugget.importance for nugget in one.nuggets.nuggets], one.grades)
        values.setdefault(one.run_id, {})[one.nuggets.topic_id] = {**scores}
    return LabelledRuns(NUGGET_SCORES[:4], values)


def supported_runs(judgements: Sequence[SupportJudgement]) -> LabelledRuns:
    """Return both scores of support of every run."""
    values: dict[str, dict[str, dict[str, float | None]]] = {}
    for one in judgements:
        scores = support_scores(one.cites, one.levels)
        values.setdefault(one.run_id, {})[one.topic_id] = {name: score.value for name, score in scores.items()}
    return LabelledRuns(SUPPORT_SCORES, values, _not_judged(judgements))


def _not_judged(judgements: Sequence[SupportJudgement]) -> str:
    """Return how many citations nobody judged, and of these the first ones of sentences; "" for none."""
    n = sum(one.n_not_judged for one in judgements)
    first = sum(
        cited and level is None for one in judgements for cited, level in zip(one.cites, one.levels, strict=True)
    )
    return (
        f"Citations not judged: {n}. Of these {first} come first in a sentence, which is in neither score." if n else ""
    )


def labelled_tables(what: str, runs: LabelledRuns) -> list[Table]:
    """Return the table of all runs, whole ones first and best first, and one of those that lack topics."""
    lacking = {run_id for run_id, rows in runs.values.items() if len(rows) < runs.n_topics}
    ordered = sorted(
        runs.values, key=lambda run_id: (run_id in lacking, -(runs.mean(run_id, runs.names[0]).value or 0))
    )

    def row(run_id: str, missing: float | None) -> tuple[Cell, ...]:
        n_labelled: Cell = f"{len(runs.values[run_id])} of {runs.n_topics}"
        return (run_id, n_labelled, *(runs.mean(run_id, name, missing=missing) for name in runs.names))

    columns = ("run", "topics", *runs.names)
    tables = [Table(what, columns, tuple(row(run_id, None) for run_id in ordered), runs.note)]
    if lacking:
        note = "These runs have no labels for some topics. Above they stand last, whatever their scores."
        chosen = tuple(row(run_id, 0.0) for run_id in ordered if run_id in lacking)
        tables.append(Table(f"{what}, with the missing topics at 0", columns, chosen, note))
    return tables


def write_labelled(folder: Path, runs: Mapping[str, LabelledRuns]) -> list[Path]:
    """Write name -> runs as JSON lines, each atomically, and return the paths."""
    for name, one in runs.items():
        write_rows(folder / name, one.rows())
    return [folder / name for name in runs]


# Nuggets for topics that have none, made by one judge from the segments that were found for them.
# Segments that people judged below 2 are left out, those that nobody judged stay (as castorini/nuggetizer at
# d00dc3e has it). Nothing is written unless every topic was answered: a list that lacks topics would pass for a
# whole one.

MIN_GRADE = 2
"""Least grade of a judged segment that nuggets are made from."""

_MAX_LISTED = 5


def pool(tasks: Sequence[Task], passages: Mapping[str, Sequence[Passage]], qrels: Iterable[Qrel]) -> list[Response]:
    """Return what nuggets are made from: each topic with its segments, in rank order, without an answer."""
    poor = {(qrel.query_id, qrel.passage_id) for qrel in qrels if qrel.relevance < MIN_GRADE}
    return [
        Response(
            task,
            tuple(item for item in passages.get(task.task_id, ()) if (task.task_id, item.passage_id) not in poor),
            "",
        )
        for task in tasks
    ]


def create_nuggets(pooled: Sequence[Response], judge: Judge) -> tuple[list[TopicNuggets], list[str]]:
    """Return (nuggets by topic, ids of the topics that no segment answers)."""
    verdicts = judge(pooled, [nugget_creation()])
    (name,) = verdicts.judges
    rows = [verdicts.verdict(index, NUGGET_CREATION, name) for index in range(len(pooled))]
    lost = [row for row in rows if not row.is_answered]
    if lost:
        raise _lost(lost, len(rows))
    found = [
        _topic_nuggets(response.task, row.label)
        for response, row in zip(pooled, rows, strict=True)
        if row.label is not None
    ]
    return found, [row.task_id for row in rows if row.label is None]


def _lost(lost: Sequence[Verdict], n_topics: int) -> JudgeError:
    return JudgeError(
        "nuggets",
        where=lost[0].judge,
        expected=f"nuggets for all {n_topics} topics",
        found=f"none for {len(lost)}: " + "; ".join(f"{row.task_id}: {row.reason}" for row in lost[:_MAX_LISTED]),
        next_step="run the same again: answers so far are saved. Nothing was written",
    )


def _topic_nuggets(task: Task, label: str) -> TopicNuggets:
    nuggets = tuple(Nugget(item["text"], Importance(item["importance"])) for item in json.loads(label))
    return TopicNuggets(task.task_id, task.question, nuggets)


def write_nuggets(path: Path, topics: Iterable[TopicNuggets]) -> None:
    """Write nuggets in the track's format, atomically."""
    write_rows(
        path,
        (
            {
                "query": topic.query,
                "qid": topic.topic_id,
                "nuggets": [{"text": item.text, "importance": item.importance.value} for item in topic.nuggets],
            }
            for topic in topics
        ),
    )


# From what the harness logged to an answer file that the track takes.


def benchmark_of(domain: str) -> str:
    """Return the benchmark that a set of topics belongs to."""
    return "trec_rag25" if domain == NARRATIVES else "trec_rag24"


def logged_responses(path: Path, domain: str) -> list[Response]:
    """Return the logged answers to one set of topics, of the one evaluation at a path."""
    benchmark = benchmark_of(domain)
    results, _ = evaluation_files(path)
    saved = [read_results(file, Path(), {}) for file in results]
    found = [
        [response for task in one.tasks if task.benchmark == benchmark for response in task.responses] for one in saved
    ]
    chosen = [[response for response in responses if response.task.domain == domain] for responses in found]
    chosen = [responses for responses in chosen if responses]
    if len(chosen) == 1:
        return chosen[0]
    raise BenchmarkFileError(
        "logged answers",
        where=str(path),
        expected=f"one evaluation of {benchmark} with answers to the set {domain}",
        found=f"{len(chosen)} of them",
        next_step=f"name the results file of one; evaluate with --tasks {benchmark} --log_samples --output_path DIR",
    )


def build_answers(
    responses: Sequence[Response],
    topics: Mapping[str, str],
    run_id: str,
    output: Path,
    *,
    cut: bool = False,
    team_id: str = "",
) -> list[str]:
    """Write an answer file that has no errors, and return what its reader should know, line by line."""
    answers = [answer_of(response, run_id, cut=cut) for response in responses]
    rows = [row_2025(answer, team_id) if team_id else answer.row() for answer in answers]
    check = check_lines_2025 if team_id else check_lines
    checked = check([json.dumps(row).encode() for row in rows], topics)
    if problems := checked.problems():
        raise BenchmarkFileError(
            "answer file",
            where=str(output),
            expected="a file that the track takes",
            found="\n    ".join(map(str, problems[:20])),
            next_step="fix what the lines name and build it again; nothing was written",
        )
    n_left_out = sum(len(sentence.invalid) for answer in answers for sentence in answer.sentences)
    write_rows(output, rows)
    notes = [f"{n_left_out} citations name no passage and were left out"] if n_left_out else []
    return [*render_text(checked.report(output.name)), *notes, f"wrote {output}"]
