"""The configuration of one evaluation, resolved once and then passed down as an argument.

It arrives as the harness's `--metadata` (or the same keys on our command line). The harness merges `--model_args` into
that dictionary, so keys of others are expected there: they are left alone, unless one looks like an error for ours.
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

from ragtasks.clients import Amounts, Endpoint, endpoint_of
from ragtasks.errors import ConfigurationError, RagtasksError, close_matches, is_secret_name, misfit, misfits
from ragtasks.files import checked_run_name, parse_json

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

ONE_OR_SEVERAL = BeforeValidator(
    lambda value: (value,) if isinstance(value, str) else value, json_schema_input_type=str | tuple[str, ...]
)
"""Of a tuple of texts: a text alone is a tuple of it."""

# Judges as a configuration names them: a model behind a server, or one that the harness loads.

JUDGES_EXAMPLE = '["openai/gpt-4o-mini"]'


class HarnessModel(BaseModel):
    """A model that the harness loads in this process, as a judge."""

    # The other namespace is what keeps pydantic from warning of our `model_args`, the harness's word.
    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True, protected_namespaces=())

    lm_eval: str = Field(min_length=1, description="the harness's name of the kind of model, such as `hf` or `vllm`")
    model_args: str = Field(default="{}", description="its arguments, as after `--model_args`; kept as canonical JSON")

    @field_validator("model_args", mode="before", json_schema_input_type=dict[str, Any])
    @classmethod
    def _canonical(cls, value: Any) -> str:
        if not isinstance(value, Mapping):
            raise ValueError('must be an object, such as {"pretrained": "Qwen/Qwen2.5-7B-Instruct"}')
        secrets = sorted(str(key) for key in value if is_secret_name(key))
        if secrets:
            raise ValueError(f"must hold no {', '.join(secrets)}: keys come from the environment")
        try:
            return json.dumps(value, sort_keys=True, ensure_ascii=False, allow_nan=False)
        except TypeError as error:
            raise ValueError("must hold plain JSON values") from error

    @field_serializer("model_args")
    def _as_object(self, value: str) -> Any:
        return json.loads(value)

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments as the harness takes them."""
        found: dict[str, Any] = json.loads(self.model_args)
        return found

    @property
    def model(self) -> str:
        """Name for tables: kind and weights."""
        return f"{self.lm_eval}/{self.arguments.get('pretrained') or self.arguments.get('model') or 'model'}"


Judge = Endpoint | HarnessModel
"""A judge as the configuration names it."""
NAMED_JUDGES = str | Judge | tuple[str | Judge, ...]
"""The same as a file names one or several."""


def judge_of(named: Any) -> Judge:
    """Return what names a judge as a record."""
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
    # Outside the handler, and without the values: the chained error would show what may be a key.
    raise ConfigurationError("judges: " + "; ".join(problems))


_PROMPTS = re.compile(r",\s*prompts=(\w+)")


def _without_prompts(named: Any) -> tuple[Any, Any]:
    """Return what names a judge, and the prompts in it, None without any."""
    if isinstance(named, str) and (found := _PROMPTS.search(named)):
        return named.replace(found[0], ""), found[1]
    if isinstance(named, Mapping) and "prompts" in named:
        return {key: value for key, value in named.items() if key != "prompts"}, named["prompts"]
    return named, None


def refuse_namesakes(names: Sequence[str]) -> None:
    """Refuse judges of one name: a judge is identified by its model's name."""
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ConfigurationError(
            f"judges: named twice: {', '.join(twice)}. Next step: leave one out: a judge is identified by its model, "
            "and the same model gives the same verdicts"
        )


# The keys of a configuration, and where they are read from.

DEFAULT_ENCODER = "microsoft/deberta-xlarge-mnli"
"""Encoder of BERTScore where none is named: that of the paper."""
SAMPLE_ENCODER = "minilm"
"""The same on a sample: it comes with a package."""
FEWEST_ANCHORS = 20
"""Anchors with fewer of which hardly any drift is found."""
NO_ENCODER = "none"
"""Value of `encoder` that leaves the semantic metrics unscored on purpose."""

_NEAR_MISS = 0.84  # similarity from which a foreign key is taken for a misspelt one of ours
_HARNESS_KEYS = frozenset({"version", "config", "config_source", "think_end_token", "prompt"})
# What stands in results, or lies near, for what is given as one of our keys.
_OTHER_NAMES = {"idk_detector": "idk", "judge_prompts": "prompts", "retrieval_run": "run"}


class EvaluationConfig(BaseModel):
    """What an evaluation depends on, beside the model; every field shows in the results."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    data: str | None = Field(
        default=None,
        min_length=1,
        description="`sample`, or a folder; default: the fetched files",
    )
    run: str = Field(
        default="official",
        description="stored run with the passages, or `closed_book` for none",
    )
    encoder: str | None = Field(
        default=None, min_length=1, description="encoder of BERTScore: a name, a path, or `none`"
    )
    encoder_device: str | None = Field(
        default=None,
        min_length=1,
        description="torch device of the encoder; default: the GPU if there is one, else `minilm` runs without torch",
    )
    retriever: str = Field(
        default="bm25",
        min_length=1,
        description="retriever that searches for rewritten questions, in live conversations and for models that search "
        "themselves (docs/retrieval.md)",
    )
    queries: str = Field(
        default="last_turn",
        min_length=1,
        description="query form that live full RAG searches with: last_turn, last_3_turns, llm_rewrite",
    )
    rewriter: Endpoint | None = Field(
        default=None, description="model that rewrites questions of live full RAG where `queries` is `llm_rewrite`"
    )
    search_calls: int = Field(
        default=8, ge=1, le=50, description="calls of tools, to search and read, that an agentic task may make"
    )
    search_k: int = Field(
        default=5, ge=1, le=20, description="passages that a search shows an agentic task that does not say how many"
    )
    search_protocol: Literal["text", "tool_calls"] = Field(
        default="text",
        description="how an agentic task's model calls tools: by tags in text, or by OpenAI's tool calls",
    )
    keep_searches: bool = Field(
        default=False,
        description="show later turns of live agentic tasks what the model searched for and found at earlier ones",
    )
    injected: float = Field(
        default=0.0,
        ge=0,
        le=1,
        description="share of prompts, and of searches, that show one more passage, which carries an instruction "
        "(docs/agentic.md)",
    )
    conversational: bool = Field(
        default=False, description="count conversational tasks too (the paper leaves them out)"
    )
    system_prompt: str | None = Field(
        default=None, min_length=1, description="path of a Jinja template for the system message"
    )
    plain_prompt: str | None = Field(
        default=None, min_length=1, description="path of a Jinja template for models without a chat template"
    )
    system_role: Literal["system", "user"] = Field(
        default="system",
        description="message that holds the passages: `user` for servers that drop system messages",
    )
    too_long: Literal["refuse", "drop_passages"] = Field(
        default="refuse", description="what to do with prompts that are longer than the model's context"
    )
    context_tokens: int | None = Field(
        default=None, ge=1, description="tokens of the model's context; default: what the model or its server says"
    )
    max_words: int | None = Field(
        default=None, ge=1, description="answer length that the prompt asks for, in words; default: the task's own"
    )
    end_of_thinking: str = Field(default="</think>", min_length=1, description="text after which the answer begins")
    judges: tuple[Judge, ...] = Field(
        default=(),
        description="LLM judges: `openai/NAME`, or an object with model, base_url",
    )
    idk: Literal["ngrams", "encoder", "judges"] | None = Field(
        default=None,
        description='detector of refusals ("I do not know"); default: judges if there are any, '
        "else ngrams (docs/metrics.md)",
    )
    prompts: Literal["ours", "official"] = Field(
        default="ours",
        description="judge prompts: shipped, or those of the official checkout in the data folder; also in a judge's "
        "line: `openai/NAME,prompts=official`",
    )
    skip_settled: bool = Field(
        default=False,
        description="leave judges unasked for rb_llm and rl_f where a refusal, or the kind of task, decides the score; "
        "their `_raw` scores are then unscored there",
    )
    metrics: Annotated[tuple[str, ...], ONE_OR_SEVERAL] = Field(
        default=(), description="metrics added to the task's own, ours and those of other packages (docs/extending.md)"
    )
    price: Amounts | None = Field(
        default=None,
        description="dollars per million tokens of the model's prompts, of its answers, and maybe of prompt tokens "
        "that its server had cached: what answers cost is a score then",
    )
    min_judge_coverage: float = Field(
        default=0.95, ge=0, le=1, description="share of verdicts below which an evaluation fails"
    )

    repeats: int = Field(
        default=1,
        ge=1,
        le=20,
        description="times that judges are asked about some of the answers: above 1, a report says how far scores move "
        "where the same judges are asked again",
    )
    repeat_share: float = Field(
        default=0.25,
        gt=0,
        le=1,
        description="share of the answers that `repeats` asks about again, as whole conversations",
    )
    anchors: int | str | None = Field(
        default=None,
        description="answers that judges are asked again in each evaluation, to find a judge that changed: how many of "
        "the built-in ones, such as 40, or a file of `ragtasks judges anchors`; default: none",
    )
    max_implausible: float = Field(
        default=0.2,
        ge=0,
        le=1,
        description="estimated share of answers that cannot be answers above which a command ends with status 3",
    )

    @model_validator(mode="before")
    @classmethod
    def _take_prompts_of_judges(cls, given: Any) -> Any:
        """Move `prompts` of judges (`openai/NAME,prompts=official`) to the evaluation: all judges have the same."""
        judges = given.get("judges") if isinstance(given, Mapping) else None
        found = [_without_prompts(one) for one in (judges if isinstance(judges, (list, tuple)) else [judges])]
        named = {str(prompts) for _, prompts in found if prompts is not None}
        if not named:
            return given
        named |= {str(given["prompts"])} if "prompts" in given else set()
        if len(named) > 1:
            raise ValueError(f"prompts: all judges have the same, found {' and '.join(sorted(named))}")
        return {**given, "judges": [judge for judge, _ in found], "prompts": named.pop()}

    @field_validator("run")
    @classmethod
    def _run_is_a_name(cls, value: str) -> str:
        return checked_run_name(value)

    @field_validator("anchors", mode="before")
    @classmethod
    def _anchors_are_some(cls, value: Any) -> Any:
        value = int(value) if isinstance(value, str) and value.isdigit() else value
        is_number = isinstance(value, int) and not isinstance(value, bool)
        if value is None or (is_number and value >= FEWEST_ANCHORS) or (isinstance(value, str) and value):
            return value
        raise ValueError(f"must be a number from {FEWEST_ANCHORS}, such as 40, or a file")

    @field_validator("judges", mode="before", json_schema_input_type=NAMED_JUDGES)
    @classmethod
    def _name_judges(cls, value: Any) -> tuple[Judge, ...]:
        given = [value] if isinstance(value, (str, Mapping)) else [] if value is None else value
        if not isinstance(given, (list, tuple)):
            raise ValueError(f"must be a list of judges, such as {JUDGES_EXAMPLE}")
        judges = tuple(judge_of(item) for item in given)
        refuse_namesakes([judge.model for judge in judges])
        return judges

    @field_validator("rewriter", mode="before", json_schema_input_type=str | Judge | None)
    @classmethod
    def _name_rewriter(cls, value: Any) -> Endpoint | None:
        return None if value is None else endpoint_of(value, "rewriter")

    @model_validator(mode="after")
    def _judges_where_needed(self) -> EvaluationConfig:
        if self.idk == "judges" and not self.judges:
            raise ValueError('idk "judges" needs judges')
        if self.anchors is not None and not self.judges:
            raise ValueError("anchors needs judges, who are asked them")
        return self

    @model_validator(mode="after")
    def _settled_as_ours(self) -> EvaluationConfig:
        if self.skip_settled and self.prompts == "official":
            raise ValueError(
                "skip_settled goes with the shipped prompts: the official scripts condition otherwise, and their "
                "scores need every verdict; leave one of the two out"
            )
        return self

    @property
    def idk_by_judges(self) -> bool:
        """Whether judges decide whether a response says that it does not know."""
        return bool(self.judges) and self.idk in (None, "judges")


KEYS = frozenset(EvaluationConfig.model_fields)
MODEL_KEYS = (
    *("system_prompt", "plain_prompt", "max_words", "system_role", "too_long", "context_tokens"),
    *("queries", "rewriter", "search_calls", "search_k", "search_protocol", "keep_searches"),
    "injected",
)
"""Keys that say how a model is asked: answers that are there already are scored without them."""


def parsed_metadata(text: str) -> dict[str, Any]:
    """Return the keys and values of one `--metadata`: KEY=VALUE, or a JSON object."""
    key, sign, value = text.partition("=")
    if sign and key.isidentifier():
        return {key: json_or_text(value)}
    try:
        given = parse_json(text.encode())
    except ValueError as error:
        if "{" not in text:
            raise ConfigurationError(f"--metadata {key[:80]!r}: expected KEY=VALUE, such as idk=ngrams") from error
        raise ConfigurationError(f"--metadata is neither KEY=VALUE nor JSON: {error}") from error
    if not isinstance(given, dict):
        raise ConfigurationError('--metadata must be KEY=VALUE or a JSON object, such as {"idk": "ngrams"}')
    return given


def json_or_text(text: str) -> Any:
    """Return the value of a text that is JSON, else the text."""
    try:
        return json.loads(text)
    except ValueError:
        return text
    except RecursionError:
        raise ConfigurationError("an option is not JSON: lists and objects that are nested too deeply") from None


def validated(kind: Any, given: Mapping[str, Any]) -> Any:
    """Return the dataclass of settings that `--metadata` names by their keys.

    Raises:
        ConfigurationError: an unknown key, or a value of another type.
    """
    known = [one.name for one in fields(kind)]
    if unknown := next((key for key in given if key not in known), None):
        raise ConfigurationError(f"--metadata {unknown}: no such key; {close_matches(unknown, known)}")
    try:
        return TypeAdapter(kind).validate_python(given)
    except ValidationError as error:
        raise ConfigurationError(f"--metadata {'; '.join(misfits(error))}") from None


def config_from_metadata(metadata: Mapping[str, Any]) -> EvaluationConfig:
    """Return the configuration in the harness's metadata; keys of the harness and of its models are left alone."""
    problems = [f"{key!r} (did you mean {meant!r}?)" for key in foreign_keys(metadata) if (meant := _key_meant_by(key))]
    if problems:
        raise ConfigurationError(f"unknown metadata key: {', '.join(problems)}")
    return _validated({key: metadata[key] for key in KEYS & metadata.keys()})


def foreign_keys(metadata: Mapping[str, Any]) -> list[str]:
    """Return the keys of the metadata that are neither ours nor the harness's own, sorted."""
    return sorted(str(key) for key in metadata.keys() - KEYS - _HARNESS_KEYS)


def _key_meant_by(key: str) -> str | None:
    """Return the key of ours that a foreign one looks like an error for, or None."""
    near = difflib.get_close_matches(key.lower(), KEYS, n=1, cutoff=_NEAR_MISS)
    return near[0] if near else _OTHER_NAMES.get(key.lower())


def config_from_options(options: Mapping[str, Any]) -> EvaluationConfig:
    """Return the configuration in options of our own, where every key must be known."""
    unknown = sorted(str(key) for key in options.keys() - KEYS)
    if unknown:
        hints = "; ".join(f"{key!r}, {close_matches(key, KEYS)}" for key in unknown)
        raise ConfigurationError(f"unknown option: {hints}")
    return _validated(options)


def problems_of_options(options: Mapping[str, Any]) -> list[str]:
    """Return what is wrong with the values of options, each behind its key; [] where nothing is."""
    try:
        EvaluationConfig.model_validate(dict(options))
    except ValidationError as error:
        return list(dict.fromkeys(map(_with_value, error.errors())))
    except RagtasksError as error:  # of a name: a judge's, a run's
        return [str(error)]
    return []


def _with_value(item: ErrorDetails) -> str:
    """Return an error of a value with the value, which is no key of a server here."""
    if not item["loc"]:
        return misfit(item)
    text = f"{item['loc'][0]}: {misfit(item).partition(', found ')[0]}"
    return text if text.endswith("?") else f"{text}, found {reprlib.repr(item['input'])}"


def _validated(options: Mapping[str, Any]) -> EvaluationConfig:
    try:
        return EvaluationConfig.model_validate(dict(options))
    except ValidationError as error:
        problems = "; ".join(problems_of_options(options))
        raise ConfigurationError(
            f"evaluation options: {problems}\n  next step: correct these values, or leave them out for the defaults"
        ) from error


# What `ragtasks gate` tests: the section `gate` of a file.


class GateConfig(BaseModel):
    """What a system must not lose against its baseline, and when that counts."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    baseline: str | None = Field(
        default=None, description="name of a saved baseline, or a path: results, or a baseline file (.json)"
    )
    benchmark: str | None = Field(default=None, description="the one to test, where results are of several")
    margins: dict[str, Annotated[float, Field(gt=0, allow_inf_nan=False)]] = Field(
        default={}, description="metric -> largest drop of its mean that is allowed, such as 0.03; these are tested"
    )
    slice_margins: dict[str, Annotated[float, Field(gt=0, allow_inf_nan=False)]] = Field(
        default={}, description="the same in slices, where there are fewer answers; default: as in `margins`"
    )
    slices: tuple[str, ...] = Field(
        default=(), description="dimensions to test by too: domain, answerability, turn; one slice as `domain=fiqa`"
    )
    alpha: float = Field(
        default=0.05, gt=0, lt=0.5, description="1 - level of the intervals; each kind of error has half of it"
    )
    anchored_judges: tuple[str, ...] = Field(
        default=(), description="judges that are held against people: what they score is tested, else it is only shown"
    )
    may_differ: tuple[str, ...] = Field(
        default=(), description="what the change is meant to change: `prompts`, `retriever`"
    )
    recalibrate: bool = Field(
        default=False, description="put the scores of a judge that changed on the baseline's scale, by its anchors"
    )
    most_unscored: float = Field(
        default=0.02, ge=0, le=1, description="largest share of answers that only one side may have a score of"
    )
