"""A gate's result as text: tables, JSON, Markdown for a comment, JUnit XML, and the annotations of GitHub."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from xml.etree import ElementTree

from ragtasks.reports.gate import Gate, GateRow, GateStatus, count_of_tests, is_powerful, shortage
from ragtasks.tables import (
    Cell,
    Difference,
    Format,
    Section,
    Table,
    Value,
    csv_lines,
    json_text,
    markdown_text,
    p_text,
    plain,
    render,
)

_COLUMNS = ("setting", "slice", "metric", "baseline", "candidate", "change", "margin", "verdict", "least margin", "why")
_POWER_COLUMNS = (
    *("setting", "slice", "metric", "conversations", "n"),
    *("margin", "least margin", "finds a drop of", "why"),
)
_CSV_COLUMNS = (
    *("setting", "slice", "metric", "decides", "verdict", "baseline", "candidate", "change", "low", "high", "margin"),
    *("p_of_margin", "least_margin", "found_drop", "n_answers", "n_conversations", "why"),
)
_LEGEND = (
    "change: candidate less baseline over the answers that both have a score of, above 0 where the candidate is "
    "better; in brackets its {level:g} % interval over conversations.",
    "not worse: the whole interval is above a drop of the margin. worse: it is below, after Holm's correction for "
    "{n_tests}. cannot say: the drop lies in it.",
    "least margin: with it an unchanged system passes in four of five such benchmarks.",
)
_POWER_LEGEND = (
    "least margin: the smallest with which an unchanged system passes in four of five such benchmarks.",
    "finds a drop of: the smallest true drop that is called worse in four of five.",
)
_NEEDS_MARGIN = "--margin METRIC=DROP adds the smallest true drop that is called worse in four of five."


def gate_text(found: Gate, form: Format, *, is_power: bool = False) -> str:
    """Return a gate's tests, or their power, as text. CSV has one line per test, and JSON is one object."""
    if form is Format.JSON:
        return json_text(gate_object(found, is_power=is_power))
    if form is Format.CSV:
        return csv_lines(_CSV_COLUMNS, map(_csv_row, found.rows))
    return render([_power_section(found) if is_power else gate_section(found)], form)


def gate_object(found: Gate, *, is_power: bool = False) -> dict[str, Any]:
    """Return the complete gate as a JSON object."""
    status = power_status(found) if is_power else found.verdict.status
    return {
        **({} if is_power else {"verdict": found.verdict.value, "sentence": found.sentence}),
        "status": status,
        "candidate": found.candidate,
        "baseline": found.baseline,
        "alpha": found.config.alpha,
        "problems": list(found.problems),
        "notes": list(found.notes),
        "tests": [dict(zip(_CSV_COLUMNS, _csv_row(row), strict=True)) for row in found.rows],
    }


def power_status(found: Gate) -> int:
    """Return 0 if an unchanged system passes each test in 80 % of such benchmarks, else 3."""
    decisive = [row for row in found.rows if row.decides and math.isfinite(row.margin)]
    is_enough = not found.problems and all(map(is_powerful, decisive))
    return GateStatus.NOT_WORSE.status if is_enough else GateStatus.CANNOT_SAY.status


def gate_section(found: Gate) -> Section:
    """Return a gate as tables: the deciding tests, then the others."""
    decisive, others = ([row for row in found.rows if row.decides is decides] for decides in (True, False))
    level, n_tests = 100 * (1 - found.config.alpha), count_of_tests(len(decisive))
    legend = tuple(line.format(level=level, n_tests=n_tests) for line in _LEGEND)
    tables = [Table("Tests", _COLUMNS, tuple(map(_cells, decisive)), legend=legend)] if decisive else []
    if others:
        note = "Judges that are not anchored or drifted, and slices with too few conversations for an interval."
        tables.append(Table("Not counted", _COLUMNS, tuple(map(_cells, others)), note))
    if found.notes:
        tables.append(Table("Notes", (), (), legend=found.notes))
    if found.problems:
        tables.insert(0, Table("Does not match", (), (), legend=found.problems))
    names = {"candidate": found.candidate, "baseline": found.baseline}
    sentence = found.sentence.partition(": ")[2]
    conclusion = None if found.problems else Table("Verdict", (), (), f"{sentence[:1].upper()}{sentence[1:]}.")
    return Section(f"Gate: {found.verdict.value}", names, tuple(tables), conclusion)


def _power_section(found: Gate) -> Section:
    has_margins = any(math.isfinite(row.margin) for row in found.rows)
    silent: dict[tuple[str, str, str], list[str]] = {}
    for row in found.rows:
        if _is_silent(row):
            silent.setdefault((row.change.reason, row.setting, row.slice), []).append(row.metric.name)
    none = [f"nothing on {', '.join(names)} in {', '.join(place)}: {why}." for (why, *place), names in silent.items()]
    shown = tuple(_power_cells(row) for row in found.rows if not _is_silent(row))
    power = Table("Power", _POWER_COLUMNS, shown, legend=(*_POWER_LEGEND, *none))
    tables = [power if has_margins else _without_margins(power)]
    if found.problems:
        tables = [Table("Does not match", (), (), legend=found.problems)]
    elif has_margins and power_status(found):
        short = [row for row in found.rows if row.decides and not is_powerful(row)]
        names = tuple(f"{row.metric.name} in {row.setting}, {row.slice}: {shortage(row)}" for row in short)
        tables.append(Table("Margins that are too small for these answers", (), (), legend=names))
    return Section("Gate: what it can show", {"candidate": found.candidate, "baseline": found.baseline}, tuple(tables))


def _without_margins(power: Table) -> Table:
    """Return the table of power without the columns that require a margin."""
    kept = [place for place, name in enumerate(power.columns) if name not in {"margin", "finds a drop of"}]
    columns, *rows = (tuple(row[place] for place in kept) for row in (power.columns, *power.rows))
    legend = (power.legend[0], _NEEDS_MARGIN, *power.legend[len(_POWER_LEGEND) :])
    return replace(power, columns=tuple(map(str, columns)), rows=tuple(rows), legend=legend)


def _is_silent(row: GateRow) -> bool:
    """Return whether the power of a test without a margin is unknown."""
    return math.isinf(row.margin) and row.least_margin is None and bool(row.change.reason)


def _cells(row: GateRow) -> tuple[Cell, ...]:
    n, gap = row.change.n_values, row.change
    change = Difference(gap.value, n, n + gap.n_unscored, gap.low, gap.high)
    means = (Value(row.baseline, n, n), Value(row.candidate, n, n))
    least = Value(row.least_margin, n, n)
    return (row.setting, row.slice, _metric(row), *means, change, f"{row.margin:g}", row.verdict.value, least, row.why)


def _metric(row: GateRow) -> str:
    return row.metric.name + ("" if row.metric.higher_is_better else " (lower is better)")


def _power_cells(row: GateRow) -> tuple[Cell, ...]:
    n = row.change.n_values
    margin = f"{row.margin:g}" if math.isfinite(row.margin) else "-"
    least, drop = Value(row.least_margin, n, n), Value(row.found_drop, n, n)
    return (row.setting, row.slice, _metric(row), row.change.n_clusters, n, margin, least, drop, row.change.reason)


def _csv_row(row: GateRow) -> tuple[object, ...]:
    gap, margin = row.change, row.margin if math.isfinite(row.margin) else None
    return (
        *(row.setting, row.slice, row.metric.name, row.decides, row.verdict.value, row.baseline, row.candidate),
        *(gap.value, gap.low, gap.high, margin, gap.p, row.least_margin, row.found_drop),
        *(gap.n_values, gap.n_clusters, row.why),
    )


# For a pull request.

_SIGNS = {GateStatus.NOT_WORSE: "✅", GateStatus.WORSE: "❌", GateStatus.CANNOT_SAY: "❔"}


def comment_text(found: Gate) -> str:
    """Return Markdown for a comment: the verdict, then the tables, folded."""
    sentence = f"{_SIGNS[found.verdict]} **ragtasks gate** {markdown_text(found.sentence)}"
    tables = render([replace(gate_section(found), conclusion=None)], Format.MARKDOWN).partition("\n")[2].strip()
    return f"{sentence}\n\n<details><summary>{count_of_tests(len(found.rows))}</summary>\n\n{tables}\n\n</details>\n"


def github_lines(found: Gate) -> Iterator[str]:
    """Yield GitHub's commands: an error for each worse test, a warning for each test that cannot say."""
    for problem in found.problems:
        yield _annotation("warning", "ragtasks gate: no match", problem)
    for row in found.rows:
        if row.decides and row.verdict is not GateStatus.NOT_WORSE:
            kind = "error" if row.verdict is GateStatus.WORSE else "warning"
            place = f"{row.metric.name} in {row.setting}, {row.slice}"
            yield _annotation(kind, f"ragtasks gate: {row.verdict.value}", f"{place}: {_change_text(row)}")


def _annotation(kind: str, title: str, message: str) -> str:
    return f"::{kind} title={_escaped(title, ',:')}::{_escaped(plain(message))}"


def _escaped(text: str, more: str = "") -> str:
    for letter in f"%\r\n{more}":
        text = text.replace(letter, f"%{ord(letter):02X}")
    return text


def _change_text(row: GateRow) -> str:
    gap = row.change
    if gap.value is None:
        return row.why
    ends = f" [{gap.low:+.3f}, {gap.high:+.3f}]" if gap.low is not None and gap.high is not None else ""
    p = f", p {p_text(gap.p)} of a drop of the margin" if gap.p is not None else ""
    why = f"; {row.why}" if row.why else ""
    return f"{row.baseline:.3f} -> {row.candidate:.3f}, change {gap.value:+.3f}{ends}, margin {row.margin:g}{p}{why}"


def junit_text(found: Gate) -> str:
    """Return JUnit XML with one test case per test.

    `worse` is a failure, `cannot say` an error, an uncounted test skipped.
    """
    suite = ElementTree.Element(
        "testsuite", name=f"ragtasks gate: {plain(found.candidate)} against {plain(found.baseline)}"
    )
    for problem in found.problems:
        case = ElementTree.SubElement(suite, "testcase", classname="match", name=plain(problem.partition(":")[0]))
        ElementTree.SubElement(case, "error", message=plain(problem))
    for row in found.rows:
        case = ElementTree.SubElement(
            suite, "testcase", classname=plain(row.setting), name=plain(f"{row.metric.name}, {row.slice}")
        )
        if row.verdict is not GateStatus.NOT_WORSE or not row.decides:
            failed = "failure" if row.verdict is GateStatus.WORSE else "error"
            ElementTree.SubElement(case, failed if row.decides else "skipped", message=plain(_change_text(row)))
    kinds = [child.tag for case in suite for child in case]
    counts = {"tests": len(suite), **{f"{kind}s": kinds.count(kind) for kind in ("failure", "error")}}
    suite.attrib.update({name: str(n) for name, n in counts.items()}, skipped=str(kinds.count("skipped")))
    ElementTree.indent(suite)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(suite, encoding="unicode") + "\n"
