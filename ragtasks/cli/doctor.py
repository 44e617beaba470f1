"""`ragtasks doctor`: installed software, fetched data, servers, and the next step."""

from __future__ import annotations

import platform
import sys
import urllib.parse
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Annotated

import typer

from ragtasks.benchmarks import added_benchmark_names, benchmark_names, source_of
from ragtasks.benchmarks.download import FileStatus, verify
from ragtasks.benchmarks.sources import Source, locate
from ragtasks.cli.app import app, echo
from ragtasks.clients import model_names
from ragtasks.config.environment import DATA_VARIABLE, data_folder, data_folder_is_named, secret
from ragtasks.errors import ConfigurationError, ModelError, RagtasksError
from ragtasks.harness.extras import extra_of, extra_requirement, install_line, missing_of, version_of, vllm_requirement
from ragtasks.harness.link import LinkState, link_state
from ragtasks.harness.names import model_types, reject_unknown_model_type
from ragtasks.harness.tasks import task_folder, task_folders
from ragtasks.requirements import Phase, Requirement, checked


@app.command()
def doctor(
    endpoint: Annotated[
        list[str] | None,
        typer.Option(help="Base URL of an OpenAI-compatible server to check; repeatable."),
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="Kind of model whose requirements are checked, as in `run --model`.")
    ] = None,
) -> None:
    """Check installed extras, fetched files and servers.

    The last line is the next step.
    """
    if model is not None:
        reject_unknown_model_type(model, model_types())
    echo(*diagnose(endpoint or [], model))


# Software, tasks, data, endpoints, and the next step.

_TIMEOUT_SECONDS = 5.0
_EXTRAS = {
    "semantic-light": "BERTScore on the small encoder, without torch",
    "semantic": "BERTScore on any encoder, and rb_alg",
    "hf": "--model hf",
    "api": "--model local-chat-completions and similar",
    "judge": "LLM judges and rewriters",
    "retrieval": "retrievers beyond the built-in BM25",
    "report": "pictures",
    "mcp": "search tools for any agent",
}
"""Extra -> its purpose: the extras checked if no model is named."""


def diagnose(endpoints: Sequence[str] = (), model: str | None = None) -> list[str]:
    """Return the findings, one a line. The last line is the next step."""
    steps: list[str] = []
    findings = [*_software(model, steps), *_tasks(), *_data(data_folder(), steps), *_states(map(_endpoint, endpoints))]
    if not endpoints:
        findings.append("endpoints: not checked (ragtasks doctor --endpoint http://localhost:8000/v1)")
    return [*findings, f"next: {[*steps, _first_run(model)][0]}"]


def _states(requirements: Iterable[Requirement]) -> list[str]:
    return [check.problem or f"{check.requirement.part}: {check.state}" for check in checked(requirements)]


def _first_run(model: str | None) -> str:
    arguments = ""
    if model is not None and extra_of(model) == "api":
        path, template = ("chat/completions", " --apply_chat_template") if "chat" in model else ("completions", "")
        arguments = f" --model_args model=NAME,base_url=http://HOST:PORT/v1/{path}{template} --limit 2"
    elif model is not None and extra_of(model):
        arguments = " --model_args pretrained=NAME --limit 2"
    return f"ragtasks run --model {model or 'ragtasks-oracle'} --tasks mtrag --data sample{arguments}"


def _software(model: str | None, steps: list[str]) -> Iterator[str]:
    yield f"python {platform.python_version()} ({sys.executable})"
    yield f"ragtasks {version_of('ragtasks') or 'not installed'}, lm-eval {version_of('lm-eval') or 'not installed'}"
    if model is None:
        yield from _states(extra_requirement(extra, purpose) for extra, purpose in _EXTRAS.items())
        return
    needed = extra_of(model)
    if needed is None:
        yield f"model {model}: has no extra in ragtasks; the harness reports missing packages when it loads the model"
        return
    yield from _states([extra_requirement(needed, f"--model {model}")])
    for check in checked([vllm_requirement()] if needed == "vllm" else []):
        yield check.problem or f"vLLM: {check.state}"
        if check.problem:
            steps.append(check.problem.partition("Next step: ")[2])
    if missing_of(needed):
        steps.append(install_line(needed))


def _tasks() -> Iterator[str]:
    try:
        yield f"task YAMLs: {task_folder()}"
        status = link_state()
    except RagtasksError as error:
        yield f"harness: {error}"
        return
    yield f"stock lm_eval: {status.state.value} ({status.folder})"
    if status.state is not LinkState.HERE:
        yield 'it finds the tasks with --include_path "$(ragtasks tasks path)", or after `ragtasks tasks link`'
    yield from (f"harness tasks of another package: {name} ({folder})" for name, folder in task_folders())


def _data(folder: Path, steps: list[str]) -> Iterator[str]:
    origin = DATA_VARIABLE if data_folder_is_named() else f"default; {DATA_VARIABLE} is not set"
    yield f"data folder: {folder} ({origin})"
    unfetched: list[str] = []
    for name in benchmark_names():
        lines = list(_benchmark(source_of(name), folder, steps))
        if lines == [_not_fetched(name)]:
            unfetched.append(name)
        else:
            yield from lines
    if unfetched:
        yield f"not fetched: {', '.join(unfetched)} (ragtasks data fetch NAME)"
    for name in added_benchmark_names():
        try:
            yield f"benchmark of another package: {name}"
            yield from _benchmark(source_of(name), folder, steps)
        except RagtasksError as error:
            yield str(error)
    yield f"samples inside the package: {', '.join(benchmark_names())}"


def _benchmark(source: Source, folder: Path, steps: list[str]) -> Iterator[str]:
    """Yield the state of a benchmark's files by group, and the command that fetches missing groups."""
    states = {group: _group(source, folder, group, steps) for group in source.groups}
    absent = [group for group, lines in states.items() if lines is None]
    for lines in states.values():
        yield from lines or ()
    if absent:
        options = "" if len(absent) == len(states) else "".join(f" --group {group}" for group in absent)
        groups = "" if len(absent) == len(states) else f", {', '.join(absent)}"
        yield _not_fetched(source.name, groups, options)


def _not_fetched(name: str, groups: str = "", options: str = "") -> str:
    return f"{name}{groups}: not fetched (ragtasks data fetch {name}{options})"


def _group(source: Source, folder: Path, group: str, steps: list[str]) -> list[str] | None:
    """Return the state of a group of files; None if no file exists."""
    try:
        states = verify(source, folder, (group,))
    except RagtasksError as error:
        return [f"{source.name}, {group}: {error}"]
    counts = Counter(state.status for state in states)
    if counts[FileStatus.MISSING] == len(states):
        return None
    counted = ", ".join(f"{n} {status.value}" for status, n in counts.items())
    fetch = f"ragtasks data fetch {source.name} --group {group}"
    is_complete = not counts[FileStatus.MISSING] and not counts[FileStatus.WRONG]
    if not is_complete:
        steps.append(fetch)
    wrong = [f"  {state.status.value}: {state.path}" for state in states if state.status is FileStatus.WRONG]
    step = "" if is_complete else f" ({fetch})"
    return [f"{source.name}, {group}: {counted} of {len(states)} files in {locate(source, folder)}{step}", *wrong]


def _endpoint(endpoint: str) -> Requirement:
    """Return the requirement that a server lists its models."""
    address = _without_secrets(endpoint)

    def check() -> str:
        if address is None:
            raise ConfigurationError(
                "endpoint: not an address such as http://localhost:8000/v1 (not printed because it may contain a key)"
            )
        try:
            return "answers, models: " + ", ".join(model_names(address, secret, _TIMEOUT_SECONDS))
        except ModelError as error:
            raise ModelError(f"endpoint {address}: {error}") from None

    step = "start the server, or correct its address or key"
    return Requirement("endpoint", f"endpoint {address}", check, step, phase=Phase.REQUEST)


def _without_secrets(endpoint: str) -> str | None:
    """Return an address without user name, password and query; None if it is not an HTTP address."""
    try:
        parts = urllib.parse.urlsplit(endpoint)
    except ValueError:
        return None
    host = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{host}{parts.path}" if parts.scheme in {"http", "https"} and host else None
