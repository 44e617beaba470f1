"""Scoring a list of responses with the detector and the encoder that the configuration names."""

from __future__ import annotations

import functools
import logging
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ragtasks.benchmarks import Benchmark, open_benchmark
from ragtasks.clients import (
    Client,
    Endpoint,
    check_reply_cache,
    credentials_for,
    joined_spending,
)
from ragtasks.config import NO_ENCODER, SAMPLE_ENCODER, EvaluationConfig, HarnessModel, Judge
from ragtasks.config.environment import (
    anchor_file,
    card_folder,
    data_folder,
    embedding_cache_bytes,
    embedding_cache_file,
    reply_cache_file,
    run_store,
    secret,
)
from ragtasks.errors import ConfigurationError, JudgeError, MissingExtraError, RagtasksError
from ragtasks.files import canonical_hash
from ragtasks.judges import (
    IDK,
    Finding,
    JudgeIdk,
    Rubric,
    VerdictOutcome,
    Verdicts,
    judge_responses,
    latest_card,
)
from ragtasks.judges.official import IBM
from ragtasks.metrics import (
    BertScorer,
    EmbeddingCache,
    EncoderIdk,
    IdkDetector,
    IdkLabel,
    Metric,
    NgramIdk,
    Scores,
    Semantics,
    check_device,
    check_encoder,
    is_no_answer,
    is_settled,
    resolve_encoder,
    semantic_scores,
)
from ragtasks.progress import progress_bars, step
from ragtasks.records import IdkVerdict, Response, Score
from ragtasks.scoring._anchors import AnchorJudging, anchors_named
from ragtasks.scoring._failures import record_failure, survive
from ragtasks.scoring._retrieval import CorpusSearch
from ragtasks.suites import ScoringInputs, Suite, suite_named

_LOGGER = logging.getLogger(__name__)

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
        """Choose detector and encoder, and check that both can be had.

        Where one metric decides, judges are asked what it rests on, and what rests on anything else is unscored.
        A suite that is named takes the place of the benchmark's.

        An encoder that was asked for and cannot be had is an error. The default one is not: without it the scores
        that rest on it are unscored, which a warning says now and the coverage says in every table.
        """
        self._config = config
        self.benchmark = benchmark
        self.suite = suite_named(suite or benchmark.suite)
        self.encoder = config.encoder or (SAMPLE_ENCODER if benchmark.is_sample else self.suite.encoder)
        self._rubrics = self.suite.rubrics_in(config.prompts, benchmark) if config.judges else []
        self._unscored_metrics: dict[str, Score] = {}
        self.left_out_rubrics: tuple[str, ...] = ()
        if deciding is not None and deciding.rubrics:
            self._ask_for(deciding)
        self._clients = [ready_judge(item, local_judge) for item in config.judges]
        if self._rubrics:
            check_reply_cache(reply_cache_file())
        self._anchors: AnchorJudging | None = None
        if self._rubrics and config.anchors is not None:
            anchors = anchors_named(config.anchors, data_folder())
            self._anchors = AnchorJudging(anchors, self._rubrics, anchor_file())
        self._judges = ", ".join(item.model for item in config.judges)
        self._idk_by_judges = config.idk_by_judges and any(rubric.name == IDK for rubric in self._rubrics)
        self._offline_idk = self._offline_detector()
        self._idk_detector = f"judge {self._judges}" if self._idk_by_judges else self._offline_idk.name
        self._search: CorpusSearch | None = None
        if self.suite.uses_retriever:
            self._search = CorpusSearch(benchmark, config.retriever, run_store(), secret)
        self._n_labels = self._n_by_judges = self._n_stand_ins = 0
        self._n_texts = self._n_repeated = 0
        self._n_truncated = 0
        self._bert: BertScorer | None = None
        self._embeddings: EmbeddingCache | None = None
        self._missing = "encoder: none"
        if self.encoder == NO_ENCODER or not self.suite.uses_encoder:
            return
        check_device(config.encoder_device)
        max_bytes = embedding_cache_bytes()
        self._embeddings = EmbeddingCache(embedding_cache_file(), max_bytes) if max_bytes else None
        try:
            self._bert = _shared_bert(self.encoder, config.encoder_device)
        except RagtasksError as error:
            if config.encoder is not None:
                raise
            self._missing = f"encoder {self.encoder} is not available"
            combined = " and rb_alg" if any(metric.name == "rb_alg" for metric in self.suite.metrics) else ""
            _LOGGER.warning("BERTScore%s will be unscored. %s", combined, error)

    def _ask_for(self, deciding: Metric) -> None:
        """Ask for what one metric rests on; the rubrics that are left out ask nothing, and say so."""
        never = frozenset() if self._config.idk_by_judges else {IDK}
        needed = deciding.rubrics - never
        reason = f"not asked, as {deciding.name} decides"
        left_out = [rubric for rubric in self._rubrics if rubric.name.removesuffix(IBM) not in needed]
        self.left_out_rubrics = tuple(rubric.name for rubric in left_out if not rubric.name.endswith(IBM))
        nothing = Finding(None, None, VerdictOutcome.NOT_ASKED, reason)
        self._rubrics = [
            rubric.only_where(lambda _: False, nothing) if rubric in left_out else rubric for rubric in self._rubrics
        ]
        names = {rubric.name for rubric in left_out} - never
        lost = [metric for metric in self.suite.metrics if metric.rubrics & names]
        self._unscored_metrics = dict.fromkeys(given_metrics(lost, self._config), Score(None, reason))

    def _offline_detector(self) -> IdkDetector:
        """Return the detector of refusals that is used where judges give no verdict."""
        if self._config.idk != "encoder":
            return NgramIdk(self.suite.known_refusals)
        detector = EncoderIdk(self.suite.known_refusals, self._config.encoder_device)
        detector.check()
        return detector

    def prepare(self, domains: Iterable[str]) -> None:
        """Do what scoring responses in some domains will need, so that what is missing shows before a model runs."""
        if self._search is not None:
            self._search.prepare(domains)

    def score(self, responses: Sequence[Response]) -> list[ScoredResponse]:
        """Return scores and notes of each response, in order; what fails on the way is unscored, and a problem."""
        answered = [response for response in responses if not response.no_answer]
        scored = iter(
            survive("scoring", lambda: self._score(answered), lambda reason: [self._unscored(reason) for _ in answered])
        )
        return [self._without_answer(item.no_answer) if item.no_answer else next(scored) for item in responses]

    def _score(self, responses: Sequence[Response]) -> list[ScoredResponse]:
        if not responses:
            return []
        verdicts = self._verdicts(responses)
        if verdicts is not None and self._anchors is not None:
            clients = {item.name if not isinstance(item, Endpoint) else item.model: item for item in self._clients}
            self._anchors.ask(clients, verdicts, self._judge_responses)
        with step(f"refusals among {len(responses)} answers"):
            refusals = refusal_labels(responses, verdicts if self._idk_by_judges else None, self._offline_idk)
        self._n_labels += len(refusals.labels)
        self._n_by_judges += refusals.n_by_judges
        self._n_stand_ins += refusals.n_stand_ins
        labels = refusals.labels
        evidence = self._inputs(responses, labels, verdicts)
        with step(f"metrics of {len(responses)} answers"):
            scores = [self._complete(scored, verdicts) for scored in best_scores(self.suite, evidence)]
        rows = verdict_rows(verdicts, len(responses))
        found = [ScoredResponse(*row) for row in zip(scores, map(notes_of, scores, labels, rows), strict=True)]
        for index, repeats in self._repeated(evidence).items():
            found[index].notes["repeats"] = repeats
        return found

    def _inputs(
        self, responses: Sequence[Response], labels: Sequence[IdkLabel], verdicts: Verdicts | None
    ) -> list[ScoringInputs]:
        """Return what the suite scores, once for each label that a task may have: nearly always one."""
        variants = [item.task.variants for item in responses]
        asked = [
            [
                replace(item, task=tasks[min(place, len(tasks) - 1)])
                for item, tasks in zip(responses, variants, strict=True)
            ]
            for place in range(max(map(len, variants)))
        ]
        semantics = self._semantics([item for row in asked for item in row])
        n = len(responses)
        parts = [semantics.of(range(place * n, place * n + n)) for place in range(len(asked))]
        return [
            ScoringInputs(self.benchmark, row, labels, part, verdicts, self._search)
            for row, part in zip(asked, parts, strict=True)
        ]

    def _repeated(self, evidence: Sequence[ScoringInputs]) -> dict[int, list[dict[str, Any]]]:
        """Return index -> scores and verdicts of each further judging, of the answers that are judged again."""
        config, done, judged = self._config, evidence[0].verdicts, evidence[0].responses
        if config.repeats == 1 or done is None:
            return {}
        indexes = judged_again([item.task.conversation_id for item in judged], config.repeat_share)
        self._n_repeated += len(indexes)
        again: dict[int, list[dict[str, Any]]] = {index: [] for index in indexes}
        responses = [judged[index] for index in indexes]
        for number in range(2, config.repeats + 1):
            judging = f"repeat {number}"
            verdicts = survive(judging, partial(self._judged, responses, judging), lambda _: None)
            if verdicts is None:
                break
            labels = refusal_labels(responses, verdicts if self._idk_by_judges else None, self._offline_idk).labels
            inputs = [
                replace(
                    item,
                    responses=[item.responses[index] for index in indexes],
                    labels=labels,
                    semantics=item.semantics.of(indexes),
                    verdicts=verdicts,
                )
                for item in evidence
            ]
            scored = zip(indexes, best_scores(self.suite, inputs), verdict_rows(verdicts, len(responses)), strict=True)
            for index, scores, rows in scored:
                values = {name: score.value for name, score in scores.items()}
                again[index].append({"values": values, "verdicts": rows})
        return again

    def _unscored(self, reason: str) -> ScoredResponse:
        scores = {name: Score(None, reason) for name in given_metrics(self.suite.metrics, self._config)}
        return ScoredResponse(scores, notes_of(scores, IdkLabel(None, reason), []))

    def _without_answer(self, reason: str) -> ScoredResponse:
        """Return the scores of a request that failed: none but that it is not covered."""
        result = self._unscored(f"no answer: {reason}")
        covered = {name: Score(0.0) for name in result.scores if name == _COVERAGE}
        result.notes["unscored"] = {
            name: note for name, note in result.notes["unscored"].items() if name not in covered
        }
        return ScoredResponse({**result.scores, **covered}, result.notes)

    def _complete(self, scores: Scores, verdicts: Verdicts | None) -> Scores:
        """Return the scores with those that need judges: none without judges, unscored where none could be had.

        Refusals alone would decide some of them, and a mean over those only is no score of the model.
        """
        if verdicts is not None:
            return {**scores, **self._unscored_metrics}
        judged = [metric for metric in self.suite.metrics if metric.needs_judges]
        unjudged = {name: score for name, score in scores.items() if name not in {metric.name for metric in judged}}
        names = given_metrics(judged, self._config)
        return {
            **unjudged,
            **{name: Score(0.0) if name == _JUDGE_COVERAGE else Score(None, _NO_JUDGE) for name in names},
        }

    def _verdicts(self, responses: Sequence[Response]) -> Verdicts | None:
        """Return what the judges said; None where there are no judges, or nothing is asked of them, or none answers."""
        if not self._rubrics:
            return None
        verdicts = survive("judging", lambda: self._judged(responses), lambda _: None)
        if verdicts is None:
            return None
        try:
            verdicts.require_coverage(self._config.min_judge_coverage)
        except JudgeError as error:
            record_failure(str(error))
        return verdicts

    def _judged(self, responses: Sequence[Response], judging: str = "") -> Verdicts:
        """Return what the judges say; where the configuration says so, nothing about what is settled without them."""
        later = self.suite.settled if self._config.skip_settled else ()
        first = [rubric for rubric in self._rubrics if rubric.name not in later]
        verdicts = self._judge_responses(responses, judging=judging, rubrics=first)
        if not later:
            return verdicts
        labels = refusal_labels(responses, verdicts if self._idk_by_judges else None, self._offline_idk).labels
        settled = frozenset(item for item, label in zip(responses, labels, strict=True) if _is_settled(item, label))
        rest = [_unless_settled(rubric, settled) for rubric in self._rubrics if rubric.name in later]
        others = self._judge_responses(responses, judging=judging, rubrics=rest)
        return verdicts.joined(others, [rubric.name for rubric in self._rubrics])

    def _judge_responses(
        self,
        responses: Sequence[Response],
        judges: Sequence[Endpoint | Client] = (),
        judging: str = "",
        rubrics: Sequence[Rubric] | None = None,
    ) -> Verdicts:
        with progress_bars() as progress:
            return judge_responses(
                responses,
                judges or self._clients,
                secrets=secret,
                cache_file=reply_cache_file(),
                rubrics=self._rubrics if rubrics is None else rubrics,
                progress=progress,
                judging=judging,
            )

    def _semantics(self, responses: Sequence[Response]) -> Semantics:
        bert = self._bert
        if bert is None:
            return Semantics(None, self._missing)
        # Whatever an encoder fails of (memory, a device, a token without a vector), the other scores are kept.
        return survive("encoder", lambda: self._encoded_with_bar(bert, responses), lambda why: Semantics(None, why))

    def _encoded_with_bar(self, bert: BertScorer, responses: Sequence[Response]) -> Semantics:
        with step(f"loading the encoder {self.encoder}"):
            bert.loaded()
        with progress_bars() as show:
            bert.progress = lambda done, total: show("BERTScore: texts", done, total)
            try:
                return self._encoded(bert, responses)
            finally:
                bert.progress = None

    def _encoded(self, bert: BertScorer, responses: Sequence[Response]) -> Semantics:
        # Settings of one task share its target and passages: side by side they are encoded once and then let go.
        order = sorted(range(len(responses)), key=lambda index: responses[index].task.task_id)
        chosen = [responses[index] for index in order]
        scores = semantic_scores(
            [response.text for response in chosen],
            [response.task.target for response in chosen],
            [[passage.text for passage in response.passages] for response in chosen],
            bert,
            self._embeddings,
        )
        self._count_texts(bert)
        by_index = dict(zip(order, scores, strict=True))
        return Semantics([by_index[index] for index in range(len(responses))])

    def _count_texts(self, bert: BertScorer) -> None:
        self._n_texts += bert.n_texts
        self._n_truncated += bert.n_truncated
        if bert.n_truncated:
            _LOGGER.warning("%d of %d texts are longer than the encoder reads", bert.n_truncated, bert.n_texts)

    def provenance(self) -> dict[str, Any]:
        """Return what the scores rest on: encoder, detector, judges, and how many texts the encoder cut.

        What judges took for an answer stands beside it; here is what belongs to no single answer.
        """
        no_judge_said = self._n_labels > 0 == self._n_by_judges
        spending = joined_spending(part.spending() for part in (self._anchors, self._search) if part is not None)
        return {
            "encoder": self.encoder if self._bert is not None else NO_ENCODER,
            **({"encoder_engine": self._bert.engine} if self._bert is not None else {}),
            "rescaled": self._bert is not None and self._bert.spec.baseline is not None,
            "idk_detector": self._offline_idk.name if no_judge_said else self._idk_detector,
            **({"idk_by_stand_in": self._n_stand_ins} if self._n_stand_ins else {}),
            "judges": self._judges,
            "judge_prompts": self._config.prompts if self._judges else None,
            "rubrics": {
                rubric.name: f"{rubric.description} ({rubric.fingerprint})"
                for rubric in self._rubrics
                if rubric.name.removesuffix(IBM) not in self.left_out_rubrics
            },
            **(
                {"repeats": {"judgings": self._config.repeats, "answers": self._n_repeated}} if self._n_repeated else {}
            ),
            **self._cards(),
            **(self._anchors.provenance() if self._anchors is not None else {}),
            **({"spending": spending} if spending else {}),
            "n_texts": self._n_texts,
            "n_truncated": self._n_truncated,
            "profiles": ["paper", "ibm"],
            "scored_by": f"ragtasks {version('ragtasks')}",
            **({"retriever": self._search.describe()} if self._search is not None else {}),
        }

    def _cards(self) -> dict[str, Any]:
        """Return the newest card of each judge that has one on this machine."""
        words = {rubric.name: rubric.fingerprint for rubric in self._rubrics}
        found = [latest_card(card_folder(), judge.model, words) for judge in self._config.judges]
        cards = [card.json_values for card in found if card is not None]
        return {"judge_cards": cards} if cards else {}


def best_scores(suite: Suite, inputs: Sequence[ScoringInputs]) -> list[Scores]:
    """Return the scores of each response; of a task with several labels, each score is the best over the labels."""
    scored = suite.score(inputs[0])
    for others in map(suite.score, inputs[1:]):
        scored = [_best(suite.metrics, *pair) for pair in zip(scored, others, strict=True)]
    bounds = {metric.name: metric.bounds for metric in suite.metrics}
    return [{name: _within(score, bounds.get(name)) for name, score in scores.items()} for scores in scored]


_ROUNDING = 1e-6


def _within(score: Score, bounds: tuple[float, float] | None) -> Score:
    """Return a score, without its value where that is no number or beyond what its metric can be: no mean holds it."""
    if score.value is None or bounds is None:
        return score
    low, high = bounds
    if math.isfinite(score.value) and low - _ROUNDING <= score.value <= high + _ROUNDING:
        return score
    return Score(None, f"the metric gave {score.value:g}, outside of its bounds {low:g} to {high:g}")


def _best(metrics: Iterable[Metric], first: Scores, second: Scores) -> Scores:
    """Return the better of two scores by each metric's direction, the first where neither is or one is missing."""
    best = dict(first)
    for metric in metrics:
        one, two = first.get(metric.name), second.get(metric.name)
        if one is None or two is None or two.value is None or metric.higher_is_better is None:
            continue
        if one.value is None or (two.value > one.value if metric.higher_is_better else two.value < one.value):
            best[metric.name] = two
    return best


def given_metrics(metrics: Iterable[Metric], config: EvaluationConfig) -> list[str]:
    """Return the names of the metrics that a configuration can give, in order."""
    judges, official_prompts = bool(config.judges), config.prompts == "official"
    return [metric.name for metric in metrics if metric.is_given(judges=judges, official_prompts=official_prompts)]


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
    """Return the one scorer of all harness tasks that share benchmark, files, configuration and suite."""
    opened = open_benchmark(benchmark, root)
    return ResponseScorer(opened, config, suite, local_judge, deciding)


@functools.lru_cache(maxsize=2)
def _shared_bert(name: str, device: str | None) -> BertScorer:
    """Return the scorer on an installed encoder; its weights are loaded at first use."""
    spec = resolve_encoder(name)
    check_encoder(spec, device)
    return BertScorer(spec, device=device)


# The scores of one response, and what a log notes beside them.


@dataclass(frozen=True, slots=True)
class ScoredResponse:
    """All scores of one response, and what a reader of the logs wants beside them."""

    scores: Scores
    notes: dict[str, Any]
    """IDK verdict with its reason; metric name -> reason for what is unscored."""


def notes_of(scores: Scores, label: IdkLabel, verdicts: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "idk": label.verdict.value if label.verdict else None,
        "idk_reason": label.reason,
        "unscored": {name: score.reason for name, score in scores.items() if score.value is None},
        **({"verdicts": verdicts} if verdicts else {}),
    }


def verdict_rows(verdicts: Verdicts | None, n_responses: int) -> list[list[dict[str, Any]]]:
    """Return every verdict on each response as JSON values: judge, label, reason, raw replies, tokens."""
    if verdicts is None:
        return [[] for _ in range(n_responses)]
    return [
        [
            {
                **asdict(row),
                "outcome": row.outcome.value,
                "replies": list(row.replies),
                "calls": [call.json_values for call in row.calls],
            }
            for rubric in verdicts.rubrics
            for row in (verdicts.verdict(index, rubric, name) for name in verdicts.judges)
        ]
        for index in range(n_responses)
    ]


def judged_again(conversations: Sequence[str], share: float) -> list[int]:
    """Return the places of answers to judge again, in order: whole conversations, until they have the share.

    The conversations come in an order that follows from their names alone, so two systems have the same ones judged
    again, and a larger share adds to a smaller one. Whole ones, because noise that verdicts on one conversation share
    would else look smaller than it is.
    """
    members: dict[str, list[int]] = {}
    for place, name in enumerate(conversations):
        members.setdefault(name, []).append(place)
    chosen: list[int] = []
    for name in sorted(members, key=lambda name: (canonical_hash(["judged again", name]), name)):
        if len(chosen) >= share * len(conversations):
            break
        chosen += members[name]
    return sorted(chosen)


# Refusals are detected by the judges, and by the offline detector where no judge gives a verdict.
# Scores that rest on it would else be unscored wherever a weak judge gave no verdict, because of that judge alone.


def _is_settled(response: Response, label: IdkLabel) -> bool:
    """Return whether no verdict can move the scores of a response; what is no answer at all does not refuse."""
    verdict = IdkVerdict.NO if is_no_answer(response.text) else label.verdict
    return is_settled(response.task.answerability, verdict)


def _unless_settled(rubric: Rubric, settled: frozenset[Response]) -> Rubric:
    """Return a rubric that is not asked about some responses."""
    reason = "not asked, as the response refuses or the task has no answer, which decides the conditioned score"
    finding = Finding(None, None, VerdictOutcome.SETTLED, reason)
    return rubric.only_where(lambda response: response not in settled, finding)


@dataclass(frozen=True, slots=True)
class RefusalLabels:
    """One label a response, and who gave them."""

    labels: Sequence[IdkLabel]
    """In the order of the responses; the reason of an offline label that stands in for a judge's states it."""
    n_by_judges: int = 0
    n_stand_ins: int = 0


def refusal_labels(responses: Sequence[Response], verdicts: Verdicts | None, offline: IdkDetector) -> RefusalLabels:
    """Return who refuses to answer."""
    if verdicts is None:
        return RefusalLabels(offline.detect(responses))
    labels = JudgeIdk(verdicts).detect(responses)
    unsaid = [index for index in range(len(responses)) if verdicts.score(index, IDK).value is None]
    for index, label in zip(unsaid, offline.detect([responses[index] for index in unsaid]), strict=True):
        why = labels[index].reason
        labels[index] = replace(label, reason=f"{offline.name} stands in ({why}): {label.reason}")
    return RefusalLabels(labels, len(labels) - len(unsaid), len(unsaid))


# Judges before anything is asked: what is missing is said before a model answers.

LocalJudge = Callable[[HarnessModel], Client]
"""Loads a judge that is a model of this process: handed in by who may import the harness."""


def ready_judge(judge: Judge, local_judge: LocalJudge | None) -> Endpoint | Client:
    """Return what can be asked: an endpoint as it is, a model of this process as a client."""
    if isinstance(judge, Endpoint):
        for library in ("openai", "aiohttp"):
            if find_spec(library) is None:
                raise MissingExtraError(library, "judge", f"the judge {judge.model}")
        credentials_for(judge, secret)  # a key that is not set is said before the model answers
        return judge
    if local_judge is None:
        raise ConfigurationError(f"judges: {judge.model} is a model of this process, and nothing here loads one")
    return local_judge(judge)
