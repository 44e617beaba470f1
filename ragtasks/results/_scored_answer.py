"""One answer with its scores: the logged sample of a task, and the record that reports read.

`LoggedSample` is the form of a line of a samples file, and `ScoredAnswer` the record. Files by other people or programs
may contain numeric labels, texts for passages and objects for lists. So each line is validated when it is read, and
later readers can rely on its types.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError, with_config
from typing_extensions import NotRequired, TypedDict

from ragtasks.benchmarks import response_of
from ragtasks.errors import misfits
from ragtasks.files import canonical_hash, parse_json
from ragtasks.judges import UNASKED
from ragtasks.metrics import (
    ANS_ACC,
    ANSWERED,
    BALANCED_ANS_ACC,
    COUNT,
    DECLINED,
    TURN_ERROR_NAMES,
    Metric,
    Pair,
    Sides,
    accuracy_sides,
)
from ragtasks.records import Answerability, CallProblem, Ending, Response, Task


class LoggedCall(TypedDict, total=False):
    """Usage of one reply of a server."""

    input_tokens: int | float | None
    output_tokens: int | float | None
    cached_tokens: int | float | None
    seconds: float | None
    dollars: float | None
    spent: str
    """`before` or `shared` if the reply was not requested for this answer."""
    is_used: bool
    """False for a reply that failed or does not parse."""


LoggedUsage = dict[str, int | float | str | list[LoggedCall]]
"""Amount -> number; `calls` -> usage of each reply of a server; `counted_by` -> `tokenizer`, if no server counted."""


class LoggedStep(TypedDict):
    """A call of a tool."""

    tool: str
    arguments: dict[str, Any]
    round: int
    passages: NotRequired[list[str]]
    scores: NotRequired[list[float]]
    problem: NotRequired[Annotated[CallProblem, Field(strict=False)]]
    is_bounded: NotRequired[bool]
    is_repeat: NotRequired[bool]


class LoggedTrajectory(TypedDict):
    """Searches before an answer."""

    steps: list[LoggedStep]
    ending: Annotated[Ending, Field(strict=False)]
    n_rounds: int
    n_shortened: int
    relevant: NotRequired[list[str]]
    """Ids of the relevant passages."""


class LoggedPassage(TypedDict):
    """A passage in the model's prompt."""

    passage_id: str
    title: str
    text: str


class LoggedMessage(TypedDict):
    """A message of the conversation."""

    role: Literal["user", "assistant"]
    content: str


class LoggedVerdict(TypedDict):
    """The verdict of one judge under one rubric."""

    rubric: str
    judge: str
    value: float | None
    """The number of the verdict, 0 to 1; null without a verdict."""
    outcome: NotRequired[str | None]
    """`given`, or the reason for a missing value."""
    label: NotRequired[str | None]
    """The judge's word, such as `7` or `partial`."""
    reason: NotRequired[str]
    replies: NotRequired[list[str]]
    """Every reply as it came, in order."""
    prompt_hash: NotRequired[str]
    attempts: NotRequired[int]
    """Prompts sent for the last step."""
    served_model: NotRequired[str]
    """The model that the server named."""
    calls: NotRequired[list[LoggedCall]]


class LoggedJudging(TypedDict):
    """Scores and verdicts of a repeated judging."""

    values: dict[str, float | None]
    verdicts: NotRequired[list[LoggedVerdict]]


class LoggedScoring(TypedDict):
    """The basis of the scores: verdicts, labels, and reasons for missing values."""

    idk: NotRequired[str | None]
    """Whether the response refuses: `yes`, `partial` or `no`; null without a verdict."""
    idk_reason: NotRequired[str]
    unscored: NotRequired[dict[str, str]]
    """Metric -> reason for a missing value."""
    implausible: NotRequired[dict[str, str] | None]
    """Check -> the evidence that this is no answer."""
    turn_error: NotRequired[dict[str, str]]
    """Kind and reason of an error in this turn; {} if none was detected."""
    verdicts: NotRequired[list[LoggedVerdict]]
    repeats: NotRequired[list[LoggedJudging]]
    """Further judgings of the same response."""


class LoggedDoc(TypedDict):
    """The task as the model saw it."""

    task_id: str
    conversation_id: str
    turn: int
    """Number of the user turn, from 1."""
    domain: str
    """Short name of the corpus."""
    setting: str
    """`reference`, `reference_rag`, `full_rag` or `agentic`."""
    answerability: Annotated[Answerability, Field(strict=False)]
    question_types: list[str]
    multi_turn: str
    passages: list[LoggedPassage]
    references: list[str]
    """Ids of the reference passages."""
    history: list[LoggedMessage]
    question: str
    target: str
    """The reference answer."""
    benchmark: NotRequired[str | None]
    is_sample: NotRequired[bool | None]
    run: NotRequired[str]
    """Name of the run that the passages are from."""
    extra: NotRequired[str]
    """Fields of this benchmark alone, as JSON."""
    no_answer: NotRequired[str]
    """Reason for a missing answer; such a response is unscored."""
    usage: NotRequired[LoggedUsage]
    trajectory: NotRequired[LoggedTrajectory]
    scoring: NotRequired[LoggedScoring]


# Other keys are kept: a second scoring writes them again.
@with_config(ConfigDict(strict=True, extra="allow", hide_input_in_errors=True, use_attribute_docstrings=True))
class LoggedSample(TypedDict):
    """One answer with its scores. Each name in `metrics` is a further key, whose value is the score."""

    doc: LoggedDoc
    filtered_resps: Annotated[list[str], Field(min_length=1)]
    """The answer, without the text of a thought."""
    metrics: NotRequired[list[str]]


@functools.cache
def logged_sample() -> TypeAdapter[LoggedSample]:
    """Return the validator of a logged sample. It also provides the JSON schema."""
    return TypeAdapter(LoggedSample)


def parsed_sample(line: bytes) -> LoggedSample:
    """Return a line of a samples file.

    Raises:
        ValueError: the line is not JSON. For JSON that is not a sample, the arguments are (expected, found).
    """
    try:
        return logged_sample().validate_json(line)
    except ValidationError:
        pass  # the other parser accepts some lines that this one rejects, such as a lone surrogate or NaN for a text
    try:
        return logged_sample().validate_python(parse_json(line))
    except ValidationError as error:
        raise ValueError(SAMPLE, "; ".join(misfits(error))) from error


SAMPLE = "a sample of a ragtasks task"
_NOT_REQUESTED = {outcome.value for outcome in UNASKED}


@dataclass(frozen=True)
class ScoredAnswer:
    """One answer with its scores. Fields have the names of the logged keys, wherever the sample contains them."""

    response: Response
    setting: str
    """`reference`, `reference_rag`, `full_rag` or `agentic`."""
    scores: Mapping[str, float | None] = field(default_factory=dict)
    """Metric -> score, or None if unscored. {} before the scoring."""
    together: tuple[str, ...] = ()
    """Metrics over all responses, such as corpus BLEU, that include this response."""
    unscored: Mapping[str, str] = field(default_factory=dict)
    """Metric -> reason for a missing value."""
    idk: str | None = None
    """Whether the response refuses: `yes`, `partial` or `no`. None without a verdict."""
    idk_reason: str = ""
    verdicts: tuple[LoggedVerdict, ...] = ()
    """Verdicts of each judge under each rubric, including those that were not requested."""
    repeats: tuple[LoggedJudging, ...] = ()
    """Further judgings of this response."""
    implausible: Mapping[str, str] | None = None
    """Check -> evidence that this is no answer. None if nothing was checked, as for a baseline."""
    turn_error: Mapping[str, str] | None = None
    """Kind and reason of an error in this turn. {} if no error was detected, None if the turn was not examined."""
    usage: Mapping[str, Any] = field(default_factory=dict)
    """Tokens, seconds and cost of the answer. The key `calls` has those of each reply of a server."""
    relevant: frozenset[str] = frozenset()
    """Ids of the relevant passages, for a model that searches."""
    sample: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)
    """The logged sample that the record was read from. {} in reports, which need no prompts."""
    moves: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    """Recalibrated metric -> change of its value for each conversation of the anchors if that conversation is left out.

    Never logged.
    """
    saved_hash: str = ""
    """The `answer_hash` of a record without texts, such as a row of a baseline. Never logged."""

    @cached_property
    def task(self) -> Task:
        return self.response.task

    @cached_property
    def values(self) -> Mapping[str, float | None]:
        """Metric -> value: the scores, the usage of answer and judging, and 1 or 0 for each kind of turn error.

        The two sides of `ans_acc` are derived for scores of earlier versions.
        """
        kind = self.turn_error_kind
        errors = {} if kind is None else {name: float(name == kind) for name in sorted(TURN_ERROR_NAMES)}
        judging = [call for verdict in self.requested for call in verdict.get("calls", ())]
        return {**self._with_sides(self.scores), **_usage_values(self.usage, judging), **errors}

    def _with_sides(self, scores: Mapping[str, float | None]) -> Mapping[str, float | None]:
        if ANS_ACC.name not in scores:
            return scores
        return {**scores, **accuracy_sides(scores[ANS_ACC.name], self.task.answerability)}

    @property
    def turn_error_kind(self) -> str | None:
        """A `TurnErrorKind`. Empty if no error was detected, None if the turn was not examined."""
        return None if self.turn_error is None else self.turn_error.get("kind", "")

    @cached_property
    def references(self) -> frozenset[str]:
        """Ids of the reference passages."""
        return frozenset(passage.passage_id for passage in self.task.references)

    @cached_property
    def n_found(self) -> int:
        """Number of reference passages in the model's prompt."""
        return len(self.references.intersection(passage.passage_id for passage in self.response.passages))

    @cached_property
    def again(self) -> tuple[Mapping[str, float | None], ...]:
        """Metric -> value in each further judging, or None if unscored."""
        return tuple(self._with_sides(judging["values"]) for judging in self.repeats)

    @property
    def requested(self) -> list[LoggedVerdict]:
        return [verdict for verdict in self.verdicts if verdict.get("outcome") not in _NOT_REQUESTED]

    @cached_property
    def verdict_values(self) -> Mapping[tuple[str, str], float | None]:
        """(Rubric, judge) -> number of the verdict, 0 to 1. None for a requested verdict without a number."""
        return {(verdict["rubric"], verdict["judge"]): verdict["value"] for verdict in self.requested}

    @property
    def served(self) -> tuple[tuple[str, str], ...]:
        """(Judge, model that its server named), each once. () if servers name no model."""
        return tuple(
            sorted({(verdict["judge"], name) for verdict in self.requested if (name := verdict.get("served_model"))})
        )

    @property
    def spending(self) -> dict[str, list[Mapping[str, Any]]]:
        """`model` or `judge NAME` -> usage of each reply, over all judgings."""
        spending: dict[str, list[Mapping[str, Any]]] = {MODEL: list(self.usage.get("calls", ()))}
        judgings = [self.verdicts, *(judging.get("verdicts", ()) for judging in self.repeats)]
        for verdict in (verdict for verdicts in judgings for verdict in verdicts):
            spending.setdefault(f"judge {verdict['judge']}", []).extend(verdict.get("calls", ()))
        return {name: calls for name, calls in spending.items() if calls}

    @cached_property
    def answer_hash(self) -> str:
        """Hash of the answer and its passages, which identifies unchanged answers."""
        texts = [passage.text for passage in self.response.passages]
        return self.saved_hash or canonical_hash([self.response.as_given, texts])[:16]

    @property
    def recall_after(self) -> tuple[float, ...]:
        """Share of the relevant passages that the model had received before its first call (0) and after each call.

        () if no passage is relevant, or the model could not search.
        """
        if self.response.trajectory is None or not self.relevant:
            return ()
        received: set[str] = set()
        shares = [0.0]
        for step in self.response.trajectory.steps:
            received |= self.relevant.intersection(step.passages)
            shares.append(len(received) / len(self.relevant))
        return tuple(shares)


def saved_answer(sample: Mapping[str, Any]) -> ScoredAnswer:
    """Return the record of a logged sample, with the sample itself."""
    doc: LoggedDoc = sample["doc"]
    notes = doc.get("scoring", LoggedScoring())
    values = {name: sample[name] for name in sample.get("metrics", ())}
    together = tuple(name for name, value in values.items() if _is_pair(value))
    return ScoredAnswer(
        response=response_of(doc, sample["filtered_resps"][0]),
        setting=doc["setting"],
        scores={name: _number(value) for name, value in values.items() if name not in together},
        together=together,
        unscored=notes.get("unscored", {}),
        idk=notes.get("idk"),
        idk_reason=notes.get("idk_reason", ""),
        verdicts=tuple(notes.get("verdicts", ())),
        repeats=tuple(notes.get("repeats", ())),
        implausible=notes.get("implausible"),
        turn_error=notes.get("turn_error"),
        usage=doc.get("usage", {}),
        relevant=frozenset(doc.get("trajectory", {}).get("relevant", ())),
        sample=sample,
    )


def logged_scoring(answer: ScoredAnswer) -> LoggedScoring:
    """Return the basis of the scores in its logged form."""
    scoring: LoggedScoring = {"idk": answer.idk, "idk_reason": answer.idk_reason, "unscored": dict(answer.unscored)}
    if answer.verdicts:
        scoring["verdicts"] = list(answer.verdicts)
    if answer.repeats:
        scoring["repeats"] = list(answer.repeats)
    if answer.implausible is not None:
        scoring["implausible"] = dict(answer.implausible)
    if answer.turn_error is not None:
        scoring["turn_error"] = dict(answer.turn_error)
    return scoring


def logged_values(answer: ScoredAnswer) -> dict[str, float | Pair | Sides]:
    """Return metric -> logged value: the score, NaN if unscored, or the input of a metric over all responses."""
    scores = {name: math.nan if score is None else score for name, score in answer.scores.items()}
    pair = answer.response.text, tuple(task.target for task in answer.task.variants)
    is_balanced = answer.scores.get(BALANCED_ANS_ACC.name) is not None
    sides = {BALANCED_ANS_ACC.name: (scores[ANSWERED.name], scores[DECLINED.name])} if is_balanced else {}
    return {**scores, **sides, **dict.fromkeys(answer.together, pair)}


def rewritten_sample(answer: ScoredAnswer) -> dict[str, Any]:
    """Return the sample of an answer that was scored again, with its new scores and usage."""
    values, outdated = logged_values(answer), set(answer.sample.get("metrics", ()))
    kept = {key: value for key, value in answer.sample.items() if key not in outdated}
    usage = {"usage": dict(answer.usage)} if answer.usage else {}
    doc = {**answer.sample["doc"], **usage, "scoring": logged_scoring(answer)}
    return {**kept, "doc": doc, "metrics": list(values), **values}


# Usage of an answer and of its judging. A sample contains it in `usage` of its doc: amounts by name, or a server's
# replies in `calls`. Each verdict has its own `calls`. Scores count only the replies that were used.

MODEL = "model"
"""Name for the model under evaluation in the spending of a row."""
_AMOUNTS = ("seconds", "input_tokens", "output_tokens", "cached_tokens", "dollars")
_DESCRIPTIONS = {
    "seconds": "seconds until the answer was complete",
    "first_token_seconds": "seconds until the first word of the answer",
    "retriever_seconds": "seconds of retrieval",
    "tokens": "tokens of the model's prompt and answer",
    "input_tokens": "tokens of the model's prompt",
    "output_tokens": "tokens of the answer, thinking included",
    "cached_tokens": "tokens of the prompt in the cache of the model's server",
    "cost_per_1000": "cost of 1,000 such answers in dollars",
    "judge_seconds": "total seconds of all judges' replies about the answer",
    "judge_tokens": "tokens of all judges' prompts and replies about the answer",
    "judge_cost_per_1000": "cost of judging 1,000 such answers in dollars",
}
USAGE_METRICS = tuple(
    Metric(name, text, higher_is_better=None if "cached" in name else False, bounds=COUNT)
    for name, text in _DESCRIPTIONS.items()
)
"""Usage metrics of any suite. A row has those that were counted."""
USAGE_NAMES = frozenset(_DESCRIPTIONS)


def joined_usage(replies: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the total usage of several replies to one answer. An amount that a reply is missing is left out."""
    names = [name for name in _AMOUNTS if replies and all(name in reply for reply in replies)]
    calls = [call for reply in replies for call in reply.get("calls", ())]
    return {
        **{name: math.fsum(reply[name] for reply in replies) for name in names},
        **({"calls": calls} if calls else {}),
    }


def _usage_values(usage: Mapping[str, Any], judging: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Return metric -> amount, for amounts that every reply has."""
    own = {name: float(usage[name]) for name in (*_DESCRIPTIONS, "dollars") if name in usage}
    answered = _as_scores({**_sums(usage.get("calls", ())), **own})
    judged = _as_scores(_sums(judging))
    return answered | {name: value for key, value in judged.items() if (name := f"judge_{key}") in _DESCRIPTIONS}


def _as_scores(amounts: Mapping[str, float]) -> dict[str, float]:
    scores = {name: value for name, value in amounts.items() if name != "dollars"}
    if "dollars" in amounts:
        scores["cost_per_1000"] = 1000 * amounts["dollars"]
    if "input_tokens" in amounts and "output_tokens" in amounts:
        scores["tokens"] = amounts["input_tokens"] + amounts["output_tokens"]
    return scores


def _sums(calls: Iterable[Mapping[str, Any]]) -> dict[str, float]:
    used = [call for call in calls if call.get("is_used", True)]
    return {
        name: math.fsum(call[name] for call in used)
        for name in _AMOUNTS
        if used and all(call.get(name) is not None for call in used)
    }


def _is_pair(value: Any) -> bool:
    """Return whether a value is the input of a metric over all responses: (response, reference answers)."""
    return isinstance(value, list) and len(value) == 2 and isinstance(value[0], str)


def _number(value: Any) -> float | None:
    """Return a number, or None for NaN: JSON of the harness has NaN for a missing score, and the reader None.

    Of the two sides of a balanced mean, the scored one is returned.
    """
    if isinstance(value, list):
        return next(filter(lambda number: number is not None, map(_number, value)), None)
    if value is None or math.isnan(value):
        return None
    if math.isinf(value):
        raise ValueError("a score that is not finite")
    return float(value)
