"""Verdicts of judges on a list of responses, and the scores that follow from them.

A verdict is kept with everything it rests on, also where there is none. The score of a response is the median of the
judges that gave one; the scores of each judge stay beside it, and so does how many of its verdicts a judge gave.
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
"""Name of the rubric whose labels are those of `IdkVerdict`."""
CLARIFICATION = "clarification"
"""Name of the rubric that says whether a response asks what is meant."""
_MAX_REASONS = 3


class VerdictOutcome(str, Enum):
    """What became of a question to a judge."""

    GIVEN = "given"
    NO_STATEMENTS = "no statements"
    """The judge answered, and there is nothing in the response that the rubric could count."""
    NOT_ASKED = "not asked"
    """The rubric has no question for this response."""
    SETTLED = "settled"
    """A refusal, or the kind of task, decides the score: the judge was not asked."""
    UNPARSABLE = "unparsable"
    """The reply holds no verdict in the form asked for."""
    REFUSED = "refused"
    FILTERED = "filtered"
    """A content filter stopped question or reply."""
    TRUNCATED = "truncated"
    """The reply reached the token limit (`finish_reason: length`)."""
    EMPTY = "empty"
    THINKING_ONLY = "thinking only"
    MALFORMED = "malformed"
    """The server sent no chat completion."""
    FAILED = "failed"
    """The reply did not come: the request was refused, or every attempt failed on the way."""
    JUDGE_LOST = "judge lost"
    """The judge could not be had any more (wrong key, unknown model, nobody there)."""


_ANSWERS = frozenset({VerdictOutcome.GIVEN, VerdictOutcome.NO_STATEMENTS})
UNASKED = frozenset({VerdictOutcome.NOT_ASKED, VerdictOutcome.SETTLED})
"""Outcomes for which no judge was asked."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What one judge said of one response under one rubric, or why it said nothing."""

    task_id: str
    rubric: str
    judge: str
    outcome: VerdictOutcome
    label: str | None = None
    """The judge's word, such as `7` or `partial`; None unless the outcome is GIVEN."""
    value: float | None = None
    """The number derived from the label, 0 to 1; None unless the outcome is GIVEN."""
    reason: str = ""
    replies: tuple[str, ...] = ()
    """Every reply as it came, in order: several where a rubric has two steps or a reply was asked for again."""
    prompt_hash: str = ""
    """Hash of the first prompt as it was sent; empty where nothing was sent."""
    attempts: int = 0
    """Prompts sent for the last step; 2 says that the first reply held no verdict."""
    prompt_tokens: int = 0
    """Tokens of all prompts, as far as the server counts them."""
    completion_tokens: int = 0
    """Tokens of all replies, as far as the server counts them."""
    served_model: str = ""
    """The model that the server says gave the last reply, empty where it does not say."""
    calls: tuple[CallUsage, ...] = field(default=(), compare=False)
    """What each reply took, those that could not be used included."""

    @property
    def is_answered(self) -> bool:
        """Whether the judge did its part, value or not."""
        return self.outcome in _ANSWERS


@dataclass(frozen=True, slots=True)
class Coverage:
    """How many of the verdicts asked of one judge under one rubric it gave."""

    judge: str
    rubric: str
    n_asked: int
    """Responses that the rubric has a question for."""
    n_answered: int
    """Of these, how many the judge answered as asked."""
    missing: Mapping[str, int] = field(default_factory=dict)
    """Outcome -> how often, over those it did not answer."""

    @property
    def share(self) -> float:
        """Share answered, 0 to 1; 1 where nothing was asked."""
        return self.n_answered / self.n_asked if self.n_asked else 1.0


class Verdicts:
    """The verdicts on a list of responses by some judges under some rubrics."""

    def __init__(
        self,
        responses: Sequence[Response],
        rubrics: Sequence[str],
        judges: Sequence[str],
        table: Mapping[tuple[int, str, str], Verdict],
        usage: Mapping[str, Usage] | None = None,
    ) -> None:
        """Take what was found."""
        self.responses, self.rubrics, self.judges = tuple(responses), tuple(rubrics), tuple(judges)
        self.usage = dict(usage or {})
        self._table = dict(table)

    def joined(self, other: Verdicts, rubrics: Sequence[str]) -> Verdicts:
        """Return these verdicts with those of the same judges on the same responses under other rubrics."""
        usage = {judge: self.usage.get(judge, Usage()) + other.usage.get(judge, Usage()) for judge in self.judges}
        return Verdicts(self.responses, rubrics, self.judges, {**self._table, **other._table}, usage)

    def verdict(self, index: int, rubric: str, judge: str) -> Verdict:
        """Return one verdict; KeyError where there was no such response, rubric or judge."""
        return self._table[index, rubric, judge]

    def all(self) -> list[Verdict]:
        """Return every verdict: by response, then rubric, then judge."""
        indexes = range(len(self.responses))
        return [self._table[i, rubric, judge] for i in indexes for rubric in self.rubrics for judge in self.judges]

    def judge_scores(self, rubric: str, judge: str) -> list[Score]:
        """Return one judge's score of each response, without a value where it gave no verdict."""
        found = [self._table[index, rubric, judge] for index in range(len(self.responses))]
        return [Score(verdict.value, verdict.reason) for verdict in found]

    def scores(self, rubric: str) -> list[Score]:
        """Return the median score of each response over the judges that gave one (MTRAG paper, section 6.3.2).

        An even number of judges gives the mean of the middle two. Without any, the reasons of all judges.
        """
        return [self.score(index, rubric) for index in range(len(self.responses))]

    def score(self, index: int, rubric: str) -> Score:
        """Return the median score of one response, as `scores`."""
        verdicts = self._of(index, rubric)
        values = [verdict.value for verdict in verdicts if verdict.value is not None]
        return Score(median(values)) if values else Score(None, _reasons(verdicts))

    def is_answered(self, index: int, rubric: str) -> bool:
        """Return whether any judge did its part on one response, or had none to do."""
        return any(row.is_answered or row.outcome in UNASKED for row in self._of(index, rubric))

    def labels(self, rubric: str) -> list[tuple[str | None, str]]:
        """Return (label, what it rests on) of each response: the label in the middle of those that judges gave.

        Where the middle two differ there is none: a label between them may be one that nobody gave.
        """
        return [self._label(index, rubric) for index in range(len(self.responses))]

    def _label(self, index: int, rubric: str) -> tuple[str | None, str]:
        verdicts = self._of(index, rubric)
        given = sorted((verdict.value, verdict.label) for verdict in verdicts if verdict.value is not None)
        if not given:
            return None, _reasons(verdicts)
        labels = ", ".join(f"{verdict.judge}: {verdict.label}" for verdict in verdicts if verdict.value is not None)
        low, high = given[(len(given) - 1) // 2][1], given[len(given) // 2][1]
        return (low, labels) if low == high else (None, f"the judges are split ({labels})")

    def _of(self, index: int, rubric: str) -> list[Verdict]:
        return [self._table[index, rubric, judge] for judge in self.judges]

    def idk_labels(self) -> list[IdkLabel]:
        """Return whether each response says that it does not know, without a label where the judges give none."""
        found = self.labels(IDK)
        return [IdkLabel(None if label is None else IdkVerdict(label), reason) for label, reason in found]

    def clarifications(self) -> list[bool | None]:
        """Return whether each response asks what is meant, None where that was not asked or has no verdict."""
        return [None if label is None else label == "yes" for label, _ in self.labels(CLARIFICATION)]

    def share_answered(self, index: int, rubrics: Sequence[str] | None = None) -> float:
        """Return the share of the verdicts asked on one response that were given; 1 where none was asked."""
        counted = self.rubrics if rubrics is None else rubrics
        rows = [self._table[index, rubric, name] for rubric in counted for name in self.judges]
        requested = [row for row in rows if row.outcome not in UNASKED]
        return sum(row.is_answered for row in requested) / len(requested) if requested else 1.0

    def coverage(self) -> list[Coverage]:
        """Return how much each judge answered, by rubric, then judge."""
        return [self._coverage(rubric, judge) for rubric in self.rubrics for judge in self.judges]

    def _coverage(self, rubric: str, judge: str) -> Coverage:
        found = [self._table[index, rubric, judge] for index in range(len(self.responses))]
        requested = [verdict for verdict in found if verdict.outcome not in UNASKED]
        missing = Counter(verdict.outcome.value for verdict in requested if not verdict.is_answered)
        return Coverage(judge, rubric, len(requested), len(requested) - missing.total(), dict(missing))

    def require_coverage(self, limit: float = 0.95) -> None:
        """Return where every judge answered at least `limit` of what it was asked under every rubric."""
        low = [item for item in self.coverage() if item.share < limit]
        if low:
            raise JudgeError(
                "judges",
                where=", ".join(sorted({item.judge for item in low})),
                expected=f"verdicts on at least {limit:.0%} of the responses",
                found="; ".join(map(self._shortfall, low)),
                next_step=_next_step(low),
            )

    def _shortfall(self, item: Coverage) -> str:
        counts = ", ".join(f"{count} {outcome}" for outcome, count in item.missing.items())
        rows = (self._table[index, item.rubric, item.judge] for index in range(len(self.responses)))
        reasons = list(dict.fromkeys(row.reason for row in rows if row.reason and not row.is_answered))
        listed = "; ".join(reasons[:_MAX_REASONS])
        return f"{item.judge}, {item.rubric}: {item.n_answered} of {item.n_asked} ({counts}: {listed})"


def _next_step(low: Sequence[Coverage]) -> str:
    """Return the next steps for missing verdicts: cached refusals and filtered prompts must be removed first."""
    missing = {VerdictOutcome(outcome) for item in low for outcome in item.missing}
    staying = [outcome.value for outcome in (VerdictOutcome.REFUSED, VerdictOutcome.FILTERED) if outcome in missing]
    is_open = missing != {VerdictOutcome.REFUSED}
    steps = ["ask again: answers so far are saved, and only the rest is requested"] if is_open else []
    steps += [f"`ragtasks data cache --outcome {outcome} --remove` has those asked again too" for outcome in staying]
    if any(item.rubric == IDK for item in low):
        steps.append('"idk": "ngrams" in --metadata leaves refusals to the offline detector, which stood in here')
    steps.append("Saved answers are scored without their model by `ragtasks score RESULTS --output FOLDER`")
    return ". ".join(steps)


def _reasons(verdicts: Sequence[Verdict]) -> str:
    """Return why no judge gave a value, each different reason once."""
    return "; ".join(dict.fromkeys(f"{verdict.judge}: {verdict.reason}" for verdict in verdicts))
