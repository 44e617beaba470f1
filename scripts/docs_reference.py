"""mkdocs hook that generates the reference pages of commands, options and metrics from the code.

It adds CHANGELOG.md as a page. It also removes links to files outside of docs/, which the site does not contain, and
keeps their text.
"""

from __future__ import annotations

import html
import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
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
    """Add the generated pages."""
    pages: dict[str, Callable[[], Iterable[str]]] = {
        "index": index,
        "commands": commands,
        "options": options,
        "metrics": metrics,
    }
    for name, page in pages.items():
        files.append(File.generated(config, f"reference/{name}.md", content="\n".join(page()) + "\n"))
    changelog = (Path(config.docs_dir).parent / "CHANGELOG.md").read_text(encoding="utf-8")
    files.append(File.generated(config, "changelog.md", content=changelog.replace("](docs/", "](")))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Replace links to files outside of the documentation folder by their text."""
    outside = "../" * (page.file.src_uri.count("/") + 1)
    return re.sub(rf"\[([^\]]+)\]\({re.escape(outside)}[^)]*\)", r"\1", markdown)


def on_page_content(content: str, **_: Any) -> str:
    """Keep each option in the text on one line: browsers break lines after hyphens."""
    return re.sub(
        r"<code>[^<]*</code>", lambda code: _OPTION.sub(r'<span class="option">\g<0></span>', code[0]), content
    )


_OPTION = re.compile(r"(?<![\w-])--[a-z][\w-]*")
_REFERENCE = (
    ("[Commands](commands.md)", "all commands with options and an example"),
    ("[Options of an evaluation](options.md)", "keys of `--metadata`, `evaluation.yaml` and endpoints"),
    ("[Declared metrics](metrics.md)", "names, ranges and directions, by benchmark"),
    ("[Metrics](../metrics.md)", "formulas, sources, limits"),
    ("[Benchmarks](../benchmarks.md)", "harness tasks, settings, main scores, official parts"),
    ("[Endpoints](../endpoints.md)", "keys, limits and prices of servers"),
    ("[Cached replies and embeddings](../cache.md)", "location and pruning"),
    ("[Intervals and tests](../statistics.md)", "intervals, p values, the gate, drift of judges"),
)


def index() -> Iterator[str]:
    """Yield the overview of the reference, with one line per command."""
    yield "# Reference\n"
    yield from _table(("page", "contents"), _REFERENCE)
    root: Any = typer.main.get_command(app)
    yield "\n## Commands\n"
    rows = [
        (command.rich_help_panel, f"[`{name}`](commands.md#ragtasks-{name})", _first_line(command))
        for name, command in _in_order(root)
    ]
    yield from _table(("for", "command", "purpose"), rows)


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Yield a table whose links and code are not escaped: the texts are those of ragtasks."""
    for line in markdown_table(columns, rows, is_padded=False):
        yield re.sub(r"`[^`]*`", lambda code: html.unescape(code[0]), line).replace(r"]\(", "](")


def _first_line(command: Any) -> str:
    return str(command.help or "").partition("\n")[0]


def commands() -> Iterator[str]:
    """Yield the page of commands in the order of `ragtasks --help`."""
    root: Any = typer.main.get_command(app)
    yield "# Commands"
    for section, members in itertools.groupby(_in_order(root), lambda entry: entry[1].rich_help_panel):
        yield f"\n## {section}"
        for name, command in members:
            yield from _command(command, f"ragtasks {name}")


def _in_order(root: Any) -> list[tuple[str, Any]]:
    """Return name and command in the order of the help, without hidden commands."""
    return [(name, root.commands[name]) for name in root.list_commands(None) if not root.commands[name].hidden]


def _command(command: Any, words: str) -> Iterator[str]:
    yield f"\n### `{words}`\n"
    yield (command.help or "").split("\f")[0].strip()
    if example := str(command.epilog or "").removeprefix("Example: "):
        yield f"\n```\n{example}\n```"
    rows = [_option(parameter) for parameter in command.params if parameter.name != "help"]
    if rows:
        yield ""
        yield from _table(("option", "meaning"), rows)
    for name, inner in getattr(command, "commands", {}).items():
        if not inner.hidden:
            yield from _command(inner, f"{words} {name}")


def _option(parameter: Any) -> tuple[str, str]:
    is_argument = parameter.param_type_name == "argument"
    name = str(parameter.name).upper() if is_argument else ", ".join(parameter.opts)
    return f"`{name}`", _meaning(
        str(getattr(parameter, "help", "") or ""), parameter.default, is_required=parameter.required
    )


def _meaning(text: str, default: object, *, is_required: bool) -> str:
    """Return the help of an option as a sentence, followed by its default."""
    shown = "" if is_required else _shown(default)
    more = "Required." if is_required else f"Default: {shown}." if shown and "efault:" not in text else ""
    sentence = f"{text[:1].upper()}{text[1:].removesuffix('.')}." if text else ""
    return f"{sentence} {more}".strip()


def _shown(default: object) -> str:
    if default is None or default is False or callable(default) or default == ():
        return ""
    return f"`{getattr(default, 'value', default)}`"


def options() -> Iterator[str]:
    """Yield the page with the keys of `--metadata` and of endpoints."""
    yield "# Options of an evaluation\n"
    yield "Keys of `--metadata` and of `options` in evaluation.yaml. Results contain their values.\n"
    yield from _fields(EvaluationConfig)
    yield "\n## Keys of an endpoint\n"
    yield "For judges, rewriters and rerankers behind a server. See [Endpoints](../endpoints.md).\n"
    yield from _fields(Endpoint)


def _fields(model: type[BaseModel]) -> Iterator[str]:
    rows = [
        (f"`{name}`", _meaning(field.description or "", field.default, is_required=field.is_required()))
        for name, field in model.model_fields.items()
    ]
    yield from _table(("key", "meaning"), rows)


def metrics() -> Iterator[str]:
    """Yield the page with the declared metrics of every suite."""
    yield "# Declared metrics\n"
    yield "Names in the tables of the harness and of reports. [Metrics](../metrics.md) has formulas and sources."
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
        yield from _table(("metric", "range", "better", "meaning"), rows)
