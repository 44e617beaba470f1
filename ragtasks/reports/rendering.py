"""The one place that writes a report: Markdown, CSV, LaTeX."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from enum import Enum
from typing import TYPE_CHECKING

from ragtasks.results import heading
from ragtasks.tables import Cell, Section, Table, Value, cell_text, csv_text, markdown_table, plain

if TYPE_CHECKING:
    from markupsafe import Markup


# Tables as Markdown to read, CSV to compute with, and LaTeX to print.

_LATEX = str.maketrans(
    {sign: f"\\{sign}" for sign in "&%$#_{}"}
    | {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    | {"|": r"\textbar{}", "<": r"\textless{}", ">": r"\textgreater{}"}
    | {'"': r"{\char34}"}  # the command for it is unknown in LaTeX's default encoding
)
_CODE = re.compile("`([^`]+)`")
_CSV_COLUMNS = (
    "context",
    "section",
    "table",
    "row",
    "column",
    "text",
    "value",
    "low",
    "high",
    "n_scored",
    "n",
    "n_tasks",
)


class Format(str, Enum):
    """How a report is written."""

    MARKDOWN = "markdown"
    CSV = "csv"
    LATEX = "latex"
    JSON = "json"


def render(sections: Sequence[Section], how: Format) -> str:
    """Return a report as text; a section with a conclusion opens with it."""
    return _RENDERERS[how](sections)


def coded(text: str) -> Markup:
    """Return a text of Markdown for HTML: escaped, and what stands between backticks as code."""
    from markupsafe import Markup

    pieces = (Markup("<code>{}</code>" if is_code else "{}").format(piece) for piece, is_code in _code_pieces(text))
    return Markup("").join(pieces)


def _code_pieces(text: str) -> list[tuple[str, bool]]:
    """Return the pieces of a text in order, each with whether it stands between backticks."""
    return [(piece, bool(place % 2)) for place, piece in enumerate(_CODE.split(text)) if piece]


def _markdown(sections: Sequence[Section]) -> str:
    return "\n".join(line for section in sections for line in _markdown_section(section))


def _markdown_section(section: Section) -> Iterator[str]:
    yield from (f"# {plain(section.title)}", "")
    if section.conclusion is not None:
        yield from _markdown_table(replace(section.conclusion, note=""))
        if section.conclusion.note:
            yield from (plain(section.conclusion.note), "")
    if section.provenance:
        yield from (plain(_provenance(section)), "")
    for table in section.tables:
        yield from (f"## {plain(table.title)}", "")
        yield from _markdown_table(table)


def _markdown_table(table: Table) -> Iterator[str]:
    """Yield note, rows and legend; a conclusion has them below the heading of its section."""
    if table.note:
        yield from (plain(table.note), "")
    if table.rows:
        yield from (*markdown_table(table.columns, table.rows), "")
    if table.legend:
        yield from (*(f"- {plain(line)}" for line in table.legend), "")


def _provenance(section: Section) -> str:
    return "; ".join(f"{name}: {value}" for name, value in section.provenance.items())


def _csv(sections: Sequence[Section]) -> str:
    """Return one line a cell, so that every table has the same columns; `context` tells sections of one title apart."""
    output = io.StringIO()
    writer = csv.writer(output, lineterminator="\n")
    writer.writerow(_CSV_COLUMNS)
    for section in sections:
        names = [csv_text(text) for text in (heading(section.title, section.provenance), section.title)]
        for table in section.all_tables:
            title, columns = csv_text(table.title), [csv_text(column) for column in table.columns]
            for number, row in enumerate(table.rows, start=1):
                for column, cell in zip(columns, row, strict=True):
                    writer.writerow((*names, title, number, column, *_csv_cell(cell)))
    return output.getvalue()


def _csv_cell(cell: Cell) -> tuple[object, ...]:
    if isinstance(cell, Value):
        return ("", cell.value, cell.low, cell.high, cell.n_scored, cell.n, cell.n_tasks)
    return (csv_text(cell), *[""] * 6) if isinstance(cell, str) else ("", cell, *[""] * 5)


def _caption(table: Table) -> str:
    """Return note and legend in one."""
    return " ".join(filter(None, (table.note, *table.legend)))


def _latex(sections: Sequence[Section]) -> str:
    """Return `tabular`s for the package booktabs, each with its title and note as a caption."""
    return "\n\n".join(_tabular(section, table) for section in sections for table in section.all_tables if table.rows)


def _tabular(section: Section, table: Table) -> str:
    title, provenance = _latex_text(f"{section.title}. {table.title}"), _latex_text(_provenance(section))
    caption = ". ".join(part.rstrip(".") for part in (title, _latex_note(_caption(table)), provenance) if part)
    heads, *lines = [
        " & ".join(_latex_text(cell_text(cell)) for cell in row) + r" \\" for row in (table.columns, *table.rows)
    ]
    columns = "".join(
        "l" if all(isinstance(row[index], str) for row in table.rows) else "r" for index in range(len(table.columns))
    )
    body = "\n".join((r"\toprule", heads, r"\midrule", *lines, r"\bottomrule"))
    begin = f"\\begin{{table}}\n\\caption{{{caption}.}}\n\\begin{{tabular}}{{{columns}}}"
    return f"{begin}\n{body}\n\\end{{tabular}}\n\\end{{table}}"


def _latex_text(text: str) -> str:
    words = plain(text).translate(_LATEX)
    return f"{{}}{words}" if words.startswith(("[", "*")) else words  # after `\\\\` these would be its arguments


def _latex_note(text: str) -> str:
    pieces = ((_latex_text(piece), is_code) for piece, is_code in _code_pieces(text))
    return "".join(f"\\texttt{{{piece}}}" if is_code else piece for piece, is_code in pieces)


def _json(sections: Sequence[Section]) -> str:
    """Return a list of sections, each table with its rows as objects; a score is an object."""
    return json.dumps([_json_section(section) for section in sections], ensure_ascii=False, indent=1)


def _json_section(section: Section) -> dict[str, object]:
    tables = [
        {
            "title": table.title,
            "note": _caption(table),
            "rows": [
                {column: _json_cell(cell) for column, cell in zip(table.columns, row, strict=True)}
                for row in table.rows
            ],
        }
        for table in section.all_tables
    ]
    return {"title": section.title, "provenance": dict(section.provenance), "tables": tables}


def _json_cell(cell: Cell) -> object:
    return asdict(cell) if isinstance(cell, Value) else cell


_RENDERERS: Mapping[Format, Callable[[Sequence[Section]], str]] = {
    Format.MARKDOWN: _markdown,
    Format.CSV: _csv,
    Format.LATEX: _latex,
    Format.JSON: _json,
}
