"""Scoring of a batch of responses: judges, refusals, encoder, search, and the suite's metrics."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from ragtasks.benchmarks import Benchmark, open_benchmark
from ragtasks.clients import joined_spending
from ragtasks.config import EvaluationConfig
from ragtasks.config.environment import run_store, secret
from ragtasks.judges import Verdicts
from ragtasks.metrics import ANS_ACC, IdkLabel, Metric, Scores, with_sides
from ragtasks.progress import step
from ragtasks.records import Response, Score
from ragtasks.results import LoggedJudging, LoggedVerdict, ScoredAnswer
from ragtasks.scoring._corpus_search import CorpusSearch
from ragtasks.scoring._encoding import Encoding
from ragtasks.scoring._failures import survive
from ragtasks.scoring._judging import Judging, LocalJudge, given_metrics, verdict_rows
from ragtasks.scoring._refusals import Refusals
from ragtasks.suites import ScoringInputs, Suite, suite_named

_Scored = tuple[Scores, IdkLabel, list[LoggedVerdict], list[LoggedJudging]]
"""Scores of one response, its IDK label, its verdicts, and its repeated judgings."""

_NO_JUDGE = "no judge could be reached"
_COVERAGE = "coverage"
_JUDGE_COVERAGE = "judge_coverage"


class ResponseScorer:
    """Scores responses to one benchmark under one configuration."""

    def __init__(
        self,
        benchmark: Benchmark,
        config: EvaluationConfig,
        suite: str | None = None,
        local_judge: LocalJudge | None = None,
        deciding: Metric | None = None,
    ) -> None:
        """Open judges, detector, retriever and encoder; a missing requirement is an error.

        Args:
            benchmark: the benchmark of the responses.
            config: the configuration.
            suite: name of a suite that replaces the benchmark's.
            local_judge: loads judges that are models of this process.
            deciding: the deciding metric; judges receive only the rubrics that it depends on.
        """
        self.benchmark = benchmark
        self.suite = suite_named(suite or benchmark.suite)
        self._config = config
        self.judging = Judging(benchmark, self.suite, config, deciding)
        self._refusals = Refusals(self.suite, config, self.judging.idk_names)
        self.encoding = Encoding(self.suite, config, is_sample=benchmark.is_sample)
        self.judging.prepare(local_judge)
        self._refusals.prepare()
        self._search: CorpusSearch | None = None
        if self.suite.uses_retriever:
            self._search = CorpusSearch(benchmark, config.retriever, run_store(), secret)
        self.encoding.prepare()

    def prepare(self, domains: Iterable[str]) -> None:
        """Index the corpora of some domains if the suite searches them, before a model runs."""
        if self._search is not None:
            self._search.prepare(domains)

    def score(self, answers: Sequence[ScoredAnswer]) -> list[ScoredAnswer]:
        """Return the answers with new scores, in order; after a failure, which is recorded, scores are missing."""
        responses = [answer.response for answer in answers if not answer.response.no_answer]
        scored = iter(
            survive("scoring", lambda: self._score(responses), lambda reason: [self._unscored(reason)] * len(responses))
        )
        return [
            self._with_scores(answer, *(self._without_answer(answer) if answer.response.no_answer else next(scored)))
            for answer in answers
        ]

    def _with_scores(
        self,
        answer: ScoredAnswer,
        scores: Scores,
        label: IdkLabel,
        verdicts: Sequence[LoggedVerdict],
        repeats: Sequence[LoggedJudging],
    ) -> ScoredAnswer:
        of_all = {metric.name for metric in self.suite.metrics if metric.aggregate}
        together = tuple(name for name, score in scores.items() if name in of_all and score.value is not None)
        return replace(
            answer,
            scores={name: score.value for name, score in scores.items() if name not in together},
            together=together,
            unscored={name: score.reason for name, score in scores.items() if score.value is None},
            idk=label.verdict.value if label.verdict else None,
            idk_reason=label.reason,
            verdicts=tuple(verdicts),
            repeats=tuple(repeats),
            implausible=None,
            turn_error=None,
        )

    def _score(self, responses: Sequence[Response]) -> list[_Scored]:
        if not responses:
            return []
        verdicts = self.judging.score(responses, self._refusals.labels)
        with step(f"refusals among {len(responses)} answers"):
            labels = self._refusals.score(responses, verdicts)
        inputs = self._inputs(responses, labels, verdicts)
        with step(f"metrics of {len(responses)} answers"):
            scores = [self._with_judged_scores(scored, verdicts) for scored in best_scores(self.suite, inputs)]
        repeats = self._repeat_scores(inputs) if verdicts is not None else {}
        rows = verdict_rows(verdicts, len(responses))
        scored_rows = zip(scores, labels, rows, strict=True)
        return [(*scored, repeats.get(index, [])) for index, scored in enumerate(scored_rows)]

    def _inputs(
        self, responses: Sequence[Response], labels: Sequence[IdkLabel], verdicts: Verdicts | None
    ) -> list[ScoringInputs]:
        """Return the inputs of the suite, one per alternative label of a task: nearly always one."""
        variants = [response.task.variants for response in responses]
        responses_by_variant = [
            [
                replace(response, task=tasks[min(variant, len(tasks) - 1)])
                for response, tasks in zip(responses, variants, strict=True)
            ]
            for variant in range(max(map(len, variants)))
        ]
        semantics = self.encoding.score([response for row in responses_by_variant for response in row])
        n = len(responses)
        parts = [semantics.of(range(variant * n, variant * n + n)) for variant in range(len(responses_by_variant))]
        return [
            ScoringInputs(self.benchmark, row, labels, part, verdicts, self._search)
            for row, part in zip(responses_by_variant, parts, strict=True)
        ]

    def _repeat_scores(self, inputs: Sequence[ScoringInputs]) -> dict[int, list[LoggedJudging]]:
        """Return index -> scores and verdicts of each repeat, for the answers that are judged again."""
        again: dict[int, list[LoggedJudging]] = {}
        for indexes, verdicts in self.judging.again(inputs[0].responses, self._refusals.labels):
            labels = self._refusals.labels(verdicts.responses, verdicts)
            chosen = [
                replace(
                    variant_inputs,
                    responses=[variant_inputs.responses[index] for index in indexes],
                    labels=labels,
                    semantics=variant_inputs.semantics.of(indexes),
                    verdicts=verdicts,
                )
                for variant_inputs in inputs
            ]
            scored = zip(indexes, best_scores(self.suite, chosen), verdict_rows(verdicts, len(indexes)), strict=True)
            for index, scores, rows in scored:
                values = {name: score.value for name, score in scores.items()}
                again.setdefault(index, []).append({"values": values, "verdicts": rows})
        return again

    def _unscored(self, reason: str) -> _Scored:
        scores = {name: Score(None, reason) for name in given_metrics(self.suite.metrics, self._config)}
        return scores, IdkLabel(None, reason), [], []

    def _without_answer(self, answer: ScoredAnswer) -> _Scored:
        """Return the scores of a failed request: a coverage of 0, and no other value."""
        scores, label, _, _ = self._unscored(f"no answer: {answer.response.no_answer}")
        return {name: Score(0.0) if name == _COVERAGE else score for name, score in scores.items()}, label, [], []

    def _with_judged_scores(self, scores: Scores, verdicts: Verdicts | None) -> Scores:
        """Return the scores with those that need judges: left out without judges, unscored if no judge replied.

        Refusals alone determine some of them, but a mean over only those answers is no score of the model.
        """
        if verdicts is not None:
            return {**scores, **self.judging.unscored}
        judged = [metric for metric in self.suite.metrics if metric.needs_judges]
        unjudged = {name: score for name, score in scores.items() if name not in {metric.name for metric in judged}}
        names = given_metrics(judged, self._config)
        return {
            **unjudged,
            **{name: Score(0.0) if name == _JUDGE_COVERAGE else Score(None, _NO_JUDGE) for name in names},
        }

    def provenance(self) -> dict[str, Any]:
        """Return encoder, detector, judges and retriever, with their counts and the usage outside single answers."""
        search = self._search
        spending = joined_spending([self.judging.spending(), *([search.spending()] if search is not None else [])])
        return {
            **self.encoding.provenance(),
            **self._refusals.provenance(),
            **self.judging.provenance(),
            **({"spending": spending} if spending else {}),
            "profiles": ["paper", "ibm"],
            "scored_by": f"ragtasks {version('ragtasks')}",
            **({"retriever": search.describe()} if search is not None else {}),
        }


def best_scores(suite: Suite, inputs: Sequence[ScoringInputs]) -> list[Scores]:
    """Return the scores of each response; for a task with several labels, each score is the best over the labels."""
    scored = suite.score(inputs[0])
    for variant_scores in map(suite.score, inputs[1:]):
        scored = [_best(suite.metrics, *pair) for pair in zip(scored, variant_scores, strict=True)]
    if len(inputs) > 1 and ANS_ACC in suite.metrics:  # a side by the first label, and right if either label accepts it
        rows = zip(scored, inputs[0].responses, strict=True)
        scored = [with_sides(scores, scores[ANS_ACC.name], response.task.answerability) for scores, response in rows]
    bounds = {metric.name: metric.bounds for metric in suite.metrics}
    return [{name: _bounded_score(score, bounds.get(name)) for name, score in scores.items()} for scores in scored]


_ROUNDING = 1e-6


def _bounded_score(score: Score, bounds: tuple[float, float] | None) -> Score:
    """Return a score, without its value if it is not finite or outside the metric's bounds."""
    if score.value is None or bounds is None:
        return score
    low, high = bounds
    if math.isfinite(score.value) and low - _ROUNDING <= score.value <= high + _ROUNDING:
        return score
    return Score(None, f"the metric gave {score.value:g}, outside its bounds {low:g} to {high:g}")


def _best(metrics: Iterable[Metric], first: Scores, second: Scores) -> Scores:
    """Return the better of two scores by each metric's direction, the first if neither is better or one is missing."""
    best = dict(first)
    for metric in metrics:
        first_score, second_score = first.get(metric.name), second.get(metric.name)
        if first_score is None or second_score is None or second_score.value is None or metric.higher_is_better is None:
            continue
        if first_score.value is None or (
            second_score.value > first_score.value
            if metric.higher_is_better
            else second_score.value < first_score.value
        ):
            best[metric.name] = second_score
    return best


@functools.lru_cache(maxsize=8)
def shared_scorer(
    benchmark: str,
    root: Path,
    config: EvaluationConfig,
    suite: str | None = None,
    local_judge: LocalJudge | None = None,
    *,
    deciding: Metric | None = None,
) -> ResponseScorer:
    """Return the shared scorer of all harness tasks with this benchmark, root, configuration and suite."""
    opened = open_benchmark(benchmark, root)
    return ResponseScorer(opened, config, suite, local_judge, deciding)
