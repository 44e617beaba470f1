"""The record of a table, and how it reads as Markdown: what every part that shows scores writes them with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

# A table, apart from how it is written: Markdown, CSV, LaTeX and the page all take the same record.

_FORMULA = ("=", "+", "-", "@", "\t", "\r")  # how a cell begins that a spreadsheet may compute


@dataclass(frozen=True, slots=True)
class Value:
    """A mean with what it covers and how far it may be trusted."""

    value: float | None
    """The mean over what is scored; None where nothing is."""
    n_scored: int
    """Values in the mean."""
    n: int
    """Values that there would be if everything were scored."""
    low: float | None = None
    """Lower end of the 95 % interval over conversations; None where there is none."""
    high: float | None = None
    """Upper end of it."""
    n_tasks: int | None = None
    """Tasks that its setting has, where fewer were evaluated (`n`); None where none is missing."""

    @property
    def missing(self) -> str:
        """How many tasks of how many were evaluated, in words; empty where none is missing."""
        return "" if self.n_tasks is None else f"{self.n} of {self.n_tasks} tasks"

    @property
    def with_missing_as_zero(self) -> float | None:
        """What the mean would be if each missing task had 0; unscored ones stay left out."""
        if self.value is None or self.n_tasks is None:
            return self.value
        return self.value * self.n_scored / (self.n_scored + self.n_tasks - self.n)


Cell = str | int | Value
"""What stands in a cell: words, a count, or a score."""


@dataclass(frozen=True, slots=True)
class Table:
    """One table."""

    title: str
    """Heading."""
    columns: tuple[str, ...]
    """Heads of the columns."""
    rows: tuple[tuple[Cell, ...], ...]
    """Cells, one a column."""
    note: str = ""
    """What a reader must know before the scores; empty where the title says it all."""
    legend: tuple[str, ...] = ()
    """What columns are and cells lack, a line each."""


@dataclass(frozen=True, slots=True)
class Section:
    """What belongs together in a report: all tables of evaluations of one kind."""

    title: str
    """Benchmark, which says `sample` where it is one."""
    provenance: Mapping[str, str]
    """What the scores rest on, such as encoder and judges."""
    tables: tuple[Table, ...]
    """In the order of the report."""
    conclusion: Table | None = None
    """What the report opens with, its legend a line each on loss and on what to distrust; None without any."""

    @property
    def all_tables(self) -> tuple[Table, ...]:
        """The conclusion, where there is one, and the tables."""
        return (*([self.conclusion] if self.conclusion else []), *self.tables)


def fixed(value: float, digits: int = 3) -> str:
    """Return a number with so many decimals; what rounds to zero has no sign."""
    text = f"{value:.{digits}f}"
    return text if float(text) else text.removeprefix("-")


def plain(text: str) -> str:
    """Return a text on one line, with what a terminal would act on as an escape."""
    return "".join(letter if letter.isprintable() else letter.encode("unicode_escape").decode() for letter in text)


def csv_text(text: str) -> str:
    """Return a text as a cell of CSV: behind a quote where a spreadsheet would take it for a formula.

    A lone dash, which means what is not known, is none.
    """
    return f"'{text}" if text.startswith(_FORMULA) and text != "-" else text


# The one writer of Markdown tables: cells on one line, bars escaped, columns as wide as their widest cell.


def cell_text(cell: Cell) -> str:
    """Return a cell as people read it: three decimals, the interval, and what a mean covers where it is not all.

    Of an evaluation over fewer tasks than its setting has, the score says so.
    """
    if not isinstance(cell, Value):
        return str(cell)
    if cell.value is None:
        return "-"
    parts = [fixed(cell.value)]
    if cell.low is not None and cell.high is not None:
        parts.append(f"[{fixed(cell.low)}, {fixed(cell.high)}]")
    if cell.n_scored != cell.n:
        parts.append(f"({cell.n_scored}/{cell.n})")
    if cell.missing:
        parts.append(f"({cell.missing})")
    return " ".join(parts)


def markdown_table(
    columns: Sequence[str],
    rows: Iterable[Sequence[Cell]],
    *,
    right: Sequence[bool] | None = None,
    is_padded: bool = True,
    has_colons: bool = True,
) -> list[str]:
    """Return the lines of a table."""
    lines: list[Sequence[Cell]] = [columns, *rows]
    flush = right or [not all(isinstance(row[place], str) for row in lines) for place in range(len(columns))]
    texts = [[plain(cell_text(cell)).replace("|", "\\|") for cell in row] for row in lines]
    widths = [max(map(len, column)) if is_padded else 0 for column in zip(*texts, strict=True)]
    rules = [_rule(width, is_right and has_colons) for width, is_right in zip(widths, flush, strict=True)]
    rule = "|" + "|".join(rules if is_padded else [" --- "] * len(widths)) + "|"
    heads, *others = ["| " + " | ".join(map(_placed, row, widths, flush)) + " |" for row in texts]
    return [heads, rule, *others]


def _rule(width: int, has_colon: bool) -> str:
    return "-" * (width + 1) + (":" if has_colon else "-")


def _placed(text: str, width: int, is_right: bool) -> str:
    return text.rjust(width) if is_right else text.ljust(width)


# Notes on several things at once: what is true of many is said once.


def notes_once(notes: Iterable[tuple[str, str]], n_named: int) -> tuple[str, ...]:
    """Return notes, each once, behind the names that it is about, in the order of the first of a kind."""
    about: dict[str, list[str]] = {}
    for name, note in notes:
        text = note.removeprefix(name)
        about.setdefault(text, []).extend([name] if text != note else [])
    return tuple(
        f"every run{text}" if 1 < len(names) == n_named else f"{', '.join(names)}{text}"
        for text, names in about.items()
    )
