"""`ragtasks init`: writes `evaluation.yaml` from questions at a terminal, or from options."""

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
    "weights": "a model whose weights run here",
    "answers": "a file with the answers of your own system, to a benchmark or to questions of your own",
    "traces": "traces of your own system (OpenTelemetry, OpenInference)",
    "endpoint": "your own system behind an address",
    "retriever": "a retriever",
    "baseline": "a baseline without a model, to see how it works",
}

_SETTINGS = {
    Setting.REFERENCE.value: "those that answer the question",
    Setting.REFERENCE_RAG.value: "these, filled up to five with retrieved ones",
    Setting.FULL_RAG.value: "the five best of a retriever",
    Setting.AGENTIC.value: "those that the model searches for",
}
_SECONDS, _MOST_NAMES = 3.0, 5
_FILES = {"answers": ("File of answers", "answers.jsonl"), "traces": ("File of spans", "spans.jsonl")}


@app.command()
def init(  # noqa: PLR0917 (one parameter an option)
    model: Annotated[
        str | None, typer.Option(help="A model: its name at --server, weights here, openai/NAME, or a baseline.")
    ] = None,
    server: Annotated[str | None, typer.Option(help="Address of the model's server: http://localhost:8000/v1.")] = None,
    answers: Annotated[
        str | None, typer.Option(help="File with the answers of your own system, or with rows of your own.")
    ] = None,
    traces: Annotated[str | None, typer.Option(help="File with traces of your own system: spans.")] = None,
    endpoint: Annotated[str | None, typer.Option(help="Address of your own system, running.")] = None,
    protocol: Annotated[str, typer.Option(help="How the endpoint is asked: openai or plain.")] = "openai",
    retriever: Annotated[str | None, typer.Option(help="A retriever: bm25, dense:minilm, run:FILE, ...")] = None,
    benchmark: BENCHMARK = "mtrag",
    setting: Annotated[
        list[Setting] | None,
        typer.Option(
            metavar="<setting>", help="Setting to evaluate in: reference, reference_rag, full_rag, agentic; repeatable."
        ),
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
        raise ConfigurationError(f"init: names {' and '.join('--' + key for key in named)}. Next step: name one")
    for option, address in (("--server", server), ("--endpoint", endpoint)):
        if address and "://" not in address:
            raise ConfigurationError(f"init: {option} {address}: no scheme. Next step: write http://{address}")
    if server is not None and model is None:
        raise ConfigurationError("init: --server has no model. Next step: add --model, its name at the server")
    if output.exists() and not may_be_replaced([output], force=force):
        raise ConfigurationError(f"{output} is there already. Next step: --force replaces it, --output names another")
    asked: dict[str, Any] = {"benchmark": benchmark, "settings": [item.value for item in setting or ()]}
    asked |= {"data": data, "judges": list(judge or ())}
    if named:
        asked[named[0]] = sections[named[0]]
        if _is_of_own_rows(asked) and (data or setting):
            raise ConfigurationError(
                f"init: {answers or traces} holds questions of its own. Next step: leave out --data and --setting"
            )
    elif at_terminal():
        asked |= _questions()
    else:
        raise ConfigurationError(
            "init: there is no terminal to ask at. Next step: name what is evaluated by --model, --answers, --traces, "
            "--endpoint or --retriever, such as ragtasks init --model ragtasks-extractive --data sample"
        )
    _write(output, asked)


def at_terminal() -> bool:
    """Return whether somebody is there to be asked."""
    return sys.stdin.isatty()


def _questions() -> dict[str, Any]:
    """Return what somebody at the terminal answers."""
    keys = list(_SUBJECTS)
    echo("What is evaluated? Enter accepts the value in brackets.")
    echo(*(f"  {number}  {_SUBJECTS[key]}" for number, key in enumerate(keys, 1)))
    while (number := typer.prompt("Number", default=1, type=int)) not in range(1, len(keys) + 1):
        echo(f"  expected a number from 1 to {len(keys)}")
    chosen = keys[number - 1]
    found = _ask_subject(chosen)
    if _is_of_own_rows(found):
        return found | {"judges": _ask_judges()}
    echo("The questions: mtrag, mtrag_un, multihop_rag, ..., or custom for a folder of your own")
    found["benchmark"] = typer.prompt("Benchmark", default="mtrag")
    echo("Its files: `sample` (in the package, to try it), `fetched` (official, by `ragtasks data fetch`), or a folder")
    data = typer.prompt("Data", default="sample")
    found["data"] = None if data == "fetched" else data
    if chosen != "retriever":
        default = "full_rag" if chosen in {"answers", "endpoint"} else "all"
        echo("The passages that an answer is based on:", *(f"  {name:15}{text}" for name, text in _SETTINGS.items()))
        settings = typer.prompt("Settings, with commas between, or all", default=default)
        found["settings"] = [] if settings == "all" else [name.strip() for name in settings.split(",")]
        found["judges"] = _ask_judges()
    return found


def _ask_judges() -> list[str]:
    echo("A model that rates the answers, such as openai/gpt-4o-mini; `none`: metrics without a judge")
    judges = typer.prompt("LLM judge", default="none")
    return [] if judges == "none" else [judges]


def _is_of_own_rows(asked: dict[str, Any]) -> bool:
    """Return whether what is evaluated brings its own questions."""
    return "traces" in asked or ("answers" in asked and is_of_own_rows(Path(asked["answers"]["file"]), None))


def _ask_subject(chosen: str) -> dict[str, Any]:
    if chosen == "server":
        address, name = _ask_model(typer.prompt("Address of the server", default="http://localhost:8000/v1"))
        return {"model": {"name": name, "server": address}}
    if chosen == "weights":
        name = typer.prompt("Weights: a name of the hub, or a folder", default="Qwen/Qwen2.5-7B-Instruct")
        return {"model": {"name": name, "kind": typer.prompt("Run by hf or vllm", default="hf")}}
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
    """Return the address of a server, with the /v1 that it may need, and the name of one of its models."""
    problems = []
    for candidate in (address, f"{address.rstrip('/')}/v1"):
        try:
            if names := model_names(candidate, secret, _SECONDS):
                echo(f"  {candidate} has {shortened_list(names, _MOST_NAMES)}")
                return candidate, typer.prompt("Name of the model", default=names[0])
        except ModelError as error:
            problems.append(str(error))
    echo(f"  {address} lists no model ({', '.join(problems[:1]) or 'its list is empty'})")
    while not (name := typer.prompt("Name of the model, as the server knows it", default="", show_default=False)):
        echo("  a name is needed, such as Qwen/Qwen2.5-7B-Instruct")
    return address, str(name)


def _write(output: Path, asked: dict[str, Any]) -> None:
    text = _text(asked)
    checked_text(text, str(output))
    output.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(output, text.encode())
    echo(f"wrote {output}")
    if "\n  encoder: none" in text:
        echo(
            "without BERTScore, as its encoder is not installed: the main score rb_alg stays unscored; "
            "pip install 'ragtasks[semantic]' and leave `encoder: none` out for it"
        )
    echo(f"next: {shlex.join(['ragtasks', 'eval', str(output)])}")


def _text(asked: dict[str, Any]) -> str:
    """Return the file: what was asked for as keys, what may be wanted next as comments."""
    subject = next(key for key in SUBJECTS if key in asked)
    lines = [
        "# An evaluation: `ragtasks eval FILE` runs it, with --dry-run it only looks at what that will take.",
        "# All keys: docs/evaluate-a-model.md; for an editor: ragtasks init --schema > evaluation.schema.json",
        "",
    ]
    data = None
    if not _is_of_own_rows(asked):
        data = asked["data"]
        lines += [*_benchmark_lines(subject, asked), ""]
    lines += [f"{subject}:", *(f"  {key}: {_yaml(value)}" for key, value in asked[subject].items())]
    lines += [f"  {line}" for line in _HINTS[_hints_for(subject, asked[subject])]]
    if subject != "retriever":
        judges = asked["judges"]
        line = f"judges: {_yaml(judges)}" if judges else "# judges: [openai/gpt-4o-mini]"
        lines += ["", f"{line}  # LLM judges; the key comes from the environment (OPENAI_API_KEY)"]
        unscored = "BERTScore" if _is_of_own_rows(asked) else "BERTScore, and rb_alg with it,"
        no_encoder = "  encoder: none" if data == "sample" and not _has_sample_encoder() else "  # encoder: none"
        lines += [
            "",
            "options:  # every other option of an evaluation",
            f"{no_encoder}  # leaves {unscored} unscored",
            "  max_implausible: 0.2  # share of answers that cannot be answers above which the status is 3",
        ]
    lines += [
        "",
        "# output: results/mine  # default: a folder below results/ named by model, benchmark and time",
        "# report: {html: page.html}  # default: page.html in the folder of the results; html: null writes none",
    ]
    return "\n".join(lines) + "\n"


def _benchmark_lines(subject: str, asked: dict[str, Any]) -> list[str]:
    """Return the lines on what is answered; rows of one's own need none."""
    lines = [f"benchmark: {_yaml(asked['benchmark'])}"]
    if subject != "retriever":
        settings = asked["settings"] or (["full_rag"] if subject in {"answers", "endpoint"} else [])
        line = f"settings: {_yaml(settings)}" if settings else "# settings: [reference, full_rag]"
        lines.append(f"{line}  # where passages come from: reference, reference_rag, full_rag; default: all there are")
    line = f"data: {_yaml(asked['data'])}" if asked["data"] else "# data: sample"
    return [*lines, f"{line}  # `sample` is inside the package; without this line the fetched files are read"]


_HINTS = {
    "server": (
        "concurrent: 32  # requests that are open at once",
        "# api_key_env: MY_KEY  # the environment variable that holds the server's key",
        "# limit: 20  # only the first 20 prompts of each harness task, to try it",
        "# generation: {temperature: 0.0}",
    ),
    "weights": (
        "# arguments: {dtype: bfloat16}  # as after lm_eval's --model_args",
        "# batch_size: 8",
        "# limit: 20  # only the first 20 prompts of each harness task, to try it",
    ),
    "baseline": ("# limit: 20  # only the first 20 prompts of each harness task",),
    "answers": ("# name: my-system  # in tables; default: the file's",),
    "traces": ("# name: my-system  # in tables; default: the file's",),
    "endpoint": ("# name: my-system  # in tables", "# slots: 8  # requests that are open at once"),
    "retriever": ("queries: [last_turn]  # query forms, each a run: rewrite, all_questions, ...", "# depth: 100"),
}


def _hints_for(subject: str, section: dict[str, Any]) -> str:
    if subject != "model":
        return subject
    if section.get("server") or str(section["name"]).startswith("openai/"):
        return "server"
    return "baseline" if str(section["name"]).startswith("ragtasks-") else "weights"


def _has_sample_encoder() -> bool:
    """Return whether the sample's answers can have a BERTScore here."""
    from ragtasks.metrics import check_encoder, resolve_encoder

    try:
        check_encoder(resolve_encoder(SAMPLE_ENCODER))
    except RagtasksError:
        return False
    return True


def _yaml(value: Any) -> str:
    """Return a value as it stands behind a key."""
    import yaml

    return str(yaml.safe_dump(value, default_flow_style=True, width=10_000)).removesuffix("...\n").strip()
