"""The one writer of Markdown tables: cells on one line, bars escaped, columns as wide as their widest cell."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ragtasks.tables._table import Cell, Value, fixed, plain


def shown(cell: Cell) -> str:
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
    """Return the lines of a table.

    Args:
        columns: heads.
        rows: cells, one a column.
        right: for each column, whether it is flush right; default: those that hold anything but words.
        is_padded: whether cells are filled up with blanks, so that the table reads as plain text too.
        has_colons: whether the rule marks the columns that are flush right.
    """
    lines: list[Sequence[Cell]] = [columns, *rows]
    flush = right or [not all(isinstance(row[place], str) for row in lines) for place in range(len(columns))]
    texts = [[plain(shown(cell)).replace("|", "\\|") for cell in row] for row in lines]
    widths = [max(map(len, column)) if is_padded else 0 for column in zip(*texts, strict=True)]
    rules = [_rule(width, is_right and has_colons) for width, is_right in zip(widths, flush, strict=True)]
    rule = "|" + "|".join(rules if is_padded else [" --- "] * len(widths)) + "|"
    heads, *others = ["| " + " | ".join(map(_placed, row, widths, flush)) + " |" for row in texts]
    return [heads, rule, *others]


def _rule(width: int, has_colon: bool) -> str:
    return "-" * (width + 1) + (":" if has_colon else "-")


def _placed(text: str, width: int, is_right: bool) -> str:
    return text.rjust(width) if is_right else text.ljust(width)


__all__ = ["markdown_table", "shown"]
