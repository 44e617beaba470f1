"""The configuration of one evaluation, resolved once and passed down as an argument.

It comes from the harness's `--metadata`, or from the same keys of the `ragtasks` commands. The harness merges
`--model_args` into the metadata, so foreign keys are ignored unless a key looks like a misspelt one of ragtasks.
"""

from __future__ import annotations

import difflib
import json
import re
import reprlib
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    field_serializer,
    field_validator,
    model_validator,
)

from ragtasks.clients import Amounts, Endpoint, endpoint_of, is_preset
from ragtasks.errors import ConfigurationError, RagtasksError, close_matches, is_secret_name, misfit, misfits
from ragtasks.files import CLOSED_BOOK, checked_run_name, parse_json

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

ONE_OR_SEVERAL = BeforeValidator(
    lambda value: (value,) if isinstance(value, str) else value, json_schema_input_type=str | tuple[str, ...]
)
"""Accepts a single text for a tuple of texts."""

# A judge in a configuration is a model behind a server, or a model that the harness loads.

JUDGES_EXAMPLE = '["openai/gpt-4o-mini"]'


class HarnessModel(BaseModel):
    """A judge that the harness loads in this process."""

    # Without this setting, pydantic warns about the field `model_args`, which has the harness's name.
    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True, protected_namespaces=())

    lm_eval: str = Field(min_length=1, description="lm_eval's model type, such as `hf` or `vllm`")
    model_args: str = Field(
        default="{}", description="model arguments, as for `--model_args`; stored as canonical JSON"
    )
    structured: bool = Field(False, description="constrain replies to the JSON schema of the verdict; for `vllm` only")

    @field_validator("model_args", mode="before", json_schema_input_type=dict[str, Any])
    @classmethod
    def _canonical(cls, value: Any) -> str:
        if not isinstance(value, Mapping):
            raise ValueError('must be an object, such as {"pretrained": "Qwen/Qwen2.5-7B-Instruct"}')
        secrets = sorted(str(key) for key in value if is_secret_name(key))
        if secrets:
            raise ValueError(f"must not contain {', '.join(secrets)}: keys come from the environment")
        try:
            return json.dumps(value, sort_keys=True, ensure_ascii=False, allow_nan=False)
        except TypeError as error:
            raise ValueError("must contain plain JSON values") from error

    @model_validator(mode="after")
    def _is_supported(self) -> HarnessModel:
        if self.structured and not self.lm_eval.startswith("vllm"):
            raise ValueError(f"structured: `{self.lm_eval}` cannot constrain replies, only `vllm`")
        return self

    @field_serializer("model_args")
    def _as_object(self, value: str) -> Any:
        return json.loads(value)

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments, in the harness's form."""
        arguments: dict[str, Any] = json.loads(self.model_args)
        return arguments

    @property
    def model(self) -> str:
        """Name for tables: model type and weights."""
        return f"{self.lm_eval}/{self.arguments.get('pretrained') or self.arguments.get('model') or 'model'}"


Judge = Endpoint | HarnessModel
"""A judge in a configuration."""
NAMED_JUDGES = str | Judge | tuple[str | Judge, ...]
"""One or several judges in a file."""


def judge_of(named: Any) -> Judge:
    """Return a judge as a record.

    Raises:
        ConfigurationError: if the name or the object is invalid.
    """
    if isinstance(named, (Endpoint, HarnessModel)):
        return named
    if not isinstance(named, (str, Mapping)):
        raise ConfigurationError(f"judges: must be names or objects, such as {JUDGES_EXAMPLE}")
    if not isinstance(named, Mapping) or "lm_eval" not in named:
        return endpoint_of(named, "judges")
    problems: list[str] = []
    try:
        return HarnessModel.model_validate(dict(named))
    except ValidationError as error:
        problems = misfits(error)
    # Raised outside the handler and without the values, because a chained error would print a possible key.
    raise ConfigurationError("judges: " + "; ".join(problems))


_PROMPTS = re.compile(r",\s*prompts=(\w+)")


def _without_prompts(named: Any) -> tuple[Any, Any]:
    """Return a judge without its `prompts`, and the value of `prompts` or None."""
    if isinstance(named, str) and (match := _PROMPTS.search(named)):
        return named.replace(match[0], ""), match[1]
    if isinstance(named, Mapping) and "prompts" in named:
        return {key: value for key, value in named.items() if key != "prompts"}, named["prompts"]
    return named, None


def _listed(judges: Any) -> Sequence[Any]:
    return judges if isinstance(judges, (list, tuple)) else [judges]


def select_prompts(judges: Any) -> bool:
    """Return whether one of the judges of an evaluation selects their prompts, by `prompts` or as a preset."""
    return any(is_preset(judge) or _without_prompts(judge)[1] is not None for judge in _listed(judges))


# A failed turn: a score beyond a threshold, or a turn error.

_THRESHOLD = re.compile(r"\s*([^\s<>]+)\s*([<>])\s*([-+.\de]+)\s*")
_EXPECTED = "expected metric with below or above, or errors, such as rb_alg<0.3 or missed,invented"
ANY_ERROR = "turn_errors"
"""Text for the default definition of a failed turn."""


def _failed_turn_fields(given: Any) -> Any:
    """Return the fields in a text: `rb_alg<0.3`, `seconds>10`, `missed,invented` or `turn_errors`."""
    if not isinstance(given, str):
        return given
    if match := _THRESHOLD.fullmatch(given):
        return {"metric": match[1], "below" if match[2] == "<" else "above": match[3]}
    if "<" in given or ">" in given:
        raise ValueError(_EXPECTED)
    names = [name.strip() for name in given.split(",")]
    return {"errors": [] if names == [ANY_ERROR] else names}


class FailedTurn(BaseModel):
    """The definition of a failed turn. Without a metric, a turn fails by its turn error."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    metric: str | None = Field(default=None, min_length=1, description="metric of the threshold")
    below: float | None = Field(default=None, allow_inf_nan=False, description="smallest score that is no failure")
    above: float | None = Field(default=None, allow_inf_nan=False, description="largest score that is no failure")
    errors: Annotated[tuple[Annotated[str, Field(pattern=r"^\w+$")], ...], ONE_OR_SEVERAL] = Field(
        default=(), description="turn errors that are failures; default: all"
    )

    @model_validator(mode="after")
    def _is_one_definition(self) -> FailedTurn:
        n_limits = (self.below is not None) + (self.above is not None)
        if n_limits != (self.metric is not None) or (self.metric and self.errors):
            raise ValueError(_EXPECTED)
        return self

    def __str__(self) -> str:
        """Return the definition in words."""
        if self.metric is not None:
            side, limit = ("below", self.below) if self.above is None else ("above", self.above)
            return f"{self.metric} {side} {limit:g}"
        return f"the turn error {' or '.join(self.errors)}" if self.errors else "any turn error"


# The keys of a configuration and their sources.

DEFAULT_ENCODER = "microsoft/deberta-xlarge-mnli"
"""Default BERTScore encoder: the encoder of the MTRAG paper."""
SAMPLE_ENCODER = "minilm"
"""Default BERTScore encoder for samples, which a package contains."""
FEWEST_ANCHORS = 20
"""Minimum number of anchors; fewer barely detect drift."""
OFFICIAL_PROMPT = "official"
"""Value of `system_prompt` that selects the official wording."""
NO_ENCODER = "none"
"""Value of `encoder` that leaves the semantic metrics unscored."""

_NEAR_MISS = 0.84  # minimum similarity of a foreign key that is taken for a typo
_HARNESS_KEYS = frozenset({"version", "config", "config_source", "think_end_token", "prompt"})
# Other name of a key, as in results or by mistake -> key.
_OTHER_NAMES = {
    "generation_prompts": "system_prompt",
    "idk_detector": "idk",
    "judge_prompts": "prompts",
    "retrieval_run": "run",
}


class EvaluationConfig(BaseModel):
    """Settings of an evaluation apart from the model. Results contain every field."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    data: str | None = Field(
        default=None,
        min_length=1,
        description="`sample`, or a folder; default: the fetched files",
    )
    run: str = Field(
        default="official",
        description="stored retrieval run with the passages, or `closed_book` for no passages",
    )
    encoder: str | None = Field(
        default=None, min_length=1, description="encoder of BERTScore: a name, a path, or `none`"
    )
    encoder_device: str | None = Field(
        default=None,
        min_length=1,
        description="torch device of the encoder; default: the GPU if available, else `minilm` runs without torch",
    )
    retriever: str = Field(
        default="bm25",
        min_length=1,
        description="retriever for rewritten questions, live conversations and searching models (docs/retrieval.md)",
    )
    queries: str = Field(
        default="last_turn",
        min_length=1,
        description="query form of live full RAG: last_turn, last_3_turns, llm_rewrite",
    )
    rewriter: Endpoint | None = Field(
        default=None, description="model that rewrites questions of live full RAG if `queries` is `llm_rewrite`"
    )
    search_calls: int = Field(
        default=8, ge=1, le=50, description="maximum number of tool calls, search and read, in an agentic task"
    )
    search_k: int = Field(
        default=5, ge=1, le=20, description="passages per search of an agentic task, if the call gives no number"
    )
    search_protocol: Literal["text", "tool_calls"] = Field(
        default="text",
        description="form of tool calls in agentic tasks: tags in the text, or OpenAI's tool calls",
    )
    keep_searches: bool = Field(
        default=False,
        description="keep the searches and results of earlier turns in the prompts of live agentic tasks",
    )
    injected: float = Field(
        default=0.0,
        ge=0,
        le=1,
        description="share of prompts, and of searches, with an added passage that contains an instruction "
        "(docs/agentic.md)",
    )
    conversational: bool = Field(default=False, description="score conversational tasks too (the paper excludes them)")
    system_prompt: str | None = Field(
        default=None,
        min_length=1,
        description="path of a Jinja template for the system message, or `official`: the prompt of the benchmark's "
        "repository (docs/background/official.md)",
    )
    plain_prompt: str | None = Field(
        default=None, min_length=1, description="path of a Jinja template for models without a chat template"
    )
    system_role: Literal["system", "user"] = Field(
        default="system",
        description="role of the message with the passages: `user` for servers that drop system messages",
    )
    too_long: Literal["refuse", "drop_passages"] = Field(
        default="refuse", description="handling of prompts longer than the model's context"
    )
    context_tokens: int | None = Field(
        default=None,
        ge=1,
        description="context length of the model in tokens; default: as reported by the model or its server",
    )
    max_words: int | None = Field(
        default=None, ge=1, description="answer length that the prompt requests, in words; default: that of the task"
    )
    end_of_thinking: str = Field(default="</think>", min_length=1, description="text after which the answer begins")
    judges: tuple[Judge, ...] = Field(
        default=(),
        description="LLM judges: `openai/NAME`, or an object with model, base_url",
    )
    idk: Literal["ngrams", "encoder", "judges"] | None = Field(
        default=None,
        description='detector of refusals ("I do not know"); default: the judges, or ngrams without judges '
        "(docs/metrics.md)",
    )
    prompts: Literal["ours", "official"] = Field(
        default="ours",
        description="judge prompts: shipped, or those of the official checkout in the data folder; also in a judge's "
        "name: `openai/NAME,prompts=official`",
    )
    skip_settled: bool = Field(
        default=False,
        description="skip rb_llm and rl_f judgements if a refusal, or the task's answerability, decides the score; the "
        "`_raw` scores of these answers are then missing",
    )
    metrics: Annotated[tuple[str, ...], ONE_OR_SEVERAL] = Field(
        default=(), description="further metrics, built-in or of other packages (docs/extending.md)"
    )
    price: Amounts | None = Field(
        default=None,
        description="dollars per million tokens of prompts, of answers, and optionally of cached prompt tokens; adds "
        "the cost of answers as a score",
    )
    min_judge_coverage: float = Field(
        default=0.95, ge=0, le=1, description="minimum share of verdicts; an evaluation with fewer fails"
    )

    repeats: int = Field(
        default=1,
        ge=1,
        le=20,
        description="judgements of some answers by the same judges; above 1, a report shows how far scores vary",
    )
    repeat_share: float = Field(
        default=0.25,
        gt=0,
        le=1,
        description="share of the answers that `repeats` judges again, in complete conversations",
    )
    anchors: int | str | None = Field(
        default=None,
        description="answers that judges rate again in each evaluation, to detect a changed judge: the number of "
        "built-in anchors, such as 40, or a file of `ragtasks judges anchors`; default: none",
    )
    max_implausible: float = Field(
        default=0.2,
        ge=0,
        le=1,
        description="estimated share of implausible answers above which a command exits with status 3",
    )
    failed_turn: Annotated[
        FailedTurn | None, BeforeValidator(_failed_turn_fields, json_schema_input_type=str | FailedTurn | None)
    ] = Field(
        default=None,
        description="definition of a failed turn in tables of conversations: `rb_alg<0.3`, or turn errors such as "
        "`missed,invented`; default: any turn error (docs/reports.md)",
    )

    @model_validator(mode="before")
    @classmethod
    def _move_judge_prompts(cls, values: Any) -> Any:
        """Move `prompts` of judges (`openai/NAME,prompts=official`) to the evaluation: all judges share them.

        A preset has the official prompts, unless the evaluation or a judge names others.
        """
        if not isinstance(values, Mapping) or not select_prompts(values.get("judges")):
            return values
        judges_and_prompts = [_without_prompts(judge) for judge in _listed(values["judges"])]
        named = {str(prompts) for _, prompts in judges_and_prompts if prompts is not None}
        named |= {str(values["prompts"])} if "prompts" in values else set()
        named = named or {"official"}
        if len(named) > 1:
            raise ValueError(f"prompts: expected the same for all judges, found {' and '.join(sorted(named))}")
        return {**values, "judges": [judge for judge, _ in judges_and_prompts], "prompts": named.pop()}

    @field_validator("run")
    @classmethod
    def _check_run_name(cls, value: str) -> str:
        return checked_run_name(value)

    @field_validator("anchors", mode="before")
    @classmethod
    def _check_anchors(cls, value: Any) -> Any:
        value = int(value) if isinstance(value, str) and value.isdigit() else value
        is_number = isinstance(value, int) and not isinstance(value, bool)
        if value is None or (is_number and value >= FEWEST_ANCHORS) or (isinstance(value, str) and value):
            return value
        raise ValueError(f"must be a number from {FEWEST_ANCHORS}, such as 40, or a file")

    @field_validator("judges", mode="before", json_schema_input_type=NAMED_JUDGES)
    @classmethod
    def _parse_judges(cls, value: Any) -> tuple[Judge, ...]:
        values = [value] if isinstance(value, (str, Mapping)) else [] if value is None else value
        if not isinstance(values, (list, tuple)):
            raise ValueError(f"must be a list of judges, such as {JUDGES_EXAMPLE}")
        judges = tuple(judge_of(judge) for judge in values)
        names = [judge.model for judge in judges]
        if duplicates := sorted({name for name in names if names.count(name) > 1}):
            raise ConfigurationError(
                f"judges: named twice: {', '.join(duplicates)}. Next step: leave one out; a judge is identified by its "
                "model, and the same model gives the same verdicts"
            )
        return judges

    @field_validator("rewriter", mode="before", json_schema_input_type=str | Judge | None)
    @classmethod
    def _parse_rewriter(cls, value: Any) -> Endpoint | None:
        return None if value is None else endpoint_of(value, "rewriter")

    @model_validator(mode="after")
    def _check_judges(self) -> EvaluationConfig:
        if self.idk == "judges" and not self.judges:
            raise ValueError('idk "judges" needs judges')
        if self.anchors is not None and not self.judges:
            raise ValueError("anchors needs judges")
        return self

    @model_validator(mode="after")
    def _check_official_prompt(self) -> EvaluationConfig:
        if self.system_prompt == OFFICIAL_PROMPT and (self.max_words is not None or self.run == CLOSED_BOOK):
            left_out = "max_words" if self.max_words is not None else f"run={CLOSED_BOOK}"
            raise ValueError(
                f"system_prompt={OFFICIAL_PROMPT} has passages and a length of its own; leave {left_out} out"
            )
        return self

    @model_validator(mode="after")
    def _check_skip_settled(self) -> EvaluationConfig:
        if self.skip_settled and self.prompts == "official":
            raise ValueError(
                "skip_settled requires the shipped prompts, because official scores need every verdict; leave one of "
                "the two out"
            )
        return self

    @property
    def idk_by_judges(self) -> bool:
        """Judges label refusals, instead of an offline detector."""
        return bool(self.judges) and self.idk in (None, "judges")


KEYS = frozenset(EvaluationConfig.model_fields)
MODEL_KEYS = (
    *("system_prompt", "plain_prompt", "max_words", "system_role", "too_long", "context_tokens"),
    *("queries", "rewriter", "search_calls", "search_k", "search_protocol", "keep_searches"),
    "injected",
)
"""Keys that affect the prompts of a model. They do not apply to existing answers."""


def parsed_metadata(text: str) -> dict[str, Any]:
    """Return the keys and values of one `--metadata` option: KEY=VALUE, or a JSON object.

    Raises:
        ConfigurationError: if the text is neither.
    """
    key, sign, value = text.partition("=")
    if sign and key.isidentifier():
        return {key: json_or_text(value)}
    try:
        metadata = parse_json(text.encode())
    except ValueError as error:
        if "{" not in text:
            raise ConfigurationError(f"--metadata {key[:80]!r}: expected KEY=VALUE, such as idk=ngrams") from error
        raise ConfigurationError(f"--metadata is neither KEY=VALUE nor JSON: {error}") from error
    if not isinstance(metadata, dict):
        raise ConfigurationError('--metadata must be KEY=VALUE or a JSON object, such as {"idk": "ngrams"}')
    return metadata


def json_or_text(text: str) -> Any:
    """Return the parsed value of a JSON text, or the text itself if it is not JSON."""
    try:
        return json.loads(text)
    except ValueError:
        return text
    except RecursionError:
        raise ConfigurationError("an option is not JSON: lists and objects that are nested too deeply") from None


def validated(settings_type: Any, values: Mapping[str, Any]) -> Any:
    """Return an instance of the dataclass `settings_type` with the values from `--metadata`.

    Raises:
        ConfigurationError: if a key is unknown or a value has the wrong type.
    """
    names = [field.name for field in fields(settings_type)]
    if unknown := next((key for key in values if key not in names), None):
        raise ConfigurationError(f"--metadata {unknown}: no such key; {close_matches(unknown, names)}")
    try:
        return TypeAdapter(settings_type).validate_python(values)
    except ValidationError as error:
        raise ConfigurationError(f"--metadata {'; '.join(misfits(error))}") from None


def config_from_metadata(metadata: Mapping[str, Any]) -> EvaluationConfig:
    """Return the configuration from the harness's metadata. Keys of the harness and its models are ignored.

    Raises:
        ConfigurationError: if a key looks like a misspelt one of ragtasks, or a value is invalid.
    """
    problems = [f"{key!r} (did you mean {meant!r}?)" for key in foreign_keys(metadata) if (meant := _similar_key(key))]
    if problems:
        raise ConfigurationError(f"unknown metadata key: {', '.join(problems)}")
    return _validated({key: metadata[key] for key in KEYS & metadata.keys()})


def foreign_keys(metadata: Mapping[str, Any]) -> list[str]:
    """Return the metadata keys of neither ragtasks nor the harness, sorted."""
    return sorted(str(key) for key in metadata.keys() - KEYS - _HARNESS_KEYS)


def _similar_key(key: str) -> str | None:
    """Return the ragtasks key that a foreign key probably means, or None."""
    near = difflib.get_close_matches(key.lower(), KEYS, n=1, cutoff=_NEAR_MISS)
    return near[0] if near else _OTHER_NAMES.get(key.lower())


def config_from_options(options: Mapping[str, Any]) -> EvaluationConfig:
    """Return the configuration from options. Unlike in metadata, every key must be valid.

    Raises:
        ConfigurationError: if a key is unknown or a value is invalid.
    """
    unknown = sorted(str(key) for key in options.keys() - KEYS)
    if unknown:
        hints = "; ".join(f"{key!r}, {close_matches(key, KEYS)}" for key in unknown)
        raise ConfigurationError(f"unknown option: {hints}")
    return _validated(options)


def problems_of_options(options: Mapping[str, Any]) -> list[str]:
    """Return the validation problems of options, each with its key; empty without problems."""
    try:
        EvaluationConfig.model_validate(dict(options))
    except ValidationError as error:
        return list(dict.fromkeys(map(_with_value, error.errors())))
    except RagtasksError as error:  # invalid judge or run name
        return [str(error)]
    return []


def _with_value(details: ErrorDetails) -> str:
    """Return a validation error with the invalid value. Option values are not secret."""
    if not details["loc"]:
        return misfit(details)
    text = f"{details['loc'][0]}: {misfit(details).partition(', found ')[0]}"
    return text if text.endswith("?") else f"{text}, found {reprlib.repr(details['input'])}"


def _validated(options: Mapping[str, Any]) -> EvaluationConfig:
    try:
        return EvaluationConfig.model_validate(dict(options))
    except ValidationError as error:
        problems = "; ".join(problems_of_options(options))
        raise ConfigurationError(
            f"evaluation options: {problems}\n  next step: correct these values, or leave them out for the defaults"
        ) from error


# The section `gate` of a file, for `ragtasks gate`.


class JudgeFloor(BaseModel):
    """Agreement with people that a judge's card must show before the judge decides."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kappa: float = Field(default=0.4, ge=-1, lt=1, description="the interval of kappa must lie above this value")
    labels: int = Field(default=50, ge=1, description="smallest number of rows that people labeled")
    undecided: float = Field(
        default=0.1, gt=0, le=1, description="share of rows with different repeated verdicts must be below this value"
    )


class GateConfig(BaseModel):
    """Allowed losses of a system against its baseline, and the conditions of the test."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    baseline: str | None = Field(
        default=None, description="name of a saved baseline, or a path to results or a baseline file (.json)"
    )
    benchmark: str | None = Field(
        default=None, description="benchmark to test, if the results have several; or one lm_eval task"
    )
    cluster: str = Field(
        default="", description="field of the documents of lm_eval tasks that belong together, as `doc.passage`"
    )
    margins: dict[str, Annotated[float, Field(gt=0, allow_inf_nan=False)]] = Field(
        default={},
        description="metric -> largest allowed drop of its mean, such as 0.03; only these metrics are tested",
    )
    slice_margins: dict[str, Annotated[float, Field(gt=0, allow_inf_nan=False)]] = Field(
        default={}, description="the same for slices, which have fewer answers; default: `margins`"
    )
    slices: tuple[str, ...] = Field(
        default=(),
        description="dimensions to test as well: domain, answerability, turn; or one slice, as `domain=fiqa`",
    )
    alpha: float = Field(
        default=0.05,
        gt=0,
        lt=0.5,
        description="1 - confidence level of the intervals; half of it for each type of error",
    )
    anchored_judges: tuple[str, ...] = Field(
        default=(), description="judges that you checked against people: they decide without a card"
    )
    judge_floor: JudgeFloor = Field(
        default=JudgeFloor(), description="agreement with people from which any other judge decides, by its card"
    )
    may_differ: tuple[str, ...] = Field(default=(), description="intended changes: `prompts`, `retriever`")
    recalibrate: bool = Field(
        default=False, description="convert the scores of a changed judge to the baseline's scale, by its anchors"
    )
    most_unscored: float = Field(
        default=0.02, ge=0, le=1, description="largest share of answers that only one side has scored"
    )
