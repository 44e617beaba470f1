"""Verdicts of the judges of one configuration on a batch of responses, with the anchors that show their drift."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any, cast

from ragtasks.benchmarks import Benchmark
from ragtasks.clients import (
    Client,
    Endpoint,
    OpenAIClient,
    Spending,
    check_reply_cache,
    credentials_for,
    judge_requirements,
)
from ragtasks.config import EvaluationConfig, HarnessModel, Judge
from ragtasks.config.environment import anchor_file, card_folder, data_folder, reply_cache_file, secret
from ragtasks.errors import ConfigurationError, JudgeError
from ragtasks.files import canonical_hash
from ragtasks.judges import IDK, Finding, Rubric, VerdictOutcome, Verdicts, judge_responses, latest_card
from ragtasks.judges.official import IBM
from ragtasks.metrics import IdkLabel, Metric, Scores, is_no_answer, is_settled
from ragtasks.progress import progress_bars
from ragtasks.records import IdkVerdict, Response, Score
from ragtasks.requirements import Requirement, library
from ragtasks.results import LoggedVerdict
from ragtasks.scoring._anchors import AnchorJudging, anchors_named
from ragtasks.scoring._failures import record_failure, survive
from ragtasks.suites import Suite

LocalJudge = Callable[[HarnessModel], Client]
"""Loads a judge that is a model of this process; passed in by the harness."""

Labels = Callable[[Sequence[Response], Verdicts | None], Sequence[IdkLabel]]
"""Responses and verdicts -> IDK label of each response."""


class Judging:
    """The judges of one configuration and their rubrics; counts the answers that are judged repeatedly."""

    def __init__(self, benchmark: Benchmark, suite: Suite, config: EvaluationConfig, deciding: Metric | None) -> None:
        """Choose the rubrics; with a deciding metric, only those that it depends on are sent to judges."""
        self._config = config
        self._rubrics = list(suite.rubrics_in(config.prompts, benchmark)) if config.judges else []
        self._later = suite.settled if config.skip_settled else ()
        self.names = ", ".join(judge.model for judge in config.judges)
        self.idk_names = self.names if config.idk_by_judges and IDK in {rubric.name for rubric in self._rubrics} else ""
        """The judges that decide which responses refuse; empty if they do not decide."""
        self.left_out: tuple[str, ...] = ()
        """Rubrics without requests, since the deciding metric does not depend on them."""
        self.unscored: Scores = {}
        """The metrics that depend on these rubrics, each with the reason."""
        self._clients: list[Client] = []
        self._anchors: AnchorJudging | None = None
        self._n_repeated = 0
        if deciding is not None and deciding.rubrics:
            self._leave_out(suite, deciding)

    def _leave_out(self, suite: Suite, deciding: Metric) -> None:
        never = frozenset() if self._config.idk_by_judges else {IDK}
        needed = deciding.rubrics - never
        reason = f"not sent to judges: {deciding.name} decides"
        left_out = [rubric for rubric in self._rubrics if rubric.name.removesuffix(IBM) not in needed]
        finding = Finding(None, None, VerdictOutcome.NOT_ASKED, reason)
        self._rubrics = [
            rubric.only_where(lambda _: False, finding) if rubric in left_out else rubric for rubric in self._rubrics
        ]
        self.left_out = tuple(rubric.name for rubric in left_out if not rubric.name.endswith(IBM))
        names = {rubric.name for rubric in left_out} - never
        lost = [metric for metric in suite.metrics if metric.rubrics & names]
        self.unscored = dict.fromkeys(given_metrics(lost, self._config), Score(None, reason))

    @staticmethod
    def requirements(config: EvaluationConfig) -> list[Requirement]:
        """Return the requirements of the judges behind servers."""
        return judge_requirements(config.judges, secret)

    def prepare(self, local_judge: LocalJudge | None) -> None:
        """Open the judges, so that a missing library or key is reported before a model answers."""
        self._clients = [_open_client(judge, local_judge) for judge in self._config.judges]
        if self._rubrics:
            check_reply_cache(reply_cache_file())
        if self._rubrics and self._config.anchors is not None:
            anchors = anchors_named(self._config.anchors, data_folder())
            self._anchors = AnchorJudging(anchors, self._rubrics, anchor_file())

    def score(self, responses: Sequence[Response], labels: Labels) -> Verdicts | None:
        """Return the verdicts; None without judges or rubrics, or if no judge replies."""
        if not self._rubrics:
            return None
        verdicts = survive("judging", lambda: self._verdicts(responses, labels), lambda _: None)
        if verdicts is None:
            return None
        try:
            verdicts.require_coverage(self._config.min_judge_coverage, is_scoring=True)
        except JudgeError as error:
            record_failure(str(error))
        if self._anchors is not None:
            self._anchors.ask({client.name: client for client in self._clients}, verdicts, self._judge)
        return verdicts

    def again(self, responses: Sequence[Response], labels: Labels) -> Iterator[tuple[list[int], Verdicts]]:
        """Yield, for each repeat, the indexes of the responses that are judged again, and their verdicts."""
        config = self._config
        if config.repeats == 1:
            return
        indexes = judged_again([response.task.conversation_id for response in responses], config.repeat_share)
        self._n_repeated += len(indexes)
        chosen = [responses[index] for index in indexes]
        for number in range(2, config.repeats + 1):
            judging = f"repeat {number}"
            verdicts = survive(judging, partial(self._verdicts, chosen, labels, judging), lambda _: None)
            if verdicts is None:
                return
            yield indexes, verdicts

    def _verdicts(self, responses: Sequence[Response], labels: Labels, judging: str = "") -> Verdicts:
        """Return the verdicts; with `skip_settled`, without requests that cannot change a score."""
        first = [rubric for rubric in self._rubrics if rubric.name not in self._later]
        verdicts = self._judge(responses, judging=judging, rubrics=first)
        if not self._later:
            return verdicts
        settled = frozenset(
            response
            for response, label in zip(responses, labels(responses, verdicts), strict=True)
            if _is_settled(response, label)
        )
        reason = "not sent to judges: a refusal, or a task without an answer, determines the conditioned score"
        finding = Finding(None, None, VerdictOutcome.SETTLED, reason)
        later_rubrics = [
            rubric.only_where(lambda response: response not in settled, finding)
            for rubric in self._rubrics
            if rubric.name in self._later
        ]
        later_verdicts = self._judge(responses, judging=judging, rubrics=later_rubrics)
        return verdicts.joined(later_verdicts, [rubric.name for rubric in self._rubrics])

    def _judge(
        self,
        responses: Sequence[Response],
        judges: Sequence[Client] = (),
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

    def spending(self) -> Spending:
        """Return the usage of replies about anchors; the usage of a verdict is logged with its response."""
        return self._anchors.spending() if self._anchors is not None else {}

    def provenance(self) -> dict[str, Any]:
        """Return judges, prompts and rubrics, the number of repeatedly judged answers, and the judges' newest cards."""
        config = self._config
        cards = [
            latest_card(card_folder(), judge.model, {rubric.name: rubric.fingerprint})
            for judge in config.judges
            for rubric in self._rubrics
        ]
        card_rows = [card.json_values for card in cards if card is not None]
        endpoint_clients = [client for client in self._clients if isinstance(client, OpenAIClient)]
        learned = {client.name: dict(client.learned) for client in endpoint_clients if client.learned}
        return {
            "judges": self.names,
            "judge_prompts": config.prompts if self.names else None,
            "rubrics": {
                rubric.name: f"{rubric.description} ({rubric.fingerprint})"
                for rubric in self._rubrics
                if rubric.name.removesuffix(IBM) not in self.left_out
            },
            **({"repeats": {"judgings": config.repeats, "answers": self._n_repeated}} if self._n_repeated else {}),
            **({"judge_cards": card_rows} if card_rows else {}),
            **({"server_settings": learned} if learned else {}),
            **(self._anchors.provenance() if self._anchors is not None else {}),
        }


def _is_settled(response: Response, label: IdkLabel) -> bool:
    """Return whether no verdict can change the scores of a response; a text that is no answer is no refusal."""
    verdict = IdkVerdict.NO if is_no_answer(response.text) else label.verdict
    return is_settled(response.task.answerability, verdict)


def _open_client(judge: Judge, local_judge: LocalJudge | None) -> Client:
    if isinstance(judge, Endpoint):
        for name in ("openai", "aiohttp"):
            library(name, "judge", f"the judge {judge.model}").check()
        return OpenAIClient(judge, credentials_for(judge, secret))
    if local_judge is None:
        raise ConfigurationError(f"judges: {judge.model} is a model of this process, which this command cannot load")
    return local_judge(judge)


def given_metrics(metrics: Iterable[Metric], config: EvaluationConfig) -> list[str]:
    """Return the names of the metrics that a configuration can compute, in order."""
    judges, official_prompts = bool(config.judges), config.prompts == "official"
    return [metric.name for metric in metrics if metric.is_given(judges=judges, official_prompts=official_prompts)]


def verdict_rows(verdicts: Verdicts | None, n_responses: int) -> list[list[LoggedVerdict]]:
    """Return every verdict on each response in logged form."""
    if verdicts is None:
        return [[] for _ in range(n_responses)]
    return [
        [
            cast(
                "LoggedVerdict",
                {
                    **asdict(row),
                    "outcome": row.outcome.value,
                    "replies": list(row.replies),
                    "calls": [call.json_values for call in row.calls],
                },
            )
            for rubric in verdicts.rubrics
            for row in (verdicts.verdict(index, rubric, name) for name in verdicts.judges)
        ]
        for index in range(n_responses)
    ]


def judged_again(conversations: Sequence[str], share: float) -> list[int]:
    """Return the indexes of answers to judge again, in order: complete conversations, until the share is reached.

    The order of the conversations depends on their names only. So two systems have the same conversations judged again,
    and a larger share extends a smaller one. Verdicts on one conversation share noise, so a sample of single answers
    would underestimate it.
    """
    members: dict[str, list[int]] = {}
    for index, name in enumerate(conversations):
        members.setdefault(name, []).append(index)
    chosen: list[int] = []
    for name in sorted(members, key=lambda name: (canonical_hash(["judged again", name]), name)):
        if len(chosen) >= share * len(conversations):
            break
        chosen += members[name]
    return sorted(chosen)
