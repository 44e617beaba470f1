"""Hook of mkdocs: makes the reference pages of commands, options and metrics from the code, so that none is ever stale.

Links that lead out of the pages' folder have no place on the site; their text stays.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import typer.main
from mkdocs.structure.files import File
from pydantic import BaseModel

from ragtasks.cli import app
from ragtasks.cli.app import GROUPS
from ragtasks.clients import Endpoint
from ragtasks.config import EvaluationConfig
from ragtasks.suites import suite_named
from ragtasks.tables import markdown_table

_OUTSIDE = re.compile(r"\[([^\]]+)\]\(\.\./[^)]*\)")
SUITES = {
    "mtrag": "MTRAG, MTRAG-UN, your own data",
    "mtrag_s": "MTRAG-S",
    "multihop_rag": "MultiHop-RAG",
    "trec_rag24": "TREC RAG 2024",
    "trec_rag25": "TREC RAG 2025",
    "multidoc2dial": "MultiDoc2Dial",
    "rewriting": "Query rewriting",
}


def on_files(files: Any, config: Any) -> Any:
    """Add the pages that are made."""
    pages: dict[str, Callable[[], Iterable[str]]] = {"commands": commands, "options": options, "metrics": metrics}
    for name, page in pages.items():
        files.append(File.generated(config, f"reference/{name}.md", content="\n".join(page()) + "\n"))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Return a page whose links lead nowhere outside."""
    return _OUTSIDE.sub(r"\1", markdown)


def commands() -> Iterator[str]:
    """Yield the page of commands, by group, as `ragtasks --help` orders them."""
    root: Any = typer.main.get_command(app)
    yield "# Commands"
    for group, names in GROUPS.items():
        yield f"\n## {group}"
        for name, example in names.items():
            if name in root.commands and not root.commands[name].hidden:
                yield from _command(root.commands[name], f"ragtasks {name}", example)


def _command(command: Any, words: str, example: str = "") -> Iterator[str]:
    yield f"\n### `{words}`\n"
    yield (command.help or "").split("\f")[0].strip()
    if example:
        yield f"\n```\n{example}\n```"
    rows = [_option(item) for item in command.params if item.name != "help" and not getattr(item, "hidden", False)]
    if rows:
        yield ""
        yield from markdown_table(("option", "default", "meaning"), rows, is_padded=False)
    for name, inner in getattr(command, "commands", {}).items():
        if not inner.hidden:
            yield from _command(inner, f"{words} {name}")


def _option(item: Any) -> tuple[str, str, str]:
    is_argument = item.param_type_name == "argument"
    name = str(item.name).upper() if is_argument else ", ".join(item.opts)
    default = "required" if item.required else _shown(item.default)
    return f"`{name}`", default, str(getattr(item, "help", "") or "")


def _shown(default: object) -> str:
    if default is None or default is False or callable(default) or default == ():
        return ""
    return f"`{getattr(default, 'value', default)}`"


def options() -> Iterator[str]:
    """Yield the page of the keys of `--metadata` and of endpoints."""
    yield "# Options of an evaluation\n"
    yield "Keys of `--metadata`, as JSON; each shows in the results.\n"
    yield from _fields(EvaluationConfig)
    yield "\n## Keys of an endpoint\n"
    yield "Of judges, rewriters and rerankers behind a server; see [Endpoints](../endpoints.md).\n"
    yield from _fields(Endpoint)


def _fields(model: type[BaseModel]) -> Iterator[str]:
    rows = [
        (f"`{name}`", "required" if field.is_required() else _shown(field.default), field.description or "")
        for name, field in model.model_fields.items()
    ]
    yield from markdown_table(("key", "default", "meaning"), rows, is_padded=False)


def metrics() -> Iterator[str]:
    """Yield the page of all metrics that suites declare."""
    yield "# Declared metrics\n"
    yield "As the harness's tables and the reports show them; formulas and sources: [Metrics](../metrics.md)."
    for suite, title in SUITES.items():
        yield f"\n## {title}\n"
        rows = [
            (
                f"`{metric.name}`",
                " to ".join(f"{bound:g}" for bound in metric.bounds),
                {True: "higher", False: "lower", None: ""}[metric.higher_is_better],
                metric.description + (" (judges)" if metric.needs_judges else ""),
            )
            for metric in suite_named(suite).metrics
        ]
        yield from markdown_table(("metric", "range", "better", "what it is"), rows, is_padded=False)
