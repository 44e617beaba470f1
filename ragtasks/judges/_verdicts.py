"""Verdicts of judges on a list of responses, and the resulting scores.

Each verdict, given or missing, is stored with its replies and prompt hash. The score of a response is the median over
the judges that gave a value. The scores and the coverage of each judge are stored next to it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from statistics import median

from ragtasks.clients import CallUsage, Usage
from ragtasks.errors import JudgeError
from ragtasks.metrics import IdkLabel
from ragtasks.records import IdkVerdict, Response, Score

IDK = "idk"
"""Name of the rubric with the labels of `IdkVerdict`."""
CLARIFICATION = "clarification"
"""Name of the rubric on whether a response asks a clarifying question."""
_MAX_REASONS = 3


class VerdictOutcome(str, Enum):
    """Outcome of a question to a judge."""

    GIVEN = "given"
    NO_STATEMENTS = "no statements"
    """The judge replied, but the response contains nothing that the rubric can count."""
    NOT_ASKED = "not asked"
    """The rubric has no question for this response."""
    SETTLED = "settled"
    """A refusal, or the type of task, determines the score, so no question is sent."""
    UNPARSABLE = "unparsable"
    """The reply has no verdict in the requested format."""
    REFUSED = "refused"
    FILTERED = "filtered"
    """A content filter stopped the question or the reply."""
    TRUNCATED = "truncated"
    """The reply reached the token limit (`finish_reason: length`)."""
    EMPTY = "empty"
    THINKING_ONLY = "thinking only"
    MALFORMED = "malformed"
    """The server's reply is not a chat completion."""
    FAILED = "failed"
    """No reply: the request was refused, or every attempt failed."""
    JUDGE_LOST = "judge lost"
    """The judge stopped replying (wrong key, unknown model, no server)."""


_ANSWERS = frozenset({VerdictOutcome.GIVEN, VerdictOutcome.NO_STATEMENTS})
UNASKED = frozenset({VerdictOutcome.NOT_ASKED, VerdictOutcome.SETTLED})
"""Outcomes without a question to a judge."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Verdict of one judge on one response under one rubric, or the reason for having none."""

    task_id: str
    rubric: str
    judge: str
    outcome: VerdictOutcome
    label: str | None = None
    """The judge's label, such as `7` or `partial`; None unless the outcome is GIVEN."""
    value: float | None = None
    """The number derived from the label, 0 to 1; None unless the outcome is GIVEN."""
    reason: str = ""
    replies: tuple[str, ...] = ()
    """Every reply unchanged, in order: several for a rubric with two steps, or after another attempt."""
    prompt_hash: str = ""
    """Hash of the first prompt as sent; empty if no prompt was sent."""
    attempts: int = 0
    """Prompts sent for the last step; 2 means that the first reply had no verdict."""
    prompt_tokens: int = 0
    """Tokens of all prompts, as far as the server counts them."""
    completion_tokens: int = 0
    """Tokens of all replies, as far as the server counts them."""
    served_model: str = ""
    """Model that the server names in the last reply, empty if it names none."""
    calls: tuple[CallUsage, ...] = field(default=(), compare=False)
    """Usage of each reply, unusable ones included."""

    @property
    def is_answered(self) -> bool:
        """Whether the judge gave a readable reply, with or without a value."""
        return self.outcome in _ANSWERS


@dataclass(frozen=True, slots=True)
class Coverage:
    """Number of verdicts of one judge under one rubric, requested and given."""

    judge: str
    rubric: str
    n_asked: int
    """Responses for which the rubric has a question."""
    n_answered: int
    """Those with a readable reply."""
    missing: Mapping[str, int] = field(default_factory=dict)
    """Outcome -> number of responses without a readable reply."""

    @property
    def share(self) -> float:
        """Share answered, 0 to 1; 1 without questions."""
        return self.n_answered / self.n_asked if self.n_asked else 1.0


class Verdicts:
    """Verdicts on a list of responses by several judges under several rubrics."""

    def __init__(
        self,
        responses: Sequence[Response],
        rubrics: Sequence[str],
        judges: Sequence[str],
        table: Mapping[tuple[int, str, str], Verdict],
        usage: Mapping[str, Usage] | None = None,
    ) -> None:
        """Store verdicts by (index of the response, rubric, judge), and usage by judge."""
        self.responses, self.rubrics, self.judges = tuple(responses), tuple(rubrics), tuple(judges)
        self.usage = dict(usage or {})
        self._table = dict(table)

    def joined(self, other: Verdicts, rubrics: Sequence[str]) -> Verdicts:
        """Return these verdicts together with those of the same judges on the same responses under other rubrics."""
        usage = {judge: self.usage.get(judge, Usage()) + other.usage.get(judge, Usage()) for judge in self.judges}
        return Verdicts(self.responses, rubrics, self.judges, {**self._table, **other._table}, usage)

    def verdict(self, index: int, rubric: str, judge: str) -> Verdict:
        """Return one verdict; KeyError for an unknown response, rubric or judge."""
        return self._table[index, rubric, judge]

    def all(self) -> list[Verdict]:
        """Return every verdict: by response, then rubric, then judge."""
        indexes = range(len(self.responses))
        return [self._table[i, rubric, judge] for i in indexes for rubric in self.rubrics for judge in self.judges]

    def judge_scores(self, rubric: str, judge: str) -> list[Score]:
        """Return one judge's score of each response; without a verdict, the value is None."""
        verdicts = [self._table[index, rubric, judge] for index in range(len(self.responses))]
        return [Score(verdict.value, verdict.reason) for verdict in verdicts]

    def scores(self, rubric: str) -> list[Score]:
        """Return the median score of each response over the judges that gave one (MTRAG paper, section 6.3.2).

        With an even number of judges, it is the mean of the middle two. Without any, the score has the reasons of all
        judges.
        """
        return [self.score(index, rubric) for index in range(len(self.responses))]

    def score(self, index: int, rubric: str) -> Score:
        """Return the median score of one response, see `scores`."""
        verdicts = self._by_judge(index, rubric)
        values = [verdict.value for verdict in verdicts if verdict.value is not None]
        return Score(median(values)) if values else Score(None, _reasons(verdicts))

    def is_answered(self, index: int, rubric: str) -> bool:
        """Return whether any judge gave a readable reply on one response, or no reply was needed."""
        return any(row.is_answered or row.outcome in UNASKED for row in self._by_judge(index, rubric))

    def labels(self, rubric: str) -> list[tuple[str | None, str]]:
        """Return (label, reason) of each response: the median label, and the labels or reasons of the judges.

        If the middle two labels differ, the label is None: no judge may have given a label between them.
        """
        return [self._label(index, rubric) for index in range(len(self.responses))]

    def _label(self, index: int, rubric: str) -> tuple[str | None, str]:
        verdicts = self._by_judge(index, rubric)
        ranked = sorted((verdict.value, verdict.label) for verdict in verdicts if verdict.value is not None)
        if not ranked:
            return None, _reasons(verdicts)
        labels = ", ".join(f"{verdict.judge}: {verdict.label}" for verdict in verdicts if verdict.value is not None)
        low, high = ranked[(len(ranked) - 1) // 2][1], ranked[len(ranked) // 2][1]
        return (low, labels) if low == high else (None, f"the judges are split ({labels})")

    def _by_judge(self, index: int, rubric: str) -> list[Verdict]:
        return [self._table[index, rubric, judge] for judge in self.judges]

    def idk_labels(self) -> list[IdkLabel]:
        """Return the IDK label of each response; None where the judges give no label."""
        labels = self.labels(IDK)
        return [IdkLabel(None if label is None else IdkVerdict(label), reason) for label, reason in labels]

    def clarifications(self) -> list[bool | None]:
        """Return whether each response asks a clarifying question; None without a question or a verdict."""
        return [None if label is None else label == "yes" for label, _ in self.labels(CLARIFICATION)]

    def share_answered(self, index: int, rubrics: Sequence[str] | None = None) -> float:
        """Return the share of requested verdicts on one response that were given; 1 if none was requested."""
        counted = self.rubrics if rubrics is None else rubrics
        rows = [self._table[index, rubric, name] for rubric in counted for name in self.judges]
        requested = [row for row in rows if row.outcome not in UNASKED]
        return sum(row.is_answered for row in requested) / len(requested) if requested else 1.0

    def coverage(self) -> list[Coverage]:
        """Return the coverage of each judge, by rubric, then judge."""
        return [self._coverage(rubric, judge) for rubric in self.rubrics for judge in self.judges]

    def _coverage(self, rubric: str, judge: str) -> Coverage:
        verdicts = [self._table[index, rubric, judge] for index in range(len(self.responses))]
        requested = [verdict for verdict in verdicts if verdict.outcome not in UNASKED]
        missing = Counter(verdict.outcome.value for verdict in requested if not verdict.is_answered)
        return Coverage(judge, rubric, len(requested), len(requested) - missing.total(), dict(missing))

    def require_coverage(self, limit: float = 0.95, *, is_scoring: bool = False) -> None:
        """Raise JudgeError unless every judge answered at least `limit` of its questions under every rubric.

        With `is_scoring`, the next steps include those for an evaluation's answers.
        """
        low = [coverage for coverage in self.coverage() if coverage.share < limit]
        if low:
            raise JudgeError(
                "judges",
                where=", ".join(sorted({coverage.judge for coverage in low})),
                expected=f"verdicts on at least {limit:.0%} of the responses",
                found="; ".join(map(self._shortfall, low)),
                next_step=_next_step(low, is_scoring=is_scoring),
            )

    def _shortfall(self, coverage: Coverage) -> str:
        counts = ", ".join(f"{count} {outcome}" for outcome, count in coverage.missing.items())
        rows = (self._table[index, coverage.rubric, coverage.judge] for index in range(len(self.responses)))
        reasons = list(dict.fromkeys(row.reason for row in rows if row.reason and not row.is_answered))
        listed = "; ".join(reasons[:_MAX_REASONS])
        return f"{coverage.judge}, {coverage.rubric}: {coverage.n_answered} of {coverage.n_asked} ({counts}: {listed})"


def _next_step(low: Sequence[Coverage], *, is_scoring: bool) -> str:
    """Return the next steps for missing verdicts: cached refusals and filtered prompts must be removed first."""
    missing = {VerdictOutcome(outcome) for coverage in low for outcome in coverage.missing}
    cached = [outcome.value for outcome in (VerdictOutcome.REFUSED, VerdictOutcome.FILTERED) if outcome in missing]
    is_open = missing != {VerdictOutcome.REFUSED}
    steps = (
        ["run the same command again: replies so far are cached, and only the missing ones are requested"]
        if is_open
        else []
    )
    steps += [
        f"`ragtasks data cache --outcome {outcome} --remove` makes the next command request those again too"
        for outcome in cached
    ]
    if VerdictOutcome.TRUNCATED in missing:
        steps.append("truncated replies need a higher max_tokens of the judge, or a judge with a larger context")
    if is_scoring and any(coverage.rubric == IDK for coverage in low):
        steps.append('"idk": "ngrams" in --metadata detects all refusals offline, as was done here')
    if is_scoring:
        steps.append("`ragtasks score RESULTS --output FOLDER` scores saved answers without their model")
    return ". ".join(steps)


def _reasons(verdicts: Sequence[Verdict]) -> str:
    return "; ".join(dict.fromkeys(f"{verdict.judge}: {verdict.reason}" for verdict in verdicts))
