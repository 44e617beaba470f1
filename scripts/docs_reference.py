"""Hook of mkdocs: makes the reference pages of commands, options and metrics from the code, so that none is ever stale.

Links that lead out of the pages' folder have no place on the site; their text stays.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import typer.main
from mkdocs.structure.files import File
from pydantic import BaseModel

from ragtasks.cli import app
from ragtasks.clients import Endpoint
from ragtasks.config import EvaluationConfig
from ragtasks.suites import suite_named
from ragtasks.tables import markdown_table

SUITES = {
    "mtrag": "MTRAG, MTRAG-UN, your own data",
    "mtrag_s": "MTRAG-S",
    "ikat_facts": "TREC iKAT, choice of facts",
    "inscit": "INSCIT",
    "multihop_rag": "MultiHop-RAG",
    "trec_rag24": "TREC RAG 2024",
    "trec_rag25": "TREC RAG 2025",
    "multidoc2dial": "MultiDoc2Dial",
    "rewriting": "Query rewriting",
}


def on_files(files: Any, config: Any) -> Any:
    """Add the pages that are made."""
    pages: dict[str, Callable[[], Iterable[str]]] = {
        "index": index,
        "commands": commands,
        "options": options,
        "metrics": metrics,
    }
    for name, page in pages.items():
        files.append(File.generated(config, f"reference/{name}.md", content="\n".join(page()) + "\n"))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Replace links to files outside of the documentation folder by their text."""
    outside = "../" * (page.file.src_uri.count("/") + 1)
    return re.sub(rf"\[([^\]]+)\]\({re.escape(outside)}[^)]*\)", r"\1", markdown)


_REFERENCE = (
    ("[Commands](commands.md)", "every command with its options and an example"),
    ("[Options of an evaluation](options.md)", "keys of `--metadata` and of `evaluation.yaml`, and of endpoints"),
    ("[Declared metrics](metrics.md)", "name, range and direction of each, by suite"),
    ("[Metrics](../metrics.md)", "formula, source, what each misses"),
    ("[Benchmarks](../benchmarks.md)", "harness tasks, settings, main scores, what is official"),
    ("[Endpoints](../endpoints.md)", "servers: keys, limits, prices"),
    ("[Cached replies and embeddings](../cache.md)", "where they are, and how they are pruned"),
    ("[Intervals and tests](../statistics.md)", "what the numbers in brackets are"),
)


def index() -> Iterator[str]:
    """Yield the page that lists the reference, and each command in a line."""
    yield "# Reference\n"
    yield from markdown_table(("page", "what it holds"), _REFERENCE, is_padded=False)
    root: Any = typer.main.get_command(app)
    yield "\n## Commands\n"
    rows = [
        (command.rich_help_panel, f"[`{name}`](commands.md#ragtasks-{name})", _first_line(command))
        for name, command in _in_order(root)
    ]
    yield from markdown_table(("for", "command", "what it does"), rows, is_padded=False)


def _first_line(command: Any) -> str:
    return str(command.help or "").partition("\n")[0]


def commands() -> Iterator[str]:
    """Yield the page of commands, by group, as `ragtasks --help` orders them."""
    root: Any = typer.main.get_command(app)
    yield "# Commands"
    for section, found in itertools.groupby(_in_order(root), lambda item: item[1].rich_help_panel):
        yield f"\n## {section}"
        for name, command in found:
            yield from _command(command, f"ragtasks {name}")


def _in_order(root: Any) -> list[tuple[str, Any]]:
    """Return the commands by section, with their names."""
    return [(name, root.commands[name]) for name in root.list_commands(None) if not root.commands[name].hidden]


def _command(command: Any, words: str) -> Iterator[str]:
    yield f"\n### `{words}`\n"
    yield (command.help or "").split("\f")[0].strip()
    if example := str(command.epilog or "").removeprefix("Example: "):
        yield f"\n```\n{example}\n```"
    rows = [_option(item) for item in command.params if item.name != "help"]
    if rows:
        yield ""
        yield from markdown_table(("option", "meaning"), rows, is_padded=False)
    for name, inner in getattr(command, "commands", {}).items():
        if not inner.hidden:
            yield from _command(inner, f"{words} {name}")


def _option(item: Any) -> tuple[str, str]:
    is_argument = item.param_type_name == "argument"
    name = str(item.name).upper() if is_argument else ", ".join(item.opts)
    return f"`{name}`", _meaning(str(getattr(item, "help", "") or ""), item.default, is_required=item.required)


def _meaning(text: str, default: object, *, is_required: bool) -> str:
    """Return what an option means, as a sentence, with its default."""
    shown = "" if is_required else _shown(default)
    more = "Required." if is_required else f"Default: {shown}." if shown and "efault:" not in text else ""
    sentence = f"{text[:1].upper()}{text[1:].removesuffix('.')}." if text else ""
    return f"{sentence} {more}".strip()


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
        (f"`{name}`", _meaning(field.description or "", field.default, is_required=field.is_required()))
        for name, field in model.model_fields.items()
    ]
    yield from markdown_table(("key", "meaning"), rows, is_padded=False)


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
