"""`evaluation.yaml`: what is evaluated, on what, by whom it is judged and where results go, in one file.

One model declares every key; `ragtasks.config.EvaluationConfig` declares those of `options`. The file holds no key of a
server: it names the environment variable that does.
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
"""What `ragtasks init` writes, and the name of its copy beside the results."""
BASELINES = (
    *("ragtasks-extractive", "ragtasks-oracle", "ragtasks-refuse", "ragtasks-refuse-on-empty"),
    *("ragtasks-agent-once", "ragtasks-agent-rewrite", "ragtasks-agent-oracle"),
)
"""Models that need neither weights nor a server."""
SUBJECTS = ("model", "answers", "traces", "endpoint", "retriever")
"""What can be evaluated: a file names one of them."""

_OPENAI = "openai/"
_CONCURRENT = 32
_STRICT = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True, protected_namespaces=())
_BATCH_SIZE = re.compile(r"[1-9][0-9]*|auto(:[1-9][0-9]*)?")
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9.-]+")


def _or_name(schema: dict[str, Any]) -> None:
    """Let a section be named by its name alone in the schema."""
    schema["anyOf"].insert(0, {"type": "string"})


def _several(value: Any) -> Any:
    """Take one value for a list of one, and tasks behind commas as lm_eval does."""
    return value.split(",") if isinstance(value, str) else [value] if isinstance(value, Mapping) else value


def _filled(value: Any) -> Any:
    """Refuse an empty text where a path is due, which would be the working directory."""
    if value == "":
        raise ValueError("expected a path")
    return value


class ModelSection(BaseModel):
    """A model that answers the benchmark's prompts: behind a server, of weights here, or a baseline."""

    model_config = _STRICT

    name: str = Field(
        min_length=1,
        description="the model's name at its server, weights as a name of the hub or a folder, `openai/NAME`, or a "
        f"baseline ({', '.join(BASELINES)})",
    )
    server: str | None = Field(
        None, description="address of an OpenAI-compatible server, such as http://localhost:8000/v1"
    )
    kind: str | None = Field(
        None,
        description="lm_eval's name of the kind of model, such as hf, vllm or local-completions; default: "
        "local-chat-completions with `server`, openai-chat-completions for openai/NAME, else hf",
    )
    api_key_env: str | None = Field(
        None,
        pattern=r"^[A-Za-z_][A-Za-z0-9_]*$",
        description="environment variable that holds the server's key; default: OPENAI_API_KEY if it is set",
    )
    chat: bool = Field(True, description="whether the model takes chat messages; `false` sends plain text")
    concurrent: int = Field(_CONCURRENT, ge=1, description="requests that are open at the server at once")
    batch_size: int | str | None = Field(None, description="prompts that weights here answer at once, or `auto`")
    limit: int | None = Field(None, ge=1, description="only the first so many prompts of each harness task, to try it")
    arguments: dict[str, Any] = Field(
        default_factory=dict, description="further arguments of the model, as after lm_eval's --model_args"
    )
    generation: dict[str, Any] = Field(
        default_factory=dict, description="how answers are sampled, as after lm_eval's --gen_kwargs"
    )

    @field_validator("name")
    @classmethod
    def _is_known(cls, value: str) -> str:
        if value.startswith("ragtasks-") and value not in BASELINES:
            raise ValueError(f"no such baseline; {close_matches(value, BASELINES)}")
        return value

    @field_validator("server")
    @classmethod
    def _is_an_address(cls, value: str | None) -> str | None:
        try:
            if value is not None:
                endpoint_of({"model": "model", "base_url": value})
        except RagtasksError as error:
            raise ValueError(str(error).removeprefix("endpoint: base_url ")) from None
        return value

    @field_validator("batch_size", mode="before")
    @classmethod
    def _is_a_size(cls, value: Any) -> Any:
        is_size = isinstance(value, int) and not isinstance(value, bool) and value > 0
        if value is None or is_size or (isinstance(value, str) and _BATCH_SIZE.fullmatch(value)):
            return value
        raise ValueError("expected a whole number of 1 or more, or `auto`")

    @field_validator("arguments", "generation")
    @classmethod
    def _has_values(cls, value: dict[str, Any]) -> dict[str, Any]:
        if glued := next((key for key, item in value.items() if item is None and ":" in str(key)), None):
            raise ValueError(f"{glued} is one word to YAML; write {glued.replace(':', ': ')}, with a space")
        return value

    @model_validator(mode="after")
    def _has_its_server(self) -> ModelSection:
        if "base_url" in self.arguments and (self.server is not None or self.kind is None):
            raise ValueError("arguments.base_url: a server's address stands under `server`")
        return self

    @property
    def is_baseline(self) -> bool:
        """Whether it reads the doc and asks nobody."""
        return self.name in BASELINES

    @property
    def harness_kind(self) -> str:
        """The harness's name of its kind."""
        if self.kind is not None or self.is_baseline:
            return self.kind or self.name
        if self.server is not None:
            return "local-chat-completions" if self.chat else "local-completions"
        return "openai-chat-completions" if self.name.startswith(_OPENAI) else "hf"

    @property
    def is_remote(self) -> bool:
        """Whether its kind is one of the harness's for servers."""
        return self.harness_kind.endswith("completions")

    @property
    def harness_arguments(self) -> dict[str, Any]:
        """What its kind is loaded with, without any key."""
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
    """A file with the answers or traces of one's own system."""

    model_config = _STRICT

    file: Path = Field(
        description="answers: id, answer, and contexts where the system retrieved any; or your rows: "
        "question, answer, contexts; traces: spans of OpenTelemetry or OpenInference"
    )
    name: str | None = Field(None, min_length=1, description="the system's name in tables; default: the file's")


class AnswersSection(FileSection):
    """A file with the answers of one's own system, and its keys."""

    keys: dict[str, str] = Field({}, description="keys of the file that are not known: {answer: response}")


class RetrieverSection(BaseModel):
    """A retriever whose rankings are judged by the benchmark's qrels."""

    model_config = _STRICT

    line: str = Field(min_length=1, description="such as bm25, dense:minilm, hybrid(bm25,dense:minilm), run:FILE")
    queries: Annotated[tuple[str, ...], ONE_OR_SEVERAL] = Field(
        ("last_turn",), min_length=1, description="query forms, each a run: last_turn, rewrite, decompose, ..."
    )
    depth: int = Field(100, ge=1, description="passages kept for each query")
    rewriter: str | None = Field(
        None, min_length=1, description="endpoint for the forms llm_rewrite and decompose, such as openai/NAME"
    )
    corpora: dict[str, str] = Field(
        default_factory=dict, description="domain -> location of another corpus that is searched for it"
    )
    encode_with: str | None = Field(None, min_length=1, description="encode passages on other machines: KIND[:ADDRESS]")

    @field_validator("queries")
    @classmethod
    def _are_different(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if twice := sorted({name for name in value if value.count(name) > 1}):
            raise ValueError(f"{', '.join(twice)} stands twice; leave one out")
        return value


class ReportSection(BaseModel):
    """The page that `ragtasks eval` writes."""

    model_config = _STRICT

    html: Annotated[Path, BeforeValidator(_filled)] | None = Field(
        None, description="file for the page, null for none; default: page.html beside the results"
    )


class EstimateSection(BaseModel):
    """What the estimate before an evaluation is made with."""

    model_config = _STRICT

    tokenizer: str | None = Field(
        None, min_length=1, description="tokeniser that counts the tokens of prompts; default: the model's, or a guess"
    )
    prompts_per_minute: float | None = Field(None, gt=0, description="the model's rate, for the hours of --dry-run")


class UntilDecidedSection(BaseModel):
    """Saved results that the evaluated system is judged beside, until it can be told which is better."""

    model_config = _STRICT

    against: Annotated[tuple[Path, ...], ONE_OR_SEVERAL] = Field(
        min_length=1, description="results of other systems, a path or several"
    )
    metric: str | None = Field(
        None, min_length=1, description="metric of judges that decides; default: the first that the benchmark has"
    )
    margin: float | None = Field(
        None, gt=0, description="systems that differ by less are equal; default: 5 % of the metric's range"
    )
    seed: int = Field(0, description="another one asks in another order")


class SystemSection(Endpoint):
    """Your own system behind HTTP: the schema of `endpoint`, which `named_system` reads."""

    model: str = "rag-system"
    base_url: str
    name: str = Field("rag-system", description="the system's name in tables")
    protocol: SystemProtocol = Field(SystemProtocol.OPENAI, description="how it is asked; default: openai")


class EvaluationFile(BaseModel):
    """All of an evaluation."""

    model_config = _STRICT

    benchmark: str = Field(
        "mtrag",
        min_length=1,
        description="such as mtrag, mtrag_un, multihop_rag, custom; `rows`: answers to questions of your own, as is a "
        "file of answers with questions where no benchmark is named",
    )
    settings: Annotated[
        tuple[Setting, ...], BeforeValidator(_several, json_schema_input_type=Setting | tuple[Setting, ...])
    ] = Field(
        (), description="where passages come from; default: all that the benchmark has, full_rag for your own system"
    )
    tasks: Annotated[tuple[str, ...], BeforeValidator(_several, json_schema_input_type=str | tuple[str, ...])] = Field(
        (), description="harness tasks of a model, in the place of benchmark and settings"
    )
    data: str | None = Field(None, description=EvaluationConfig.model_fields["data"].description)
    model: ModelSection | None = Field(
        None, description="a model, by its name alone or with these keys", json_schema_extra=_or_name
    )
    answers: AnswersSection | None = Field(
        None, description="answers of your own system, by the file alone or so", json_schema_extra=_or_name
    )
    traces: FileSection | None = Field(
        None,
        description="traces of your own system, without any benchmark, by the file alone or so",
        json_schema_extra=_or_name,
    )
    endpoint: Annotated[
        dict[str, Any] | None,
        BeforeValidator(lambda given: given, json_schema_input_type=str | SystemSection | None),
    ] = Field(None, description="your own system behind HTTP, by its address alone or with the keys of an endpoint")
    retriever: RetrieverSection | None = Field(
        None, description="a retriever, by its line alone or with these keys", json_schema_extra=_or_name
    )
    judges: Annotated[tuple[Any, ...], BeforeValidator(_several, json_schema_input_type=NAMED_JUDGES)] = Field(
        (), description=EvaluationConfig.model_fields["judges"].description
    )
    options: Annotated[
        dict[str, Any], BeforeValidator(lambda given: given, json_schema_input_type=EvaluationConfig)
    ] = Field(default_factory=dict, description="further options of the evaluation")
    output: Annotated[Path, BeforeValidator(_filled)] | None = Field(
        None, description="folder for the results; default: one below results/ named by model, benchmark and time"
    )
    report: ReportSection | None = Field(None, description="the page that is written")
    estimate: EstimateSection | None = Field(None, description="how tokens and hours are estimated beforehand")
    gate: GateConfig | None = Field(None, description="margins and baseline of `ragtasks gate`")
    until_decided: UntilDecidedSection | None = Field(
        None,
        description="results to judge this system beside, by their path alone or with these keys, until decided",
        json_schema_extra=_or_name,
    )

    @field_validator("endpoint")
    @classmethod
    def _can_be_named(cls, value: dict[str, Any] | None) -> dict[str, Any] | None:
        if value is not None:
            try:
                named_system(value)
            except RagtasksError as error:
                raise ValueError(str(error).removeprefix("endpoint: ")) from None
        return value

    @model_validator(mode="after")
    def _names_one_subject(self) -> EvaluationFile:
        named = [key for key in SUBJECTS if getattr(self, key) is not None]
        if len(named) > 1:
            raise ValueError(f"names {' and '.join(named)}: one file evaluates one of {', '.join(SUBJECTS)}")
        if self.traces is not None and {"benchmark", "settings", "data"} & self.model_fields_set:
            raise ValueError("traces: they are rows of your own: leave out benchmark, settings and data")
        if self.tasks and self.model is None:
            raise ValueError("tasks: harness tasks are for a model; name benchmark and settings")
        if self.tasks and self.settings:
            raise ValueError("tasks, settings: name either, as a harness task has its setting")
        return self

    @model_validator(mode="after")
    def _can_be_decided(self) -> EvaluationFile:
        if self.until_decided is None:
            return self
        if not self.judges or self.retriever is not None:
            raise ValueError("until_decided: judges compare answers: name judges, and model, answers or endpoint")
        if len(self.settings) > 1 or (self.model is not None and not self.settings and not self.tasks):
            raise ValueError("until_decided: one setting is decided at a time; name it: `settings: full_rag`")
        if self.options.get("repeats", 1) != 1 or self.options.get("anchors") is not None:
            raise ValueError(
                "until_decided: each answer is judged once, and what noise that has is in the interval already; leave "
                "out options.repeats and options.anchors"
            )
        return self

    @property
    def subject(self) -> str:
        """Which of `SUBJECTS` is evaluated; one must be named."""
        named = [key for key in SUBJECTS if getattr(self, key) is not None]
        if not named:
            raise ConfigurationError(
                f"the file names nothing to evaluate. Next step: add one of {', '.join(SUBJECTS)}, or `ragtasks init`"
            )
        return named[0]

    @property
    def named_benchmark(self) -> str | None:
        """The benchmark, None where the file names none."""
        return self.benchmark if "benchmark" in self.model_fields_set else None

    @property
    def name(self) -> str:
        """What is evaluated, as files are named."""
        if self.model is not None:
            return slug(Path(self.model.name).name)
        for section in (self.answers, self.traces):
            if section is not None:
                return slug(section.name or section.file.stem)
        if self.endpoint is not None:
            return slug(named_system(self.endpoint)[0].model)
        return slug(self.retriever.line if self.retriever is not None else "evaluation")

    @property
    def given_options(self) -> dict[str, Any]:
        """The options as `ragtasks.config` reads them: `data` and `judges` stand outside of them in the file.

        Judges that are asked until decided have no part in the scoring before that.
        """
        outside = {"data": self.data, "judges": None if self.until_decided else list(self.judges) or None}
        return {**self.options, **{key: value for key, value in outside.items() if value is not None}}

    @property
    def config(self) -> EvaluationConfig:
        """The options, checked."""
        return config_from_options(self.given_options)


def named_system(endpoint: Mapping[str, Any]) -> tuple[Endpoint, SystemProtocol]:
    """Return whom the section `endpoint` names, and how it is asked."""
    fields = dict(endpoint)
    if not isinstance(fields.get("name", ""), str):
        raise ConfigurationError("endpoint: name: expected a text")
    return system_endpoint(fields, str(fields.pop("name", "rag-system")), "openai")


def slug(text: str) -> str:
    """Return a text as part of a folder's name."""
    return _NOT_IN_NAMES.sub("-", text).strip("-.") or "evaluation"


# Reading: YAML and `--set` to one mapping, all problems of it at once.

_BY_NAME_ALONE = {
    "model": "name",
    "answers": "file",
    "traces": "file",
    "endpoint": "base_url",
    "retriever": "line",
    "until_decided": "against",
}
FILE_KEYS = tuple(EvaluationFile.model_fields)
"""The keys of a file."""


@dataclass(frozen=True, slots=True)
class ReadEvaluation:
    """A file as it was read."""

    content: dict[str, Any]
    """Its keys and values after `--set`; what is named by its name alone stands as a section."""
    evaluation: EvaluationFile
    """The same, typed."""


def read_evaluation_file(path: Path, overrides: Sequence[str] = ()) -> ReadEvaluation:
    """Return an evaluation file, whose problems are all in one error.

    `overrides` are `key=value` pairs that win, with dotted keys.
    """
    try:
        text = yaml_text(path)
    except FileNotFoundError:
        near = missing_path(path)[1].partition("; ")[2]
        hint = f"; {near}" if near else ""
        raise ConfigurationError(
            f"{path}: there is no such file. Next step: `ragtasks init` writes one{hint}"
        ) from None
    except UnicodeDecodeError:
        raise ConfigurationError(f"{path}: not text in UTF-8. Next step: save it with this encoding") from None
    except OSError as error:
        raise ConfigurationError(
            f"{path}: cannot be read ({error.strerror}). Next step: name the file itself, and check its permissions"
        ) from None
    if path.suffix in {".jsonl", ".csv", ".tsv"}:
        raise ConfigurationError(
            f"{path}: expected an evaluation in YAML, as `ragtasks init` writes it, and found a {path.suffix} file. "
            f"Next step: ragtasks score {path}, or ragtasks init --answers {path}"
        )
    return ReadEvaluation(*_read(text, str(path), overrides))


def checked_text(text: str, name: str) -> None:
    """Refuse a file's text that cannot be read, before it is written."""
    _read(text, name)


def _read(text: str, name: str, overrides: Sequence[str] = ()) -> tuple[dict[str, Any], EvaluationFile]:
    """Return the content of the file, untyped and typed."""
    content, lines = _loaded(text, name)
    _add_names(content)
    for override in overrides:
        _put(content, override)
        _add_names(content)  # a key of what was named just now may follow
    secrets = list(_secrets(content))
    problems = [*secrets, *_of_options(content)]
    evaluation = EvaluationFile.model_validate({})
    try:
        evaluation = EvaluationFile.model_validate(content)
    except ValidationError as error:
        found = [_reported(item["loc"], item["type"], misfit(item)) for item in error.errors()]
        named = {line.partition(":")[0] for line in secrets}
        problems += [line for line in found if line.partition(":")[0] not in named]
    if problems:  # outside the handler: the chained error would show values
        raise ConfigurationError(_listed(name, problems, lines))
    return content, evaluation


def _loaded(text: str, path: str) -> tuple[dict[str, Any], dict[str, int]]:
    """Return a file's mapping, and dotted key -> line."""
    import yaml

    try:
        node, content = read_yaml(text)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f"line {mark.line + 1}: " if mark else ""
        why = str(error) if isinstance(error, ValueError) else getattr(error, "problem", None) or "nested too deeply"
        if "'\\t'" in why:
            why = "a tab begins the line, where blanks must indent"
        step = "correct it; `ragtasks init --output new.yaml` writes another"
        raise ConfigurationError(f"{path}: {where}not YAML: {why}. Next step: {step}") from None
    if content is None:
        content = {}
    if not isinstance(content, dict) or not all(isinstance(key, str) for key in content):
        raise ConfigurationError(f"{path}: expected keys with values, such as `benchmark: mtrag`; `ragtasks init`")
    named = list(_lines(node, ""))
    lines: dict[str, int] = {}
    for key, line in named:
        if lines.setdefault(key, line) != line:
            raise ConfigurationError(f"{path}: line {line}: {key} stands in line {lines[key]} already; leave one out")
    return content, lines


def _lines(node: Any, above: str) -> Iterator[tuple[str, int]]:
    for key, value in node.value if node is not None and node.id == "mapping" else ():
        name = f"{above}{key.value}"
        yield name, key.start_mark.line + 1
        yield from _lines(value, f"{name}.")


def _add_names(content: dict[str, Any]) -> None:
    """Turn what is named by its name alone into a section."""
    for key, name in _BY_NAME_ALONE.items():
        if isinstance(content.get(key), str):
            content[key] = {name: content[key]}


def _put(content: dict[str, Any], override: str) -> None:
    """Put a value at a dotted key; sections that are not there yet are made."""
    import yaml

    key, sign, text = override.partition("=")
    if not sign or not all(key.split(".")):
        raise ConfigurationError(f"--set {override}: expected key=value, such as --set model.limit=20")
    try:
        value = read_yaml(text)[1] if text else None
    except (yaml.YAMLError, RecursionError, ValueError):
        raise ConfigurationError(f"--set {key}: the value is no JSON; quote it, as in --set '{key}=[\"a\"]'") from None
    *above, last = key.split(".")
    place: Any = content
    for part in above:
        inner = place.get(part)
        place[part] = inner if isinstance(inner, dict) else {}
        place = place[part]
    place[last] = value


def _secrets(value: Any, above: str = "") -> Iterator[str]:
    """Yield a line for each key of a server in the file."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            name = f"{above}{key}"
            if is_secret_name(key) and inner:
                yield f"{name}: holds a key; name the environment variable that holds it, `api_key_env`"
            else:
                yield from _secrets(inner, f"{name}.")
    elif isinstance(value, (list, tuple)):
        for inner in value:
            yield from _secrets(inner, above)
    elif isinstance(value, str) and masked_text(value) != value:
        yield f"{above.rstrip('.')}: holds a key or a password; these come from the environment"


def _of_options(content: Mapping[str, Any]) -> Iterator[str]:
    """Yield what is wrong with `options`, `data` and `judges`, in the words of the configuration."""
    options = content.get("options") or {}
    if not isinstance(options, Mapping):
        return  # its type is reported with those of the others
    twice = [key for key in ("data", "judges") if content.get(key) and options.get(key)]
    if twice:
        yield f"{twice[0]}: stands at the top and in options; leave one out"
    # Another type at the top is reported with those of the other keys.
    kinds: dict[str, Any] = {"data": str, "judges": (str, list, Mapping)}
    outside = {key: content[key] for key, kind in kinds.items() if isinstance(content.get(key), kind)}
    unknown = [key for key in options if key not in EvaluationConfig.model_fields]
    for key in unknown:
        yield f"options.{key}: no such option; {close_matches(str(key), EvaluationConfig.model_fields)}"
    for problem in problems_of_options({**{key: options[key] for key in options if key not in unknown}, **outside}):
        yield problem if re.split(r"\W", problem)[0] in outside else f"options.{problem}"


def _reported(loc: tuple[str | int, ...], kind: str, message: str) -> str:
    """Return one line for an error of pydantic."""
    name = ".".join(map(str, loc))
    if kind != "extra_forbidden":
        return f"{name}: {message}" if name else message
    if len(loc) == 1 and loc[0] in EvaluationConfig.model_fields:
        return f"{name}: no such key; it is an option and stands under `options`"
    known: Iterable[str] = FILE_KEYS
    if len(loc) > 1:  # a section's model, beside None
        known = get_args(EvaluationFile.model_fields[str(loc[0])].annotation)[0].model_fields
    return f"{name}: no such key; {close_matches(str(loc[-1]), known)}"


def _listed(path: str, problems: Iterable[str], lines: Mapping[str, int]) -> str:
    """Return one error with all problems, in the order of the file's lines."""
    placed = sorted((_line_of(problem.partition(":")[0], lines), problem) for problem in problems)
    rows = [f"line {line}: {problem}" if line else problem for line, problem in placed]
    return f"{path}:" + (f" {rows[0]}" if len(rows) == 1 else "".join(f"\n  {row}" for row in rows))


def _line_of(key: str, lines: Mapping[str, int]) -> int:
    """Return the line of a dotted key, or of the section around it; 0 where it stands in no line."""
    while key and key not in lines:
        key = key.rpartition(".")[0]
    return lines.get(key, 0)


def written(content: Mapping[str, Any]) -> str:
    """Return a file's content as YAML, in its order."""
    import yaml

    return str(yaml.safe_dump(dict(content), sort_keys=False, allow_unicode=True, width=120))


# The schema, for editors.


def json_schema() -> dict[str, Any]:
    """Return the JSON schema of the file."""
    schema = EvaluationFile.model_json_schema()
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": FILE_NAME}
