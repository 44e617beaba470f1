"""A gate's result as text: tables, JSON, Markdown for a comment, JUnit XML, and the annotations of GitHub."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any
from xml.etree import ElementTree

from ragtasks.reports.gate import Gate, GateRow, GateStatus, count_of_tests, is_powerful, shortage
from ragtasks.statistics import CONVERSATIONS
from ragtasks.tables import (
    Cell,
    Format,
    Section,
    Table,
    Value,
    csv_lines,
    grouped,
    json_text,
    markdown_text,
    p_text,
    plain,
    render,
)

_COLUMNS = ("setting", "slice", "metric", "baseline", "candidate", "change", "margin", "verdict", "least margin", "why")
_POWER_COLUMNS = (
    *("setting", "slice", "metric", "conversations", "n"),
    *("margin", "least margin", "detects a drop of", "why"),
)
_CSV_COLUMNS = (
    *("setting", "slice", "metric", "decides", "verdict", "baseline", "candidate", "change", "low", "high", "margin"),
    *("p_of_margin", "least_margin", "found_drop", "n_answers", "n_conversations", "why"),
)
_LEGEND = (
    "change: mean difference over the {items} that both scored, above 0 if the candidate is better. In brackets: its "
    "{level:g} % interval over {units}.",
    "not worse: the complete interval is above a drop of the margin. worse: it is below that drop, after Holm's "
    "correction for {n_tests}. cannot say: neither.",
    "least margin: the smallest margin with which an unchanged system passes with 80 % probability.",
)
_POWER_LEGEND = (
    "least margin: the smallest margin with which an unchanged system passes with 80 % probability.",
    "detects a drop of: the smallest true drop that is reported as worse with 80 % probability.",
)
_NEEDS_MARGIN = "--margin METRIC=DROP adds the smallest true drop that is reported as worse with 80 % probability."


def gate_text(gate: Gate, form: Format, *, is_power: bool = False) -> str:
    """Return a gate's tests, or their power, as text. CSV has one line per test, and JSON is one object."""
    if form is Format.JSON:
        return json_text(gate_object(gate, is_power=is_power))
    if form is Format.CSV:
        return csv_lines(_CSV_COLUMNS, map(_csv_row, gate.rows))
    return render([_power_section(gate) if is_power else gate_section(gate)], form)


def gate_object(gate: Gate, *, is_power: bool = False) -> dict[str, Any]:
    """Return the complete gate as a JSON object."""
    status = power_status(gate) if is_power else gate.verdict.status
    return {
        **({} if is_power else {"verdict": gate.verdict.value, "sentence": gate.sentence}),
        "status": status,
        "candidate": gate.candidate,
        "baseline": gate.baseline,
        "alpha": gate.config.alpha,
        "problems": list(gate.problems),
        "notes": list(gate.notes),
        "tests": [dict(zip(_CSV_COLUMNS, _csv_row(row), strict=True)) for row in gate.rows],
    }


def power_status(gate: Gate) -> int:
    """Return 0 if an unchanged system passes each test with 80 % probability, else 3."""
    decisive = [row for row in gate.rows if row.decides and math.isfinite(row.margin)]
    is_enough = not gate.problems and all(map(is_powerful, decisive))
    return GateStatus.NOT_WORSE.status if is_enough else GateStatus.CANNOT_SAY.status


def gate_section(gate: Gate) -> Section:
    """Return a gate as tables: the deciding tests, then the others."""
    decisive, uncounted = ([row for row in gate.rows if row.decides is decides] for decides in (True, False))
    level, n_tests = 100 * (1 - gate.config.alpha), count_of_tests(len(decisive))
    units, columns = _words(gate.rows, _COLUMNS)
    items = "tasks" if units == CONVERSATIONS else "documents"
    legend = tuple(line.format(level=level, n_tests=n_tests, units=units, items=items) for line in _LEGEND)
    tables = [Table("Tests", columns, tuple(map(_cells, decisive)), legend=legend)] if decisive else []
    if uncounted:
        note = "Tests by judges without a card above the floor or with drift, and slices with too few conversations."
        tables.append(Table("Not counted", columns, tuple(map(_cells, uncounted)), note))
    if gate.notes:
        tables.append(Table("Notes", (), (), legend=gate.notes))
    if gate.problems:
        tables.insert(0, Table("Mismatch", (), (), legend=gate.problems))
    names = {"candidate": gate.candidate, "baseline": gate.baseline}
    sentence = gate.sentence.partition(": ")[2]
    conclusion = None if gate.problems else Table("Verdict", (), (), f"{sentence[:1].upper()}{sentence[1:]}.")
    return Section(f"Gate: {gate.verdict.value}", names, tuple(tables), conclusion)


def _power_section(gate: Gate) -> Section:
    has_margins = any(math.isfinite(row.margin) for row in gate.rows)
    reasons = grouped(
        filter(_is_power_unknown, gate.rows), lambda row: (row.change.reason_over(row.units), row.setting, row.slice)
    )
    unknown = [
        f"unknown for {', '.join(row.metric.name for row in rows)} in {setting}, {part}: {why}."
        for (why, setting, part), rows in reasons.items()
    ]
    shown = tuple(_power_cells(row) for row in gate.rows if not _is_power_unknown(row))
    power = Table("Power", _words(gate.rows, _POWER_COLUMNS)[1], shown, legend=(*_POWER_LEGEND, *unknown))
    tables = [power if has_margins else _without_margins(power)]
    if gate.problems:
        tables = [Table("Mismatch", (), (), legend=gate.problems)]
    elif has_margins and power_status(gate):
        short = [row for row in gate.rows if row.decides and not is_powerful(row)]
        names = tuple(f"{row.metric.name} in {row.setting}, {row.slice}: {shortage(row)}" for row in short)
        tables.append(Table("Margins too small for these answers", (), (), legend=names))
    return Section("Gate: power", {"candidate": gate.candidate, "baseline": gate.baseline}, tuple(tables))


def _words(rows: Sequence[GateRow], columns: Sequence[str]) -> tuple[str, tuple[str, ...]]:
    """Return the name of the clusters, and the heads of columns: lm_eval tasks have no settings or conversations."""
    units = next((row.units for row in rows), CONVERSATIONS)
    heads = {} if units == CONVERSATIONS else {"setting": "task", CONVERSATIONS: units}
    return units, tuple(heads.get(name, name) for name in columns)


def _without_margins(power: Table) -> Table:
    """Return the table of power without the columns that require a margin."""
    indices = [index for index, name in enumerate(power.columns) if name not in {"margin", "detects a drop of"}]
    columns, *rows = (tuple(row[index] for index in indices) for row in (power.columns, *power.rows))
    legend = (power.legend[0], _NEEDS_MARGIN, *power.legend[len(_POWER_LEGEND) :])
    return replace(power, columns=tuple(map(str, columns)), rows=tuple(rows), legend=legend)


def _is_power_unknown(row: GateRow) -> bool:
    """Return whether the power of a test without a margin is unknown."""
    return math.isinf(row.margin) and row.least_margin is None and bool(row.change.reason)


def _cells(row: GateRow) -> tuple[Cell, ...]:
    n, margin = row.change.n_values, f"{row.margin:g}"
    baseline, candidate, least = (Value(number, n, n) for number in (row.baseline, row.candidate, row.least_margin))
    change = (baseline, candidate, row.change.difference_cell, margin, row.verdict.value, least)
    return (row.setting, row.slice, _metric(row), *change, row.why)


def _metric(row: GateRow) -> str:
    return row.metric.name + ("" if row.metric.higher_is_better else " (lower is better)")


def _power_cells(row: GateRow) -> tuple[Cell, ...]:
    n, margin = row.change.n_values, f"{row.margin:g}" if math.isfinite(row.margin) else "-"
    least, drop = Value(row.least_margin, n, n), Value(row.found_drop, n, n)
    power = (row.change.n_clusters, n, margin, least, drop, row.change.reason_over(row.units))
    return (row.setting, row.slice, _metric(row), *power)


def _csv_row(row: GateRow) -> tuple[object, ...]:
    difference, margin = row.change, row.margin if math.isfinite(row.margin) else None
    return (
        *(row.setting, row.slice, row.metric.name, row.decides, row.verdict.value, row.baseline, row.candidate),
        *(difference.value, difference.low, difference.high, margin, difference.p, row.least_margin, row.found_drop),
        *(difference.n_values, difference.n_clusters, row.why),
    )


# For a pull request.

_EMOJI = {GateStatus.NOT_WORSE: "✅", GateStatus.WORSE: "❌", GateStatus.CANNOT_SAY: "❔"}


def comment_text(gate: Gate) -> str:
    """Return Markdown for a comment: the verdict, then the tables, folded."""
    sentence = f"{_EMOJI[gate.verdict]} **ragtasks gate** {markdown_text(gate.sentence)}"
    tables = render([replace(gate_section(gate), conclusion=None)], Format.MARKDOWN).partition("\n")[2].strip()
    return f"{sentence}\n\n<details><summary>{count_of_tests(len(gate.rows))}</summary>\n\n{tables}\n\n</details>\n"


def github_lines(gate: Gate) -> Iterator[str]:
    """Yield GitHub's commands: an error for each worse test, a warning for each test that cannot say."""
    for problem in gate.problems:
        yield _annotation("warning", "ragtasks gate: mismatch", problem)
    for row in gate.rows:
        if row.decides and row.verdict is not GateStatus.NOT_WORSE:
            level = "error" if row.verdict is GateStatus.WORSE else "warning"
            test = f"{row.metric.name} in {row.setting}, {row.slice}"
            yield _annotation(level, f"ragtasks gate: {row.verdict.value}", f"{test}: {_change_text(row)}")


def _annotation(level: str, title: str, message: str) -> str:
    return f"::{level} title={_escaped(title, ',:')}::{_escaped(plain(message))}"


def _escaped(text: str, more: str = "") -> str:
    for letter in f"%\r\n{more}":
        text = text.replace(letter, f"%{ord(letter):02X}")
    return text


def _change_text(row: GateRow) -> str:
    change = row.change
    if change.value is None:
        return row.why
    ends = f" [{change.low:+.3f}, {change.high:+.3f}]" if change.low is not None and change.high is not None else ""
    p = f", p {p_text(change.p)} for a drop of the margin" if change.p is not None else ""
    why = f"; {row.why}" if row.why else ""
    return f"{row.baseline:.3f} -> {row.candidate:.3f}, change {change.value:+.3f}{ends}, margin {row.margin:g}{p}{why}"


def junit_text(gate: Gate) -> str:
    """Return JUnit XML with a case per test: `worse` is a failure, `cannot say` an error, an uncounted test skipped."""
    suite = ElementTree.Element(
        "testsuite", name=f"ragtasks gate: {plain(gate.candidate)} against {plain(gate.baseline)}"
    )
    for problem in gate.problems:
        case = ElementTree.SubElement(suite, "testcase", classname="match", name=plain(problem.partition(":")[0]))
        ElementTree.SubElement(case, "error", message=plain(problem))
    for row in gate.rows:
        case = ElementTree.SubElement(
            suite, "testcase", classname=plain(row.setting), name=plain(f"{row.metric.name}, {row.slice}")
        )
        if row.verdict is not GateStatus.NOT_WORSE or not row.decides:
            failed = "failure" if row.verdict is GateStatus.WORSE else "error"
            ElementTree.SubElement(case, failed if row.decides else "skipped", message=plain(_change_text(row)))
    tags = [child.tag for case in suite for child in case]
    counts = {"tests": len(suite), **{f"{tag}s": tags.count(tag) for tag in ("failure", "error")}}
    suite.attrib.update({name: str(n) for name, n in counts.items()}, skipped=str(tags.count("skipped")))
    ElementTree.indent(suite)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(suite, encoding="unicode") + "\n"
