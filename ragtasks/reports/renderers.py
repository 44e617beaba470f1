"""Tables as Markdown to read, CSV to compute with, and LaTeX to print."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum

from ragtasks.reports.provenance import heading
from ragtasks.reports.table import Cell, Figure, Section, Table

_LATEX = str.maketrans(
    {sign: f"\\{sign}" for sign in "&%$#_{}"}
    | {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
)
_CSV_COLUMNS = ("context", "section", "table", "row", "column", "text", "value", "low", "high", "n_scored", "n")


class Format(str, Enum):
    """How a report is written."""

    MARKDOWN = "markdown"
    CSV = "csv"
    LATEX = "latex"


def render(sections: Sequence[Section], how: Format) -> str:
    """Return a report as text."""
    return _RENDERERS[how](sections)


def shown(cell: Cell) -> str:
    """Return a cell as people read it: three decimals, the interval, and what a mean covers where it is not all."""
    if not isinstance(cell, Figure):
        return str(cell)
    if cell.value is None:
        return "-"
    parts = [f"{cell.value:.3f}"]
    if cell.low is not None and cell.high is not None:
        parts.append(f"[{cell.low:.3f}, {cell.high:.3f}]")
    if cell.n_scored != cell.n:
        parts.append(f"({cell.n_scored}/{cell.n})")
    return " ".join(parts)


def _markdown(sections: Sequence[Section]) -> str:
    return "\n".join(line for section in sections for line in _markdown_section(section))


def _markdown_section(section: Section) -> Iterator[str]:
    yield from (f"# {section.title}", "")
    yield from ("; ".join(f"{name}: {value}" for name, value in section.facts.items()), "")
    for table in section.tables:
        yield from (f"## {table.title}", "")
        if table.note:
            yield from (table.note, "")
        if table.rows:
            yield from (*_grid(table), "")


def _grid(table: Table) -> Iterator[str]:
    """Yield a Markdown table whose columns are as wide as their widest cell, words left, numbers right."""
    rows = [[shown(cell).replace("\n", " ").replace("|", "\\|") for cell in row] for row in table.rows]
    heads = [head.replace("|", "\\|") for head in table.columns]
    widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
    is_text = [all(isinstance(row[index], str) for row in table.rows) for index in range(len(heads))]

    def line(cells: Sequence[str]) -> str:
        placed = (
            cell.ljust(width) if text else cell.rjust(width)
            for cell, width, text in zip(cells, widths, is_text, strict=True)
        )
        return f"| {' | '.join(placed)} |"

    yield line(heads)
    rules = (
        "-" * (width + 2) if text else "-" * (width + 1) + ":" for width, text in zip(widths, is_text, strict=True)
    )
    yield f"|{'|'.join(rules)}|"
    yield from map(line, rows)


def _csv(sections: Sequence[Section]) -> str:
    """Return one line a cell, so that every table has the same columns; `context` tells sections of one title apart."""
    output = io.StringIO()
    writer = csv.writer(output, lineterminator="\n")
    writer.writerow(_CSV_COLUMNS)
    for section in sections:
        context = heading(section.title, section.facts)
        for table in section.tables:
            for number, row in enumerate(table.rows, start=1):
                for column, cell in zip(table.columns, row, strict=True):
                    writer.writerow((context, section.title, table.title, number, column, *_csv_cell(cell)))
    return output.getvalue()


def _csv_cell(cell: Cell) -> tuple[object, ...]:
    if isinstance(cell, Figure):
        return ("", cell.value, cell.low, cell.high, cell.n_scored, cell.n)
    return (cell, *[""] * 5) if isinstance(cell, str) else ("", cell, *[""] * 4)


def _latex(sections: Sequence[Section]) -> str:
    """Return `tabular`s for the package booktabs, each with its title and note as a caption."""
    return "\n\n".join(_tabular(section, table) for section in sections for table in section.tables if table.rows)


def _tabular(section: Section, table: Table) -> str:
    facts = "; ".join(f"{name}: {value}" for name, value in section.facts.items())
    sentences = (section.title, table.title, table.note, facts)
    caption = ". ".join(part.rstrip(".") for part in sentences if part).translate(_LATEX)
    lines = [" & ".join(shown(cell).translate(_LATEX) for cell in row) + r" \\" for row in table.rows]
    heads = " & ".join(head.translate(_LATEX) for head in table.columns) + r" \\"
    columns = "".join(
        "l" if all(isinstance(row[index], str) for row in table.rows) else "r" for index in range(len(table.columns))
    )
    body = "\n".join((r"\toprule", heads, r"\midrule", *lines, r"\bottomrule"))
    begin = f"\\begin{{table}}\n\\caption{{{caption}.}}\n\\begin{{tabular}}{{{columns}}}"
    return f"{begin}\n{body}\n\\end{{tabular}}\n\\end{{table}}"


_RENDERERS: Mapping[Format, Callable[[Sequence[Section]], str]] = {
    Format.MARKDOWN: _markdown,
    Format.CSV: _csv,
    Format.LATEX: _latex,
}

__all__ = ["Format", "render", "shown"]
