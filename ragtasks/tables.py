"""Tables as records, and their text as Markdown, CSV, LaTeX, HTML or JSON."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from markupsafe import Markup

# The record of a table. Markdown, CSV, LaTeX and the page read the same record.


@dataclass(frozen=True, slots=True)
class Value:
    """A mean with its coverage and its uncertainty."""

    value: float | None
    """Mean of the scored values, or None without scored values."""
    n_scored: int
    """Number of values in the mean."""
    n: int
    """Number of values, scored or not."""
    low: float | None = None
    """Lower end of the 95 % interval over conversations, or None without an interval."""
    high: float | None = None
    """Upper end of the interval."""
    n_tasks: int | None = None
    """Number of tasks in the setting if fewer were evaluated (`n`), or None if all were evaluated."""

    def __repr__(self) -> str:
        """Return the mean with its interval and the number of scored values."""
        return f"<{cell_text(self)}, n={self.n_scored}>"

    @property
    def missing(self) -> str:
        """Evaluated tasks and total tasks, in words. Empty if all tasks were evaluated."""
        return "" if self.n_tasks is None else f"{self.n} of {self.n_tasks} tasks"

    @property
    def coverage(self) -> str:
        """Scored values and evaluated tasks in brackets. Empty if the mean covers everything."""
        scored = f"{self.n_scored}/{self.n}" if self.n_scored != self.n else ""
        return " ".join(f"({part})" for part in (scored, self.missing) if part)

    @property
    def with_missing_as_zero(self) -> float | None:
        """The mean if each missing task scored 0. Unscored responses stay left out."""
        if self.value is None or self.n_tasks is None:
            return self.value
        return self.value * self.n_scored / (self.n_scored + self.n_tasks - self.n)


class Difference(Value):
    """A mean of differences, which is printed with its sign."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class NamedValues:
    """Means that are read together, in one cell. The head of their column lists their names."""

    by_name: Mapping[str, Value]


Cell = str | int | Value | NamedValues
"""Content of a cell: a text, a count, a score, or several scores."""


@dataclass(frozen=True, slots=True)
class Table:
    """One table."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    """One cell per column."""
    note: str = ""
    """Warning to read before the scores. Empty if none is needed."""
    legend: tuple[str, ...] = ()
    """Explanations of columns and missing values, one per line."""


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a report: all tables of evaluations of one kind."""

    title: str
    """Name of the benchmark, with `sample` for a sample."""
    provenance: Mapping[str, str]
    """Basis of the scores, such as encoder and judges."""
    tables: tuple[Table, ...]
    conclusion: Table | None = None
    """The opening table of a report. Its legend has one line per loss or warning. None without a conclusion."""
    sentence: str = ""
    """The conclusion in one sentence, printed first. Empty without a conclusion."""

    @property
    def all_tables(self) -> tuple[Table, ...]:
        """The conclusion, if any, and the tables."""
        return (*([self.conclusion] if self.conclusion else []), *self.tables)

    @property
    def heading(self) -> str:
        """The title and the basis of the scores, as one line."""
        return heading(self.title, self.provenance)


def heading(title: str, provenance: Mapping[str, str]) -> str:
    """Return a title and the basis of its scores as one line."""
    return "; ".join(filter(None, [title, *(f"{name}: {text}" for name, text in provenance.items())]))


# Tables with one row per group of records, and slices of records by label.

Record = TypeVar("Record")
_Key = TypeVar("_Key")


def table_of(
    title: str,
    heads: Sequence[str],
    records: Iterable[tuple[Sequence[Cell], Record]],
    columns: Mapping[str, Callable[[Record], Cell]],
    note: str = "",
) -> Table:
    """Return a table with one row per record: its names, then the cell of each column."""
    rows = tuple((*names, *(cell_of(record) for cell_of in columns.values())) for names, record in records)
    return Table(title, (*heads, *columns), rows, note)


@dataclass(frozen=True, slots=True)
class Slice(Generic[Record]):
    """The records with one value in one dimension."""

    dimension: str
    """Such as `domain`."""
    value: str
    """Such as `fiqa`, or empty for all records."""
    contains: Callable[[Record], bool]

    def of(self, records: Iterable[Record]) -> list[Record]:
        """Return the records in the slice, in their order."""
        return [record for record in records if self.contains(record)]


def grouped(records: Iterable[Record], key_of: Callable[[Record], _Key]) -> dict[_Key, list[Record]]:
    """Return key -> its records. Keys and records keep their order."""
    groups: dict[_Key, list[Record]] = {}
    for record in records:
        groups.setdefault(key_of(record), []).append(record)
    return groups


ALL = "all"
"""The dimension of the slice with all records."""


def slices_of(
    records: Iterable[Record],
    dimensions: Mapping[str, Callable[[Record], Sequence[Any]]],
    *,
    n_least: int = 2,
) -> Iterator[Slice[Record]]:
    """Yield all records, then a slice for each label of each dimension that has at least `n_least` labels.

    Labels are sorted. A record with several labels is in several slices, and a record without labels in no slice.
    """
    yield Slice(ALL, "", lambda _: True)
    records = list(records)
    for dimension, labels_of in dimensions.items():
        labels = sorted({label for record in records for label in labels_of(record)})
        if len(labels) >= n_least:
            yield from (_slice(dimension, label, labels_of) for label in labels)


def _slice(dimension: str, label: object, labels_of: Callable[[Record], Sequence[Any]]) -> Slice[Record]:
    return Slice(dimension, str(label), lambda record: label in labels_of(record))


# Text of cells.

_NO_DECIMALS_FROM = 1000
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")  # first characters of a cell that a spreadsheet may compute


def fixed(value: float, digits: int = 3, *, signed: bool = False) -> str:
    """Return a number with `digits` decimals; `signed` adds a plus above 0. Zero after rounding has no sign.

    Numbers from 1,000 have no decimals.
    """
    digits = 0 if abs(value) >= _NO_DECIMALS_FROM else digits
    text = f"{value:{'+' if signed else ''}.{digits}f}"
    return text if float(text) else text.lstrip("+-")


def dashed(value: float | None, digits: int = 3) -> str:
    """Return a number with `digits` decimals, or a dash for None."""
    return "-" if value is None else fixed(value, digits)


def p_text(value: float | None) -> str:
    """Return a p-value with three decimals, or a dash for None."""
    return "-" if value is None else "<0.001" if value < 0.001 else fixed(value)


_RUNNER_COMMAND = re.compile(r"(?m)^\s*:(?=:)|#(?=#(?:vso)?\[)")
_MENTION = r"(?<![\w.])@(?!(?<=\)@)\d{1,4}(?![\w-]))(?=\w)"  # the name of a metric is not a mention: `nDCG(rel=2)@3`
_ACTIVE = re.compile(rf"&(?=#?\w+;)|<(?=[A-Za-z/!?])|^[#>]|(?<=[\]!])[(\[]|`{{3,}}|~{{3,}}|{_MENTION}", re.IGNORECASE)
_UNSAFE_IN_JSON = re.compile(r"[\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]|#(?=#(?:vso)?\[)")
_BAR = re.compile(r"(\\*)\|")  # a backslash before a bar would undo its escape
_NO_MENTION = "@&#8203;"  # a zero-width space, so that no one is notified


def without_commands(text: str) -> str:
    """Return a text without commands to the runner of GitHub or Azure: `::` and `##[` get a space inside."""
    return _RUNNER_COMMAND.sub(r"\g<0> ", text)


def plain(text: str) -> str:
    """Return a text on one line, without commands to a runner, and with control characters escaped."""
    line = "".join(letter if letter.isprintable() else letter.encode("unicode_escape").decode() for letter in text)
    return without_commands(line)


def markdown_text(text: str) -> str:
    """Return a text on one line that adds no HTML, heading, fence, link, image or mention to Markdown.

    Emphasis and code between backticks stay, as the sentences of ragtasks use them.
    """
    return _ACTIVE.sub(_inactive, plain(text).strip())


def _inactive(match: re.Match[str]) -> str:
    sign = match[0]
    return (
        _NO_MENTION if sign == "@" else f"&#{ord(sign)};" if sign in "&<" else "".join(f"\\{letter}" for letter in sign)
    )


def cell_text(cell: Cell) -> str:
    """Return a cell as text: three decimals, the interval, and the coverage of an incomplete mean."""
    if isinstance(cell, NamedValues):
        return " / ".join(cell_text(replace(value, low=None, high=None)) for value in cell.by_name.values())
    if not isinstance(cell, Value):
        return str(cell)
    if cell.value is None:
        return "-"
    signed = isinstance(cell, Difference)
    parts = [fixed(cell.value, signed=signed)]
    if cell.low is not None and cell.high is not None:
        parts.append(f"[{fixed(cell.low, signed=signed)}, {fixed(cell.high, signed=signed)}]")
    return " ".join([*parts, *([cell.coverage] if cell.coverage else [])])


def markdown_table(
    columns: Sequence[str],
    rows: Iterable[Sequence[Cell]],
    *,
    right: Sequence[bool] | None = None,
    is_padded: bool = True,
) -> list[str]:
    """Return the lines of a Markdown table: cells on one line, bars escaped, columns padded to their widest cell."""
    lines: list[Sequence[Cell]] = [columns, *rows]
    flush = right or [not all(isinstance(row[index], str) for row in lines) for index in range(len(columns))]
    texts = [[_BAR.sub(r"\1\1\\|", markdown_text(cell_text(cell))) for cell in row] for row in lines]
    widths = [max(map(len, column)) if is_padded else 0 for column in zip(*texts, strict=True)]
    rules = ["-" * (width + 1) + (":" if is_right else "-") for width, is_right in zip(widths, flush, strict=True)]
    rule = "|" + "|".join(rules if is_padded else [" --- "] * len(widths)) + "|"
    pads = [str.rjust if is_right else str.ljust for is_right in flush]
    head, *body = [
        "| " + " | ".join(pad(text, width) for pad, text, width in zip(pads, row, widths, strict=True)) + " |"
        for row in texts
    ]
    return [head, rule, *body]


def csv_lines(columns: Sequence[str], rows: Iterable[Iterable[object]]) -> str:
    """Return heads and rows as CSV: numbers in full, None as an empty field, and formulas disarmed."""
    output = io.StringIO()
    writer = csv.writer(output, lineterminator="\n")
    writer.writerows([csv_text(cell) if isinstance(cell, str) else cell for cell in row] for row in (columns, *rows))
    return output.getvalue()


def csv_text(text: str) -> str:
    """Return a text as a cell of CSV. A text that a spreadsheet would take for a formula begins with a quote.

    A lone dash, which means unknown, is not a formula. NUL, which many readers of CSV refuse, is replaced.
    """
    text = text.replace("\0", "\N{REPLACEMENT CHARACTER}")
    return f"'{text}" if text.startswith(_FORMULA_STARTS) and text != "-" else text


def text_of_csv(cell: str) -> str:
    """Return the text that `csv_text` wrote as a cell."""
    return cell[1:] if cell.startswith("'") and csv_text(cell[1:]) == cell else cell


# Sections of tables: Markdown to read, CSV to compute with, and LaTeX to print.

_LATEX = str.maketrans(
    {sign: f"\\{sign}" for sign in "&%$#_{}"}
    | {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    | {"|": r"\textbar{}", "<": r"\textless{}", ">": r"\textgreater{}"}
    | {'"': r"{\char34}"}  # LaTeX's default encoding has no command for it
)
_CODE = re.compile("`([^`]+)`")
_CSV_COLUMNS = (
    *("context", "section", "table", "row", "column"),
    *("text", "value", "low", "high", "n_scored", "n", "n_tasks"),
)


class Format(str, Enum):
    """Format of a report."""

    MARKDOWN = "markdown"
    CSV = "csv"
    LATEX = "latex"
    JSON = "json"


def render(sections: Sequence[Section], form: Format) -> str:
    """Return a report as text. A conclusion comes first in its section."""
    if form is Format.MARKDOWN:
        return "\n".join(line for section in sections for line in _markdown_section(section))
    if form is Format.CSV:
        return _csv(sections)
    if form is Format.LATEX:
        tables = [(section, table) for section in sections for table in section.all_tables if table.rows]
        return "\n\n".join(_tabular(section, table) for section, table in tables)
    return json_text([_json_section(section) for section in sections])


def html_of(sections: Sequence[Section]) -> str:
    """Return a report as HTML for a notebook, with every text escaped."""
    from markupsafe import Markup

    def block(name: str, *contents: str) -> Markup:
        return Markup("").join(Markup(f"<{name}>{{}}</{name}>").format(text) for text in contents if text)

    def html_table(table: Table) -> Markup:
        heads = Markup("<thead><tr>{}</tr></thead>").format(block("th", *table.columns))
        body = [
            block("tr", Markup("").join(Markup("<td>{}</td>").format(cell_text(cell)) for cell in row))
            for row in table.rows
        ]
        legend = Markup("<ul>{}</ul>").format(block("li", *table.legend)) if table.legend else ""
        rows = Markup("<table>{}<tbody>{}</tbody></table>").format(heads, Markup("").join(body))
        return block("h4", table.title) + block("p", table.note) + rows + legend

    blocks = []
    for section in sections:
        blocks += [block("h3", section.title), block("p", section.sentence)]
        blocks += [html_table(table) for table in section.all_tables]
        blocks.append(block("p", heading("", section.provenance)))
    return str(Markup("").join(blocks))


def coded(text: str) -> Markup:
    """Return a text of Markdown as HTML: escaped, with the parts between backticks as code."""
    from markupsafe import Markup

    parts = (Markup("<code>{}</code>" if is_code else "{}").format(part) for part, is_code in _code_parts(text))
    return Markup("").join(parts)


def _code_parts(text: str) -> list[tuple[str, bool]]:
    """Return the parts of a text in order, each with whether it is code between backticks."""
    return [(part, bool(index % 2)) for index, part in enumerate(_CODE.split(text)) if part]


def _markdown_section(section: Section) -> Iterator[str]:
    yield from (f"# {markdown_text(section.title)}", "")
    if section.sentence:
        yield from (markdown_text(section.sentence), "")
    if section.conclusion is not None:
        table = _narrow_table(section.conclusion)
        yield from _markdown_table(replace(table, note="", legend=()))
        yield from _markdown_table(replace(table, rows=()))
    if section.provenance:
        yield from (markdown_text(heading("", section.provenance)), "")
    for table in section.tables:
        yield from (f"## {markdown_text(table.title)}", "")
        yield from _markdown_table(table)


_MAX_WIDTH = 100  # characters


def _narrow_table(table: Table) -> Table:
    """Return a table without intervals except that of its first score, if it would be wider than a screen."""
    if not table.rows or len(markdown_table(table.columns, table.rows)[0]) <= _MAX_WIDTH:
        return table
    first = next((index for index, cell in enumerate(table.rows[0]) if isinstance(cell, Value)), None)
    rows = (
        tuple(
            replace(cell, low=None, high=None) if isinstance(cell, Value) and index != first else cell
            for index, cell in enumerate(row)
        )
        for row in table.rows
    )
    return replace(table, rows=tuple(rows))


def _markdown_table(table: Table) -> Iterator[str]:
    """Yield note, rows and legend. A conclusion has them below the heading of its section."""
    if table.note:
        yield from (markdown_text(table.note), "")
    if table.rows:
        yield from (*markdown_table(table.columns, table.rows), "")
    if table.legend:
        yield from (*(f"- {markdown_text(line)}" for line in table.legend), "")


def _csv(sections: Sequence[Section]) -> str:
    """Return CSV with one line per cell, so that all tables have the same columns. `context` identifies the section."""
    return csv_lines(
        _CSV_COLUMNS,
        (
            (section.heading, section.title, table.title, number, column, *_csv_cell(cell))
            for section in sections
            for table in section.all_tables
            for number, row in enumerate(table.rows, start=1)
            for head, cells in zip(table.columns, row, strict=True)
            for column, cell in _csv_parts(head, cells)
        ),
    )


def _csv_parts(head: str, cell: Cell) -> Iterator[tuple[str, Cell]]:
    """Yield a cell with the head of its column, or each of several means with its own name added."""
    if isinstance(cell, NamedValues):
        yield from ((f"{head}: {name}", value) for name, value in cell.by_name.items())
    else:
        yield head, cell


def _csv_cell(cell: Cell) -> tuple[object, ...]:
    if isinstance(cell, Value):
        return ("", cell.value, cell.low, cell.high, cell.n_scored, cell.n, cell.n_tasks)
    return (cell, *[""] * 6) if isinstance(cell, str) else ("", cell, *[""] * 5)


def _caption(table: Table) -> str:
    return " ".join(filter(None, (table.note, *table.legend)))


def _tabular(section: Section, table: Table) -> str:
    """Return a `tabular` for the package booktabs, with the title and note of the table as its caption."""
    title, provenance = _latex_text(f"{section.title}. {table.title}"), _latex_text(heading("", section.provenance))
    parts = ((_latex_text(text), is_code) for text, is_code in _code_parts(_caption(table)))
    note = "".join(f"\\texttt{{{text}}}" if is_code else text for text, is_code in parts)
    caption = ". ".join(sentence.rstrip(".") for sentence in (title, note, provenance) if sentence)
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


def json_text(value: object) -> str:
    """Return a value as indented JSON, without commands to a terminal or a runner."""
    text = json.dumps(value, ensure_ascii=False, indent=1)
    return _UNSAFE_IN_JSON.sub(lambda match: json.dumps(match[0])[1:-1].replace("#", "\\u0023"), text)


def _json_cell(cell: Cell) -> object:
    if isinstance(cell, NamedValues):
        return {name: asdict(value) for name, value in cell.by_name.items()}
    return asdict(cell) if isinstance(cell, Value) else cell


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
    opening = {"sentence": section.sentence} if section.sentence else {}
    return {"title": section.title, **opening, "provenance": dict(section.provenance), "tables": tables}
