"""`ragtasks init`: writes `evaluation.yaml` from prompts at a terminal, or from options."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from ragtasks.cli.app import app, echo, may_be_replaced
from ragtasks.cli.options import BENCHMARK, DATA, FORCE
from ragtasks.cli.score import is_of_own_rows
from ragtasks.clients import model_names
from ragtasks.config import SAMPLE_ENCODER, SUBJECTS, checked_text, json_schema
from ragtasks.config.environment import secret
from ragtasks.errors import ConfigurationError, ModelError, RagtasksError, shortened_list
from ragtasks.files import write_atomically
from ragtasks.records import Setting

_SUBJECTS = {
    "server": "a model behind an OpenAI-compatible server",
    "weights": "a model with local weights",
    "answers": "a file with answers of your own system, to a benchmark or to your own questions",
    "traces": "traces of your own system (OpenTelemetry, OpenInference)",
    "endpoint": "your own running system, by its address",
    "retriever": "a retriever",
    "baseline": "a baseline without a model, for a first try",
}

_SETTINGS = {
    Setting.REFERENCE.value: "the passages that answer the question",
    Setting.REFERENCE_RAG.value: "the same, filled up to five with retrieved passages",
    Setting.FULL_RAG.value: "the five best passages of a retriever",
    Setting.AGENTIC.value: "the passages that the model searches for",
}
_SECONDS, _MOST_NAMES = 3.0, 5
_FILES = {"answers": ("File of answers", "answers.jsonl"), "traces": ("File of spans", "spans.jsonl")}


@app.command()
def init(  # noqa: PLR0917 (one parameter an option)
    model: Annotated[
        str | None, typer.Option(help="Model: its name at --server, local weights, openai/NAME, or a baseline.")
    ] = None,
    server: Annotated[
        str | None, typer.Option(help="Address of the model's server, such as http://localhost:8000/v1.")
    ] = None,
    answers: Annotated[
        str | None, typer.Option(help="File with answers of your own system, or with your own rows.")
    ] = None,
    traces: Annotated[str | None, typer.Option(help="File with traces (spans) of your own system.")] = None,
    endpoint: Annotated[str | None, typer.Option(help="Address of your own running system.")] = None,
    protocol: Annotated[str, typer.Option(help="Protocol of the endpoint: openai or plain.")] = "openai",
    retriever: Annotated[str | None, typer.Option(help="Retriever: bm25, dense:minilm, run:FILE, ...")] = None,
    benchmark: BENCHMARK = "mtrag",
    setting: Annotated[
        list[Setting] | None,
        typer.Option(metavar="<setting>", help="Setting: reference, reference_rag, full_rag, agentic; repeatable."),
    ] = None,
    data: DATA = None,
    judge: Annotated[list[str] | None, typer.Option(help="LLM judge, such as openai/NAME; repeatable.")] = None,
    output: Annotated[Path, typer.Option(help="File to write.")] = Path("evaluation.yaml"),
    force: FORCE = False,
    schema: Annotated[bool, typer.Option("--schema", help="Print the JSON schema of the file.", hidden=True)] = False,
) -> None:
    """Write evaluation.yaml: the system, the data, the judges."""
    if schema:
        import json

        echo(json.dumps(json_schema(), indent=2, ensure_ascii=False))
        return
    sections: dict[str, dict[str, Any]] = {
        "model": {"name": model, **({"server": server} if server else {})},
        "answers": {"file": answers},
        "traces": {"file": traces},
        "endpoint": {"base_url": endpoint, "protocol": protocol},
        "retriever": {"line": retriever},
    }
    named = [key for key, section in sections.items() if next(iter(section.values())) is not None]
    if len(named) > 1:
        raise ConfigurationError(
            f"init: {' and '.join('--' + key for key in named)} exclude each other. Next step: name one"
        )
    for option, address in (("--server", server), ("--endpoint", endpoint)):
        if address and "://" not in address:
            raise ConfigurationError(f"init: {option} {address}: no scheme. Next step: write http://{address}")
    if server is not None and model is None:
        raise ConfigurationError("init: --server requires a model. Next step: add --model with its name at the server")
    if output.exists() and not may_be_replaced([output], force=force):
        raise ConfigurationError(f"{output} exists. Next step: --force replaces it, --output names another")
    request: dict[str, Any] = {"benchmark": benchmark, "settings": [choice.value for choice in setting or ()]}
    request |= {"data": data, "judges": list(judge or ())}
    if named:
        request[named[0]] = sections[named[0]]
        if _is_of_own_rows(request) and (data or setting):
            raise ConfigurationError(
                f"init: {answers or traces} contains its own questions. Next step: leave out --data and --setting"
            )
    elif at_terminal():
        request |= _questions()
    else:
        raise ConfigurationError(
            "init: standard input is not a terminal. Next step: name the system by --model, --answers, --traces, "
            "--endpoint or --retriever, such as ragtasks init --model ragtasks-extractive --data sample"
        )
    _write(output, request)


def at_terminal() -> bool:
    """Return whether standard input is a terminal."""
    return sys.stdin.isatty()


def _questions() -> dict[str, Any]:
    """Return the user's replies to the prompts."""
    keys = list(_SUBJECTS)
    echo("What do you want to evaluate? Enter accepts the value in brackets.")
    echo(*(f"  {number}  {_SUBJECTS[key]}" for number, key in enumerate(keys, 1)))
    while (number := typer.prompt("Number", default=1, type=int)) not in range(1, len(keys) + 1):
        echo(f"  expected a number from 1 to {len(keys)}")
    chosen = keys[number - 1]
    replies = _ask_subject(chosen)
    if _is_of_own_rows(replies):
        return replies | {"judges": _ask_judges()}
    echo("The benchmark: mtrag, mtrag_un, multihop_rag, ..., or custom for your own folder")
    replies["benchmark"] = typer.prompt("Benchmark", default="mtrag")
    echo("Its files: `sample` (part of the package), `fetched` (official, by `ragtasks data fetch`), or a folder")
    data = typer.prompt("Data", default="sample")
    replies["data"] = None if data == "fetched" else data
    if chosen != "retriever":
        default = "full_rag" if chosen in {"answers", "endpoint"} else "all"
        echo("The passages for each answer:", *(f"  {name:15}{text}" for name, text in _SETTINGS.items()))
        settings = typer.prompt("Settings, separated by commas, or all", default=default)
        replies["settings"] = [] if settings == "all" else [name.strip() for name in settings.split(",")]
        replies["judges"] = _ask_judges()
    return replies


def _ask_judges() -> list[str]:
    echo("A model that rates the answers, such as openai/gpt-4o-mini, or `none` for metrics without a judge")
    judges = typer.prompt("LLM judge", default="none")
    return [] if judges == "none" else [judges]


def _is_of_own_rows(request: dict[str, Any]) -> bool:
    """Return whether the evaluated file contains its own questions."""
    return "traces" in request or ("answers" in request and is_of_own_rows(Path(request["answers"]["file"]), None))


def _ask_subject(chosen: str) -> dict[str, Any]:
    if chosen == "server":
        address, name = _ask_model(typer.prompt("Address of the server", default="http://localhost:8000/v1"))
        return {"model": {"name": name, "server": address}}
    if chosen == "weights":
        name = typer.prompt("Weights: name on the Hugging Face hub, or a folder", default="Qwen/Qwen2.5-7B-Instruct")
        return {"model": {"name": name, "kind": typer.prompt("Backend: hf or vllm", default="hf")}}
    if chosen in _FILES:
        return {chosen: {"file": typer.prompt(*_FILES[chosen])}}
    if chosen == "endpoint":
        address = typer.prompt("Address of your system", default="http://localhost:8010")
        echo("Its protocol: openai (chat completions), or plain ({id, messages} in, {answer, contexts} out)")
        return {"endpoint": {"base_url": address, "protocol": typer.prompt("Protocol", default="plain")}}
    if chosen == "retriever":
        return {"retriever": {"line": typer.prompt("Retriever: bm25, dense:minilm, hybrid(...)", default="bm25")}}
    return {"model": {"name": "ragtasks-extractive"}}


def _ask_model(address: str) -> tuple[str, str]:
    """Return the address of a server, with /v1 if only that lists models, and the name of a model."""
    problems = []
    for candidate in (address, f"{address.rstrip('/')}/v1"):
        try:
            if names := model_names(candidate, secret, _SECONDS):
                echo(f"  {candidate} has {shortened_list(names, _MOST_NAMES)}")
                return candidate, typer.prompt("Name of the model", default=names[0])
        except ModelError as error:
            problems.append(str(error))
    echo(f"  {address} lists no models ({', '.join(problems[:1]) or 'the list is empty'})")
    while not (name := typer.prompt("Name of the model at the server", default="", show_default=False)):
        echo("  expected a name, such as Qwen/Qwen2.5-7B-Instruct")
    return address, str(name)


def _write(output: Path, request: dict[str, Any]) -> None:
    text = _text(request)
    checked_text(text, str(output))
    output.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(output, text.encode())
    echo(f"wrote {output}")
    if "\n  encoder: none" in text:
        echo(
            "the encoder of BERTScore is not installed, so the main score rb_alg will be unscored; for rb_alg: "
            "pip install 'ragtasks[semantic]', and remove `encoder: none` from the file"
        )
    echo(f"next: {shlex.join(['ragtasks', 'eval', str(output)])}")


def _text(request: dict[str, Any]) -> str:
    """Return the evaluation file, with common further keys as comments."""
    subject = next(key for key in SUBJECTS if key in request)
    lines = [
        "# An evaluation: `ragtasks eval FILE` runs it; --dry-run only checks it and estimates the cost.",
        "# All keys: docs/evaluate-a-model.md; for an editor: ragtasks init --schema > evaluation.schema.json",
        "",
    ]
    data = None
    if not _is_of_own_rows(request):
        data = request["data"]
        lines += [*_benchmark_lines(subject, request), ""]
    lines += [f"{subject}:", *(f"  {key}: {_yaml(value)}" for key, value in request[subject].items())]
    lines += [f"  {line}" for line in _HINTS[_hints_for(subject, request[subject])]]
    if subject != "retriever":
        judges = request["judges"]
        line = f"judges: {_yaml(judges)}" if judges else "# judges: [openai/gpt-4o-mini]"
        lines += ["", f"{line}  # LLM judges; the key is read from the environment (OPENAI_API_KEY)"]
        unscored = "BERTScore" if _is_of_own_rows(request) else "BERTScore and rb_alg"
        no_encoder = "  encoder: none" if data == "sample" and not _has_sample_encoder() else "  # encoder: none"
        lines += [
            "",
            "options:  # other options of the evaluation",
            f"{no_encoder}  # leaves {unscored} unscored",
            "  max_implausible: 0.2  # maximum share of implausible answers; above it the exit status is 3",
        ]
    lines += [
        "",
        "# output: results/mine  # default: a folder in results/ named by model, benchmark and time",
        "# report: {html: page.html}  # default: page.html in the folder of the results; null: no page",
    ]
    return "\n".join(lines) + "\n"


def _benchmark_lines(subject: str, request: dict[str, Any]) -> list[str]:
    """Return the lines for benchmark, settings and data."""
    lines = [f"benchmark: {_yaml(request['benchmark'])}"]
    if subject != "retriever":
        settings = request["settings"] or (["full_rag"] if subject in {"answers", "endpoint"} else [])
        line = f"settings: {_yaml(settings)}" if settings else "# settings: [reference, full_rag]"
        lines.append(f"{line}  # source of the passages: reference, reference_rag, full_rag; default: all available")
    line = f"data: {_yaml(request['data'])}" if request["data"] else "# data: sample"
    return [*lines, f"{line}  # `sample` is part of the package; default: the fetched files"]


_HINTS = {
    "server": (
        "concurrent: 32  # concurrent requests",
        "# api_key_env: MY_KEY  # environment variable with the server's key",
        "# limit: 20  # only the first 20 prompts of each harness task",
        "# generation: {temperature: 0.0}",
    ),
    "weights": (
        "# arguments: {dtype: bfloat16}  # as in lm_eval's --model_args",
        "# batch_size: 8",
        "# limit: 20  # only the first 20 prompts of each harness task",
    ),
    "baseline": ("# limit: 20  # only the first 20 prompts of each harness task",),
    "answers": ("# name: my-system  # in tables; default: the file's",),
    "traces": ("# name: my-system  # in tables; default: the file's",),
    "endpoint": (
        "# name: my-system  # in tables",
        "# slots: 8  # concurrent requests",
        "# arms: {full: {}, compacted: {extra_body: {compact: true}}}  # variants, compared on equal questions",
    ),
    "retriever": ("queries: [last_turn]  # query forms, one run each: rewrite, all_questions, ...", "# depth: 100"),
}


def _hints_for(subject: str, section: dict[str, Any]) -> str:
    if subject != "model":
        return subject
    if section.get("server") or str(section["name"]).startswith("openai/"):
        return "server"
    return "baseline" if str(section["name"]).startswith("ragtasks-") else "weights"


def _has_sample_encoder() -> bool:
    """Return whether BERTScore's encoder for the sample is installed."""
    from ragtasks.metrics import check_encoder, resolve_encoder

    try:
        check_encoder(resolve_encoder(SAMPLE_ENCODER))
    except RagtasksError:
        return False
    return True


def _yaml(value: Any) -> str:
    """Return a value as YAML on one line."""
    import yaml

    return str(yaml.safe_dump(value, default_flow_style=True, width=10_000)).removesuffix("...\n").strip()
