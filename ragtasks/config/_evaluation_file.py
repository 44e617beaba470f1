"""`evaluation.yaml`: one file with the evaluated system, the benchmark, the judges and the output folder.

`EvaluationFile` declares every key, and `ragtasks.config.EvaluationConfig` those of `options`. The file contains no API
keys, only the names of their environment variables.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, get_args

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)

from ragtasks.clients import Endpoint, SystemProtocol, endpoint_of, system_endpoint
from ragtasks.config._options import (
    NAMED_JUDGES,
    ONE_OR_SEVERAL,
    EvaluationConfig,
    GateConfig,
    config_from_options,
    problems_of_options,
)
from ragtasks.errors import (
    ConfigurationError,
    RagtasksError,
    close_matches,
    is_secret_name,
    masked_text,
    misfit,
    missing_path,
)
from ragtasks.files import read_yaml, yaml_text
from ragtasks.records import Setting

FILE_NAME = "evaluation.yaml"
"""File that `ragtasks init` writes, and its copy next to the results."""
BASELINES = (
    *("ragtasks-extractive", "ragtasks-oracle", "ragtasks-refuse", "ragtasks-refuse-on-empty"),
    *("ragtasks-agent-once", "ragtasks-agent-rewrite", "ragtasks-agent-oracle"),
)
"""Models that need neither weights nor a server."""
SUBJECTS = ("model", "answers", "traces", "endpoint", "retriever")
"""Sections of systems that can be evaluated. A file has one of them."""

_OPENAI = "openai/"
_MAX_CONCURRENT = 32
_STRICT = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True, protected_namespaces=())
_BATCH_SIZE = re.compile(r"[1-9][0-9]*|auto(:[1-9][0-9]*)?")
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9.-]+")


def _accept_name(schema: dict[str, Any]) -> None:
    """Let the schema accept a text, the section's main value, instead of a section."""
    schema["anyOf"].insert(0, {"type": "string"})


def _as_list(value: Any) -> Any:
    """Convert a single mapping to a list, and split a text at commas, as lm_eval does for tasks."""
    return value.split(",") if isinstance(value, str) else [value] if isinstance(value, Mapping) else value


def _as_judges(value: Any) -> Any:
    """Convert a single judge to a list. A comma in a text belongs to the judge's line."""
    return [value] if isinstance(value, (str, Mapping)) else value


def _nonempty(value: Any) -> Any:
    """Reject an empty path, which would mean the working directory."""
    if value == "":
        raise ValueError("expected a path")
    return value


class ModelSection(BaseModel):
    """A model that answers the benchmark's prompts: behind a server, from local weights, or a baseline."""

    model_config = _STRICT

    name: str = Field(
        min_length=1,
        description="name at the server, hub name or folder of weights, `openai/NAME`, or a "
        f"baseline ({', '.join(BASELINES)})",
    )
    server: str | None = Field(
        None, description="address of an OpenAI-compatible server, such as http://localhost:8000/v1"
    )
    kind: str | None = Field(
        None,
        description="lm_eval's model type, such as hf, vllm or local-completions; default: "
        "local-chat-completions with `server`, openai-chat-completions for openai/NAME, else hf",
    )
    api_key_env: str | None = Field(
        None,
        pattern=r"^[A-Za-z_][A-Za-z0-9_]*$",
        description="environment variable with the server's key; default: OPENAI_API_KEY if it is set",
    )
    chat: bool = Field(True, description="send chat messages; `false` sends plain text")
    concurrent: int = Field(_MAX_CONCURRENT, ge=1, description="maximum number of concurrent requests")
    batch_size: int | str | None = Field(None, description="prompts per batch of local weights, or `auto`")
    limit: int | None = Field(None, ge=1, description="number of prompts of each harness task, for a trial run")
    arguments: dict[str, Any] = Field(
        default_factory=dict, description="further model arguments, as for lm_eval's --model_args"
    )
    generation: dict[str, Any] = Field(
        default_factory=dict, description="sampling arguments, as for lm_eval's --gen_kwargs"
    )

    @field_validator("name")
    @classmethod
    def _check_name(cls, value: str) -> str:
        if value.startswith("ragtasks-") and value not in BASELINES:
            raise ValueError(f"no such baseline; {close_matches(value, BASELINES)}")
        return value

    @field_validator("server")
    @classmethod
    def _check_server(cls, value: str | None) -> str | None:
        try:
            if value is not None:
                endpoint_of({"model": "model", "base_url": value})
        except RagtasksError as error:
            raise ValueError(str(error).removeprefix("endpoint: base_url ")) from None
        return value

    @field_validator("batch_size", mode="before")
    @classmethod
    def _check_batch_size(cls, value: Any) -> Any:
        is_size = isinstance(value, int) and not isinstance(value, bool) and value > 0
        if value is None or is_size or (isinstance(value, str) and _BATCH_SIZE.fullmatch(value)):
            return value
        raise ValueError("expected a whole number of 1 or more, or `auto`")

    @field_validator("arguments", "generation")
    @classmethod
    def _check_values(cls, value: dict[str, Any]) -> dict[str, Any]:
        if key_and_value := next((key for key, inner in value.items() if inner is None and ":" in str(key)), None):
            raise ValueError(
                f"{key_and_value} is one word in YAML; write {key_and_value.replace(':', ': ')}, with a space"
            )
        return value

    @model_validator(mode="after")
    def _check_server_key(self) -> ModelSection:
        if "base_url" in self.arguments and (self.server is not None or self.kind is None):
            raise ValueError("arguments.base_url: use `server` for the address")
        return self

    @property
    def is_baseline(self) -> bool:
        """The model is a baseline, which answers from the task without a server or weights."""
        return self.name in BASELINES

    @property
    def harness_kind(self) -> str:
        """lm_eval's model type."""
        if self.kind is not None or self.is_baseline:
            return self.kind or self.name
        if self.server is not None:
            return "local-chat-completions" if self.chat else "local-completions"
        return "openai-chat-completions" if self.name.startswith(_OPENAI) else "hf"

    @property
    def is_remote(self) -> bool:
        """The model is behind a server."""
        return self.harness_kind.endswith("completions")

    @property
    def harness_arguments(self) -> dict[str, Any]:
        """Model arguments for lm_eval, without keys."""
        if self.is_baseline:
            return dict(self.arguments)
        if not self.is_remote:
            return {"pretrained": self.name, **self.arguments}
        named: dict[str, Any] = {"model": self.name.removeprefix(_OPENAI), "num_concurrent": self.concurrent}
        if self.server is not None:
            path = "/chat/completions" if "chat" in self.harness_kind else "/completions"
            named["base_url"] = self.server.rstrip("/").removesuffix(path) + path
        return {**named, **self.arguments}


class FileSection(BaseModel):
    """A file with the answers or traces of the user's own system."""

    model_config = _STRICT

    file: Path = Field(
        description="answers: id, answer, and contexts if the system retrieved any; or your rows: "
        "question, answer, contexts; traces: spans of OpenTelemetry or OpenInference"
    )
    name: str | None = Field(None, min_length=1, description="the system's name in tables; default: the file's")


class AnswersSection(FileSection):
    """A file with the answers of the user's own system, with its keys."""

    keys: dict[str, str] = Field({}, description="names of the file's keys that differ, such as {answer: response}")


class RetrieverSection(BaseModel):
    """A retriever that is evaluated with the benchmark's qrels."""

    model_config = _STRICT

    line: str = Field(min_length=1, description="such as bm25, dense:minilm, hybrid(bm25,dense:minilm), run:FILE")
    queries: Annotated[tuple[str, ...], ONE_OR_SEVERAL] = Field(
        ("last_turn",), min_length=1, description="query forms, one run each: last_turn, rewrite, decompose, ..."
    )
    depth: int = Field(100, ge=1, description="passages kept for each query")
    rewriter: str | None = Field(
        None, min_length=1, description="endpoint for the forms llm_rewrite and decompose, such as openai/NAME"
    )
    corpora: dict[str, str] = Field(default_factory=dict, description="domain -> location of another corpus for it")
    encode_with: str | None = Field(None, min_length=1, description="encode passages on other machines: KIND[:ADDRESS]")

    @field_validator("queries")
    @classmethod
    def _check_duplicates(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if duplicates := sorted({name for name in value if value.count(name) > 1}):
            raise ValueError(f"{', '.join(duplicates)} is listed twice; leave one out")
        return value


class ReportSection(BaseModel):
    """The page that `ragtasks eval` writes."""

    model_config = _STRICT

    html: Annotated[Path, BeforeValidator(_nonempty)] | None = Field(
        None, description="file of the page, null for no page; default: page.html next to the results"
    )


class EstimateSection(BaseModel):
    """Settings of the cost estimate."""

    model_config = _STRICT

    tokenizer: str | None = Field(
        None,
        min_length=1,
        description="tokenizer for counting prompt tokens; default: the model's, or an approximation",
    )
    prompts_per_minute: float | None = Field(
        None, gt=0, description="prompts per minute of the model, for the duration in --dry-run"
    )


class UntilDecidedSection(BaseModel):
    """Saved results for a pairwise comparison that stops as soon as the better system is decided."""

    model_config = _STRICT

    against: Annotated[tuple[Path, ...], ONE_OR_SEVERAL] = Field(
        min_length=1, description="results of other systems, one path or several"
    )
    metric: str | None = Field(
        None, min_length=1, description="judged metric that decides; default: the first of the benchmark"
    )
    margin: float | None = Field(
        None, gt=0, description="difference below which systems count as equal; default: 5 % of the metric's range"
    )
    seed: int = Field(0, description="random seed for the order of judgements")


class SystemSection(Endpoint):
    """The user's own system behind HTTP: the schema of `endpoint`, which `named_systems` parses."""

    model: str = "rag-system"
    base_url: str
    name: str = Field("rag-system", description="the system's name in tables")
    protocol: SystemProtocol = Field(SystemProtocol.OPENAI, description="request format; default: openai")
    arms: dict[str, dict[str, Any] | None] | None = Field(
        None,
        description="variants of the system to compare: name -> keys that differ, such as "
        "{full: {}, compacted: {extra_body: {compact: true}}}",
    )


class EvaluationFile(BaseModel):
    """A complete evaluation."""

    model_config = _STRICT

    benchmark: str = Field(
        "mtrag",
        min_length=1,
        description="such as mtrag, mtrag_un, multihop_rag, custom; `rows` for answers to your own questions, the "
        "default for a file of answers with questions",
    )
    settings: Annotated[
        tuple[Setting, ...], BeforeValidator(_as_list, json_schema_input_type=Setting | tuple[Setting, ...])
    ] = Field((), description="sources of passages; default: all of the benchmark, full_rag for your own system")
    tasks: Annotated[tuple[str, ...], BeforeValidator(_as_list, json_schema_input_type=str | tuple[str, ...])] = Field(
        (), description="harness tasks of a model or an endpoint, instead of benchmark and settings"
    )
    data: str | None = Field(None, description=EvaluationConfig.model_fields["data"].description)
    model: ModelSection | None = Field(
        None, description="a model: its name, or these keys", json_schema_extra=_accept_name
    )
    answers: AnswersSection | None = Field(
        None, description="answers of your own system: the file, or these keys", json_schema_extra=_accept_name
    )
    traces: FileSection | None = Field(
        None,
        description="traces of your own system, without a benchmark: the file, or these keys",
        json_schema_extra=_accept_name,
    )
    endpoint: Annotated[
        dict[str, Any] | None,
        BeforeValidator(lambda given: given, json_schema_input_type=str | SystemSection | None),
    ] = Field(None, description="your own system behind HTTP: its address, or the keys of an endpoint")
    retriever: RetrieverSection | None = Field(
        None, description="a retriever: its line, or these keys", json_schema_extra=_accept_name
    )
    judges: Annotated[tuple[Any, ...], BeforeValidator(_as_judges, json_schema_input_type=NAMED_JUDGES)] = Field(
        (), description=EvaluationConfig.model_fields["judges"].description
    )
    options: Annotated[
        dict[str, Any], BeforeValidator(lambda given: given, json_schema_input_type=EvaluationConfig)
    ] = Field(default_factory=dict, description="further options of the evaluation")
    output: Annotated[Path, BeforeValidator(_nonempty)] | None = Field(
        None, description="folder for the results; default: a folder in results/ named by model, benchmark and time"
    )
    report: ReportSection | None = Field(None, description="settings of the page")
    estimate: EstimateSection | None = Field(None, description="settings of the cost estimate")
    gate: GateConfig | None = Field(None, description="margins and baseline of `ragtasks gate`")
    until_decided: UntilDecidedSection | None = Field(
        None,
        description="saved results to compare with until the better system is decided: their path, or these keys",
        json_schema_extra=_accept_name,
    )

    @field_validator("endpoint")
    @classmethod
    def _check_endpoint(cls, value: dict[str, Any] | None) -> dict[str, Any] | None:
        if value is not None:
            try:
                named_systems(value)
            except RagtasksError as error:
                raise ValueError(str(error).removeprefix("endpoint: ")) from None
        return value

    @model_validator(mode="after")
    def _check_subject(self) -> EvaluationFile:
        named = [key for key in SUBJECTS if getattr(self, key) is not None]
        if len(named) > 1:
            raise ValueError(f"names {' and '.join(named)}: one file evaluates one of {', '.join(SUBJECTS)}")
        if self.traces is not None and {"benchmark", "settings", "data"} & self.model_fields_set:
            raise ValueError("traces: leave out benchmark, settings and data, which do not apply to traces")
        if self.tasks and self.model is None and self.endpoint is None:
            raise ValueError("tasks: only a model or an endpoint has harness tasks; use benchmark and settings")
        if self.tasks and self.settings:
            raise ValueError("tasks, settings: leave one out, as a harness task includes its setting")
        return self

    @model_validator(mode="after")
    def _check_until_decided(self) -> EvaluationFile:
        if self.until_decided is None:
            return self
        if not self.judges or self.retriever is not None:
            raise ValueError("until_decided: requires judges, and model, answers or endpoint")
        if len(self.settings) > 1 or (self.model is not None and not self.settings and not self.tasks):
            raise ValueError("until_decided: requires one setting, such as `settings: full_rag`")
        if self.options.get("repeats", 1) != 1 or self.options.get("anchors") is not None:
            raise ValueError(
                "until_decided: each answer is judged once, and the interval includes that noise; leave out "
                "options.repeats and options.anchors"
            )
        return self

    @property
    def subject(self) -> str:
        """Name of the section with the evaluated system, such as `model`.

        Raises:
            ConfigurationError: if the file has no such section.
        """
        named = [key for key in SUBJECTS if getattr(self, key) is not None]
        if not named:
            raise ConfigurationError(
                f"the file names no system to evaluate. Next step: add one of {', '.join(SUBJECTS)}, or `ragtasks init`"
            )
        return named[0]

    @property
    def named_benchmark(self) -> str | None:
        """The benchmark, or None if the file names none."""
        return self.benchmark if "benchmark" in self.model_fields_set else None

    @property
    def name(self) -> str:
        """Name of the evaluated system, for file names."""
        if self.model is not None:
            return slug(Path(self.model.name).name)
        for section in (self.answers, self.traces):
            if section is not None:
                return slug(section.name or section.file.stem)
        if self.endpoint is not None:
            return slug(str(self.endpoint.get("name") or named_systems(self.endpoint)[0][0].model))
        return slug(self.retriever.line if self.retriever is not None else "evaluation")

    @property
    def given_options(self) -> dict[str, Any]:
        """The evaluation's options, including `data` and `judges`, which are top-level keys of the file.

        With `until_decided`, judges are left out, because they compare answers and give no scores.
        """
        top_level = {"data": self.data, "judges": None if self.until_decided else list(self.judges) or None}
        return {**self.options, **{key: value for key, value in top_level.items() if value is not None}}

    @property
    def config(self) -> EvaluationConfig:
        """The validated options."""
        return config_from_options(self.given_options)


def named_systems(endpoint: Mapping[str, Any]) -> list[tuple[Endpoint, SystemProtocol]]:
    """Return the endpoint and the protocol of the section `endpoint`, or of each of its arms.

    The name of a system is also the `model` of its requests.

    Raises:
        ConfigurationError: if a value is invalid.
    """
    fields = dict(endpoint)
    arms, name = fields.pop("arms", None), fields.get("name", "rag-system")
    if arms is None:
        return [_named_system(fields)]
    if (
        not isinstance(arms, Mapping)
        or len(arms) < 2
        or not all(isinstance(own or {}, Mapping) for own in arms.values())
    ):
        example = "{full: {}, compacted: {extra_body: {compact: true}}}"
        raise ConfigurationError(
            f"endpoint: arms: expected two or more names with the keys that differ, as in {example}"
        )
    if "model" in fields:
        raise ConfigurationError("endpoint: model: leave it out; each arm has its own name, such as rag-system-full")
    systems = [_named_system({**fields, "name": f"{name}-{arm}", **(own or {})}) for arm, own in arms.items()]
    if len({slug(system.model) for system, _ in systems}) < len(systems):  # each has a folder of that name
        raise ConfigurationError("endpoint: arms: two have the same name or model; give each its own")
    return systems


def _named_system(fields: dict[str, Any]) -> tuple[Endpoint, SystemProtocol]:
    if not isinstance(fields.get("name", ""), str):
        raise ConfigurationError("endpoint: name: expected a text")
    return system_endpoint(fields, str(fields.pop("name", "rag-system")), "openai")


def slug(text: str) -> str:
    """Return a text in a form that is valid as a folder name."""
    return _NOT_IN_NAMES.sub("-", text).strip("-.") or "evaluation"


# Reading: merges YAML and `--set` into one mapping and reports all problems together.

_BY_NAME_ALONE = {
    "model": "name",
    "answers": "file",
    "traces": "file",
    "endpoint": "base_url",
    "retriever": "line",
    "until_decided": "against",
}
FILE_KEYS = tuple(EvaluationFile.model_fields)
"""Top-level keys of a file."""


@dataclass(frozen=True, slots=True)
class ReadEvaluation:
    """A parsed file."""

    content: dict[str, Any]
    """Keys and values after `--set`. A section given as a single text is a mapping here."""
    evaluation: EvaluationFile
    """The same content as a typed record."""


def read_evaluation_file(path: Path, overrides: Sequence[str] = ()) -> ReadEvaluation:
    """Return an evaluation file.

    Args:
        path: the file.
        overrides: `key=value` pairs that take precedence, with dotted keys.

    Raises:
        ConfigurationError: if the file is missing or invalid. The message lists all problems.
    """
    try:
        text = yaml_text(path)
    except FileNotFoundError:
        near = missing_path(path)[1].partition("; ")[2]
        hint = f"; {near}" if near else ""
        raise ConfigurationError(f"{path}: no such file. Next step: `ragtasks init` writes one{hint}") from None
    except UnicodeDecodeError:
        raise ConfigurationError(f"{path}: not UTF-8 text. Next step: save it in this encoding") from None
    except OSError as error:
        raise ConfigurationError(
            f"{path}: cannot be read ({error.strerror}). Next step: name the file itself, and check its permissions"
        ) from None
    if path.suffix in {".jsonl", ".csv", ".tsv"}:
        raise ConfigurationError(
            f"{path}: expected an evaluation in YAML, as `ragtasks init` writes it, found a {path.suffix} file. "
            f"Next step: ragtasks score {path}, or ragtasks init --answers {path}"
        )
    return ReadEvaluation(*_read(text, str(path), overrides))


def checked_text(text: str, name: str) -> None:
    """Validate the text of a file before it is written.

    Raises:
        ConfigurationError: if the text is invalid.
    """
    _read(text, name)


def _read(text: str, name: str, overrides: Sequence[str] = ()) -> tuple[dict[str, Any], EvaluationFile]:
    """Return the content of the file as a mapping and as a typed record."""
    content, lines = _parsed(text, name)
    _expand_names(content)
    for override in overrides:
        _set_value(content, override)
        _expand_names(content)  # a later override may set a key of this section
    secrets = list(_secrets(content))
    problems = [*secrets, *_option_problems(content)]
    evaluation = EvaluationFile.model_validate({})
    try:
        evaluation = EvaluationFile.model_validate(content)
    except ValidationError as error:
        reports = [_problem_line(details["loc"], details["type"], misfit(details)) for details in error.errors()]
        named = {line.partition(":")[0] for line in secrets}
        problems += [line for line in reports if line.partition(":")[0] not in named]
    if problems:  # outside the handler, because a chained error would print values
        raise ConfigurationError(_message(name, problems, lines))
    return content, evaluation


def _parsed(text: str, path: str) -> tuple[dict[str, Any], dict[str, int]]:
    """Return a file's mapping, and dotted key -> line."""
    import yaml

    try:
        node, content = read_yaml(text)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        mark = getattr(error, "problem_mark", None)
        position = f"line {mark.line + 1}: " if mark else ""
        reason = str(error) if isinstance(error, ValueError) else getattr(error, "problem", None) or "nested too deeply"
        if "'\\t'" in reason:
            reason = "a tab begins the line; indent with spaces"
        step = "correct it; `ragtasks init --output new.yaml` writes another"
        raise ConfigurationError(f"{path}: {position}not YAML: {reason}. Next step: {step}") from None
    if content is None:
        content = {}
    if not isinstance(content, dict) or not all(isinstance(key, str) for key in content):
        raise ConfigurationError(f"{path}: expected keys with values, such as `benchmark: mtrag`; `ragtasks init`")
    named = list(_lines(node, ""))
    lines: dict[str, int] = {}
    for key, line in named:
        if lines.setdefault(key, line) != line:
            raise ConfigurationError(f"{path}: line {line}: {key} is already in line {lines[key]}; leave one out")
    return content, lines


def _lines(node: Any, above: str) -> Iterator[tuple[str, int]]:
    for key, value in node.value if node is not None and node.id == "mapping" else ():
        name = f"{above}{key.value}"
        yield name, key.start_mark.line + 1
        yield from _lines(value, f"{name}.")


def _expand_names(content: dict[str, Any]) -> None:
    """Convert sections that are given as a single text to mappings."""
    for key, name in _BY_NAME_ALONE.items():
        if isinstance(content.get(key), str):
            content[key] = {name: content[key]}


def _set_value(content: dict[str, Any], override: str) -> None:
    """Set the value of a dotted key and create missing sections."""
    import yaml

    key, sign, text = override.partition("=")
    if not sign or not all(key.split(".")):
        raise ConfigurationError(f"--set {override}: expected key=value, such as --set model.limit=20")
    try:
        value = read_yaml(text)[1] if text else None
    except (yaml.YAMLError, RecursionError, ValueError):
        raise ConfigurationError(f"--set {key}: the value is not JSON; quote it, as in --set '{key}=[\"a\"]'") from None
    *above, last = key.split(".")
    section: Any = content
    for name in above:
        inner = section.get(name)
        section[name] = inner if isinstance(inner, dict) else {}
        section = section[name]
    section[last] = value


def _secrets(value: Any, above: str = "") -> Iterator[str]:
    """Yield a message for each secret in the file."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            name = f"{above}{key}"
            if is_secret_name(key) and inner:
                yield f"{name}: contains a key; name its environment variable instead, as `api_key_env`"
            else:
                yield from _secrets(inner, f"{name}.")
    elif isinstance(value, (list, tuple)):
        for inner in value:
            yield from _secrets(inner, above)
    elif isinstance(value, str) and masked_text(value) != value:
        yield f"{above.rstrip('.')}: contains a key or a password; these come from the environment"


def _option_problems(content: Mapping[str, Any]) -> Iterator[str]:
    """Yield the problems of `options`, `data` and `judges`, as the configuration reports them."""
    options = content.get("options") or {}
    if not isinstance(options, Mapping):
        return  # the typed model reports its type
    duplicates = [key for key in ("data", "judges") if content.get(key) and options.get(key)]
    if duplicates:
        yield f"{duplicates[0]}: is set at the top and in options; leave one out"
    # The typed model reports a wrong type of these keys.
    types: dict[str, Any] = {"data": str, "judges": (str, list, Mapping)}
    top_level = {
        key: content[key] for key, expected_type in types.items() if isinstance(content.get(key), expected_type)
    }
    unknown = [key for key in options if key not in EvaluationConfig.model_fields]
    for key in unknown:
        yield f"options.{key}: no such option; {close_matches(str(key), EvaluationConfig.model_fields)}"
    for problem in problems_of_options({**{key: options[key] for key in options if key not in unknown}, **top_level}):
        yield problem if re.split(r"\W", problem)[0] in top_level else f"options.{problem}"


def _problem_line(loc: tuple[str | int, ...], error_type: str, message: str) -> str:
    """Return a pydantic error on one line."""
    name = ".".join(map(str, loc))
    if error_type != "extra_forbidden":
        return f"{name}: {message}" if name else message
    if len(loc) == 1 and loc[0] in EvaluationConfig.model_fields:
        return f"{name}: no such key; it is an option and belongs under `options`"
    names: Iterable[str] = FILE_KEYS
    if len(loc) > 1:  # the section's model, without None
        names = get_args(EvaluationFile.model_fields[str(loc[0])].annotation)[0].model_fields
    return f"{name}: no such key; {close_matches(str(loc[-1]), names)}"


def _message(path: str, problems: Iterable[str], lines: Mapping[str, int]) -> str:
    """Return one message with all problems, sorted by line."""
    placed = sorted((_line_of(problem.partition(":")[0], lines), problem) for problem in problems)
    rows = [f"line {line}: {problem}" if line else problem for line, problem in placed]
    return f"{path}:" + (f" {rows[0]}" if len(rows) == 1 else "".join(f"\n  {row}" for row in rows))


def _line_of(key: str, lines: Mapping[str, int]) -> int:
    """Return the line of a dotted key, or of its section; 0 without a line."""
    while key and key not in lines:
        key = key.rpartition(".")[0]
    return lines.get(key, 0)


def as_yaml(content: Mapping[str, Any]) -> str:
    """Return the content of a file as YAML, in the order of its keys."""
    import yaml

    return str(yaml.safe_dump(dict(content), sort_keys=False, allow_unicode=True, width=120))


def json_schema() -> dict[str, Any]:
    """Return the JSON schema of the file, for editors."""
    schema = EvaluationFile.model_json_schema()
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": FILE_NAME}
