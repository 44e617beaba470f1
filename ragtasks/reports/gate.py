"""The gate: a test with a margin of whether a system is no worse than its baseline, with an exit status.

The change of each mean is compared with its margin, the largest allowed drop. If the complete interval of the change is
above the drop, the system is not worse. If it is below, the system is worse. If it contains the drop, the test cannot
say. Both results are significant. So an unchanged system is rarely reported as worse, and a drop beyond the margin
rarely passes.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from ragtasks.config import EvaluationConfig, GateConfig
from ragtasks.errors import (
    ConfigurationError,
    close_matches,
    shortened_list,
)
from ragtasks.judges import JudgeCard
from ragtasks.metrics import TURN_ERROR_NAMES, Metric
from ragtasks.reports.gate_sides import FIELDS, MENTIONED, SYSTEM_FIELDS, GatedSystem, side_error
from ragtasks.reports.harness_gate import (
    harness_mismatches,
    harness_pairs,
    require_gated,
    with_filters,
)
from ragtasks.reports.judge_floor import FLOOR_STEP, judge_objections, rubrics_behind, sent_rubrics
from ragtasks.reports.tables import (
    DIMENSIONS,
    column_of,
    is_undefined,
    row_slices,
    valued_metrics,
)
from ragtasks.results import (
    DRIFT,
    UNKNOWN,
    mapped_rows,
    not_anchored_reason,
)
from ragtasks.statistics import (
    CONVERSATIONS,
    MIN_CLUSTERS,
    NOTHING_SCORED,
    NOTHING_VARIES,
    TOO_FEW_CLUSTERS,
    Clustered,
    Column,
    Estimate,
    Race,
    RaceEnd,
    compare,
    detectable_difference,
    estimate_means,
    holm,
    mean_columns,
    p_of_signs,
    planned_difference,
)

ALL_TASKS = "all tasks"
"""The slice with every task."""
ALL_DOCUMENTS = "all documents"
"""The slice with every document of an lm_eval task."""

_MAX_LISTED = 3  # maximum tests or problems in one line
_STEPS = 1000  # grid of shares of failing answers


class GateStatus(str, Enum):
    """Result of a test."""

    NOT_WORSE = "not worse"
    WORSE = "worse"
    CANNOT_SAY = "cannot say"

    @property
    def status(self) -> int:
        """Exit status of the command, which is 2 for invalid input."""
        return {GateStatus.NOT_WORSE: 0, GateStatus.WORSE: 1, GateStatus.CANNOT_SAY: 3}[self]


@dataclass(frozen=True, slots=True)
class GateRow:
    """One test: a metric in a slice of a setting."""

    setting: str
    slice: str
    """`all tasks`, or a slice such as `domain=fiqa`."""
    metric: Metric
    change: Estimate
    """Mean difference, above 0 if the candidate is better. Its p is for a true drop of exactly the margin."""
    margin: float
    decides: bool
    """Whether the status depends on the test. False for tests that are only listed."""
    least_margin: float | None
    """Smallest margin with which an unchanged system passes with 80 % probability. None if unknown."""
    heights: tuple[float, float]
    """Distance of the answers from the worst score: mean, and mean square. Infinite without a worst score."""
    baseline: float | None = None
    """Mean over the tasks that both sides scored."""
    candidate: float | None = None
    """Mean of the tested system over the same tasks."""
    verdict: GateStatus = GateStatus.CANNOT_SAY
    why: str = ""
    """Reason for the verdict if the interval alone does not explain it. Empty otherwise."""
    objections: tuple[str, ...] = ()
    """Reasons why the judges behind the metric may not decide."""
    units: str = CONVERSATIONS
    """Name of the clusters."""
    found_drop: float | None = None
    """Smallest true drop that is reported as worse with 80 % probability, corrected for all tests of the call.

    It assumes that single answers fail completely, which spreads scores more than an equal drop of all answers.
    """


@dataclass(frozen=True, slots=True)
class Gate:
    """All tests of two systems, and their combined result."""

    candidate: str
    baseline: str
    config: GateConfig
    rows: tuple[GateRow, ...]
    problems: tuple[str, ...]
    """Reasons why the two systems do not match, one per line. With any reason, no test is made."""
    notes: tuple[str, ...]

    @property
    def verdict(self) -> GateStatus:
        """Worse if any test is worse, not worse if all tests are, `cannot say` otherwise."""
        verdicts = {row.verdict for row in self.rows if row.decides}
        if self.problems or not verdicts:
            return GateStatus.CANNOT_SAY
        if GateStatus.WORSE in verdicts:
            return GateStatus.WORSE
        return GateStatus.CANNOT_SAY if GateStatus.CANNOT_SAY in verdicts else GateStatus.NOT_WORSE

    @property
    def objections(self) -> tuple[str, ...]:
        """The reasons why judges may not decide, each once."""
        return tuple(dict.fromkeys(text for row in self.rows for text in row.objections))

    @property
    def sentence(self) -> str:
        """The verdict with its reasons, as one line."""
        if self.problems:
            return f"cannot say: {self.candidate} and {self.baseline} do not match: {'; '.join(self.problems)}"
        decisive = [row for row in self.rows if row.decides]
        if not decisive:
            return f"cannot say: {_undecided(self.objections) or 'no test decides: too few answers'}"
        if self.verdict is GateStatus.NOT_WORSE:
            return f"not worse: {count_of_tests(len(decisive))}, every interval is above the allowed drop"
        matching = [row for row in decisive if row.verdict is self.verdict]
        examples = shortened_list(list(map(_test_text, matching)), _MAX_LISTED, "; ")
        return f"{self.verdict.value}: {len(matching)} of {count_of_tests(len(decisive))}: {examples}"


def count_of_tests(n: int) -> str:
    """Return a number of tests in words."""
    return f"{n} test{'s' if n != 1 else ''}"


def _test_text(row: GateRow) -> str:
    test = f"{row.metric.name} in {row.setting}, {row.slice}"
    if row.change.value is None:
        return f"{test}: {row.why}"
    return f"{test}: change {row.change.value:+.3f}, margin {row.margin:g}" + (f" ({row.why})" if row.why else "")


# The tests.


def gate(candidate: GatedSystem, baseline: GatedSystem, config: GateConfig) -> Gate:
    """Return whether a system is no worse than its baseline, for each metric with a margin and each slice.

    Raises:
        ConfigurationError: no margin, a margin for a metric that cannot be tested, or an unknown slice.
    """
    if not config.margins:
        names = _offered(baseline)
        raise ConfigurationError(
            f"gate: no margin, so there are no tests. Next step: --margin {names[0] if names else 'METRIC'}=0.03, or "
            "`margins` in the section `gate` of a file (--config); --power shows the smallest useful margin. "
            f"Metrics: {', '.join(names)}"
        )
    config = _checked(config, baseline, candidate)
    candidate, recalibrated = _recalibrated(candidate, baseline) if config.recalibrate else (candidate, [])
    problems, notes = _mismatches(candidate, baseline, config)
    notes = [*recalibrated, *notes, *candidate.warnings]
    rows = [] if problems else [_tested(test, config) for test in _tests(candidate, baseline, config)]
    rows = [row for row in rows if row.decides or row.change.reason != NOTHING_SCORED]
    if any(row.decides for row in rows):
        notes += [f"judges do not decide: {text}" for text in dict.fromkeys(t for row in rows for t in row.objections)]
    tests = tuple(_corrected(rows, config))
    return Gate(candidate.name, baseline.name, config, tests, tuple(problems), tuple(notes))


def before_judging(
    candidate: GatedSystem,
    baseline: GatedSystem,
    config: GateConfig,
    judging: EvaluationConfig | None = None,
) -> tuple[GateStatus, str] | None:
    """Return the gate's result and its reason if it needs no judge, or if the judges of `judging` may not decide.

    It needs no judge if the sides do not match, or all answers are equal. None if the result depends on scores.
    """
    config = _checked(config, baseline, candidate)
    problems, _ = _mismatches(candidate, baseline, config)
    if problems:
        return GateStatus.CANNOT_SAY, f"{candidate.name} and {baseline.name} do not match: {'; '.join(problems)}"
    tests = list(_tests(candidate, baseline, config))
    if tests and all(test.is_same for test in tests):
        return GateStatus.NOT_WORSE, "all answers are identical to the baseline's"
    if judging is None:
        return None
    judges = [judge.model for judge in judging.judges]
    metrics = [baseline.metrics[name] for name in config.margins]
    tasks = [row.task for rows in baseline.rows.values() for row in rows]
    rubrics = {pair for metric in metrics for pair in sent_rubrics(metric, baseline.suite, tasks, judging)}
    objections = judge_objections(rubrics, judges, config, _cards_of(candidate, baseline), {})
    return (GateStatus.CANNOT_SAY, _undecided(objections)) if objections else None


def verdict_of(race: Race, most_unscored: float) -> tuple[GateStatus, str]:
    """Return the result of a race between a baseline and a system, and the reason for a missing result."""
    if race.verdict is not RaceEnd.BETTER:
        return GateStatus.CANNOT_SAY, ""
    if race.n_one_sided > most_unscored * race.n_items:
        return GateStatus.CANNOT_SAY, f"{race.n_one_sided} of {race.n_items} answers are scored on one side only"
    is_baseline_better = race.eliminated and race.remaining[0] == race.looks[0].first
    return GateStatus.WORSE if is_baseline_better else GateStatus.NOT_WORSE, ""


def power_of(baseline: GatedSystem, config: GateConfig, candidate: GatedSystem | None = None) -> Gate:
    """Return the tests of a gate with their power and without verdicts. Without margins, every metric is tested.

    Without a candidate, its answers are assumed to be as variable as the baseline's and independent of them. Answers to
    the same questions usually correlate, so a real candidate of equal quality is tested with more power.
    """
    config = _checked(config, baseline, *([candidate] if candidate else []))
    margins = config.margins or dict.fromkeys(_offered(baseline), math.inf)
    test_config = config.model_copy(update={"margins": margins})
    problems, notes = _mismatches(candidate, baseline, test_config) if candidate else ([], [])
    tests = [] if problems else list(_tests(candidate or baseline, baseline, test_config))
    rows = (
        [_tested(test, test_config) for test in tests] if candidate else [_planned(test, test_config) for test in tests]
    )
    name = candidate.name if candidate else "a system with the baseline's variance and independent answers"
    return Gate(name, baseline.name, test_config, tuple(_corrected(rows, test_config)), tuple(problems), tuple(notes))


def is_powerful(row: GateRow) -> bool:
    """Return whether an unchanged system passes a test with at least 80 % probability."""
    return row.least_margin is not None and row.margin >= row.least_margin


@dataclass(frozen=True, slots=True)
class _Test:
    """Definition and answers of one test."""

    setting: str
    slice: str
    is_named: bool
    """Whether the user named the slice by its value, or it is all tasks. Such a slice decides even with few answers."""
    metric: Metric
    margin: float
    objections: tuple[str, ...]
    """Reasons why judges may not decide the test. Empty for a test without judges."""
    sides: tuple[Column, Column]
    """Scores of the baseline and of the candidate for the same tasks, in one order."""
    unchanged: frozenset[str]
    """Tasks to which both sides gave the same answer with the same passages."""
    implausible: str = ""
    """Remark on implausible answers of the candidate if there are too many to pass. Empty otherwise."""
    units: str = CONVERSATIONS
    """Name of the clusters."""

    @property
    def is_same(self) -> bool:
        """Whether both sides gave the same answers to all tasks."""
        return bool(self.unchanged) and self.unchanged >= self.sides[0].values.keys()


def _tests(candidate: GatedSystem, baseline: GatedSystem, config: GateConfig) -> Iterator[_Test]:
    """Yield every test, in the order of settings, slices and margins; of lm_eval tasks in the order of margins."""
    yield from _tests_of_tasks(candidate, baseline, config)
    sides = (baseline,) if candidate is baseline else (baseline, candidate)
    anchoring = {name: not_anchored_reason([side.anchors.get(name) for side in sides]) for name in baseline.judges}
    drift = {name: reason for name, reason in anchoring.items() if reason.startswith(DRIFT)}
    cards = _cards_of(candidate, baseline)
    for setting, rows in baseline.rows.items():
        candidate_rows = {row.task.task_id: row for row in candidate.rows[setting]}
        for part in row_slices(rows):
            label = f"{part.dimension}={part.value}" if part.value else ALL_TASKS
            is_named = label in {ALL_TASKS, *config.slices}
            if not is_named and part.dimension not in config.slices:
                continue
            before = list(part.of(rows))
            after = [candidate_rows[row.task.task_id] for row in before]
            pairs = zip(before, after, strict=True)
            unchanged = {a.task.task_id for a, b in pairs if a.answer_hash and a.answer_hash == b.answer_hash}
            for name, margin in config.margins.items():
                metric = baseline.metrics[name]
                if label != ALL_TASKS and all(is_undefined(row, metric) for row in before):
                    continue
                tasks = (row.task for row in rows)
                rubrics = rubrics_behind(metric, baseline.fields[setting], tasks, is_idk_judged=baseline.is_idk_judged)
                yield _Test(
                    setting,
                    label,
                    is_named,
                    metric,
                    margin if label == ALL_TASKS else config.slice_margins.get(name, margin),
                    judge_objections(rubrics, baseline.judges, config, cards, drift),
                    sides=(column_of(before, metric, ""), column_of(after, metric, "")),
                    unchanged=frozenset(unchanged),
                    implausible=candidate.implausible.get(setting, ""),
                )


def _tests_of_tasks(candidate: GatedSystem, baseline: GatedSystem, config: GateConfig) -> Iterator[_Test]:
    for name, margin in config.margins.items() if baseline.harness else ():
        pairs = harness_pairs(candidate.harness, baseline.harness, name, config.slices)
        for task, metric, sides, unchanged, units in pairs:
            task_margin = config.slice_margins.get(name, margin) if task in config.slices else margin
            yield _Test(task, ALL_DOCUMENTS, True, metric, task_margin, (), sides, unchanged, units=units)


def _cards_of(*sides: GatedSystem) -> list[JudgeCard]:
    saved_cards = [JudgeCard.of_json(saved) for side in sides for saved in side.cards]
    return [card for card in saved_cards if card is not None]


def _undecided(objections: Sequence[str]) -> str:
    """Return why no judge decides, and what to do. Empty without objections."""
    return f"no judge may decide: {shortened_list(objections, _MAX_LISTED, '; ')}. {FLOOR_STEP}" if objections else ""


def _recalibrated(candidate: GatedSystem, baseline: GatedSystem) -> tuple[GatedSystem, list[str]]:
    """Return the candidate on the scale of the baseline's judges, and a line per mapping."""
    mapped = {
        setting: mapped_rows(rows, baseline.anchors, candidate.anchors, candidate.name)
        for setting, rows in candidate.rows.items()
    }
    lines = {line.text: line.judge for _, mappings in mapped.values() for line in mappings}
    anchors = {**candidate.anchors, **{name: replace(baseline.anchors[name], baseline=None) for name in lines.values()}}
    rows = {setting: rows for setting, (rows, _) in mapped.items()}
    return replace(candidate, rows=rows, anchors=anchors), [f"recalibrated by the anchors: {text}" for text in lines]


def _tested(test: _Test, config: GateConfig) -> GateRow:
    """Return a test before the correction for the number of tests."""
    sides = test.sides
    # The change is above 0 if the candidate is better. If lower values are better, it is baseline minus candidate.
    comparison = compare(
        *(sides if test.metric.higher_is_better else reversed(sides)),
        tested=-test.margin if math.isfinite(test.margin) else None,
        level=1 - config.alpha,
        is_discrete=True,
    )
    means = (comparison.first_mean, comparison.second_mean)
    baseline, candidate = means if test.metric.higher_is_better else reversed(means)
    both = zip(*(side.values.values() for side in sides), strict=True)
    scored = [value for before, value in both if value is not None and before is not None]
    least_margin = _least_margin(comparison.gaps, comparison.difference, config.alpha)
    row = replace(_row(test, comparison.difference, scored, least_margin), baseline=baseline, candidate=candidate)
    if test.is_same:
        return replace(row, verdict=GateStatus.NOT_WORSE, why="all answers are identical")
    n = len(sides[0].values)
    if comparison.n_one_sided > config.most_unscored * n:
        reason = f"{comparison.n_one_sided} of {n} answers are scored on one side only"
        return replace(row, why=reason)
    judged = _judged(row, config.alpha)
    if test.implausible and judged.verdict is GateStatus.NOT_WORSE:
        return replace(judged, verdict=GateStatus.CANNOT_SAY, why=test.implausible)
    return judged


def _planned(test: _Test, config: GateConfig) -> GateRow:
    """Return a test of a future system, with the variance of the baseline's own scores."""
    column = test.sides[0]
    mean = mean_columns([column])[0].estimate
    change = planned_difference(mean)
    scored = [value for value in column.values.values() if value is not None]
    row = _row(test, change, scored, detectable_difference(change, config.alpha))
    return replace(row, baseline=mean.value, why=mean.reason_over(test.units))


def _row(test: _Test, change: Estimate, scored: Sequence[float], least_margin: float | None) -> GateRow:
    """Return a test without its verdict. `scored` are the scores of the side whose answers may fail."""
    worst = test.metric.bounds[0 if test.metric.higher_is_better else 1]
    heights = [abs(value - worst) for value in scored] or [math.inf]
    has_few = change.n_clusters < MIN_CLUSTERS or change.reason.startswith(TOO_FEW_CLUSTERS)
    return GateRow(
        setting=test.setting,
        slice=test.slice,
        metric=test.metric,
        change=change,
        margin=test.margin,
        decides=not test.objections and (test.is_named or not has_few),
        least_margin=least_margin,
        objections=test.objections,
        heights=(math.fsum(heights) / len(heights), math.fsum(height**2 for height in heights) / len(heights)),
        units=test.units,
    )


def _judged(row: GateRow, alpha: float) -> GateRow:
    """Return a test with its verdict, from the p value of a drop as large as the margin."""
    change = row.change
    if change.p is None or change.value is None:
        return replace(row, why=change.reason_over(row.units))
    if change.p <= alpha:
        return replace(row, verdict=GateStatus.NOT_WORSE if change.value > -row.margin else GateStatus.WORSE)
    is_below = change.high is not None and change.high < 0
    below = "below the baseline, but not significantly beyond the margin" if is_below else ""
    return replace(row, why="; ".join(filter(None, (below, shortage(row)))) or "too close to the margin")


def shortage(row: GateRow) -> str:
    """Return how many conversations a margin requires if there are too few. Empty if there are enough."""
    n = row.change.n_clusters
    if is_powerful(row):
        return ""
    if row.least_margin is None:
        return row.change.reason_over(row.units) or f"too few answers: {n} {row.units}"
    # The margin falls with the square root of the number of conversations. If no scores differ, it falls with their
    # number.
    needed = math.ceil(n * (row.least_margin / row.margin) ** (1 if row.change.reason == NOTHING_VARIES else 2))
    return (
        f"too few answers: {n} {row.units} allow a margin of {row.least_margin:.3f}, {row.margin:g} requires {needed}"
    )


def _corrected(rows: Sequence[GateRow], config: GateConfig) -> Iterator[GateRow]:
    """Yield the tests after Holm's correction of the worse ones, each with the drop that it detects.

    To pass, all tests must pass. That needs no correction: a mean with a loss beyond its margin passes its own test
    with probability alpha / 2. To fail, any test may fail, so the p values of drops are corrected for their number.
    """
    decisive = [row for row in rows if row.decides]
    p_values = [row.change.p if row.verdict is GateStatus.WORSE else 1.0 for row in rows]
    adjusted = iter(holm([p for p, row in zip(p_values, rows, strict=True) if row.decides]))
    for row in rows:
        p = next(adjusted) if row.decides else row.change.p
        detected = _found_drop(row, config.alpha / max(1, len(decisive)))
        after = replace(row, found_drop=detected)
        if row.verdict is GateStatus.WORSE and (p is None or p > config.alpha):
            reason = f"beyond the margin by its interval, but not after the correction for {len(decisive)} tests"
            after = replace(after, verdict=GateStatus.CANNOT_SAY, why=reason)
        yield after


def _least_margin(column: Clustered, change: Estimate, alpha: float) -> float | None:
    """Return the smallest margin with which an unchanged system passes with 80 % probability.

    If no scores differ, there is no variance. It is then the smallest drop that this number of conversations excludes.
    """
    if change.reason != NOTHING_VARIES:
        detectable = detectable_difference(change, alpha)
        return None if detectable is None else detectable + column.half_step
    low, high = 0.0, -column.bounds[0]
    if change.value is None or not math.isfinite(high):
        return None
    for _ in range(30):
        middle = (low + high) / 2
        (estimate,) = estimate_means([column], tested=change.value - middle)
        low, high = (low, middle) if estimate.p is not None and estimate.p <= alpha else (middle, high)
    return high


def _found_drop(row: GateRow, level: float) -> float | None:
    """Return the smallest drop by failing answers that is detected with 80 % probability, or None.

    It is the margin plus the detectable difference, with the variance that failing answers add to that of the change.
    """
    error, (height, square), n = row.change.standard_error, row.heights, row.change.n_values
    detectable = detectable_difference(row.change, level)
    if error is None or detectable is None or math.isinf(row.margin):
        return None
    if math.isinf(height):
        return row.margin + detectable
    for step in range(1, _STEPS + 1):
        share = step / _STEPS
        spread = math.sqrt(error**2 + share * (1 - share) * square / n)
        if share * height >= row.margin + detectable / error * spread:
            return share * height
    return None


# Valid names of a gate's options, and the conditions under which two systems match.


def _offered(side: GatedSystem) -> list[str]:
    """Return the metrics with a value in any response."""
    if side.harness:
        return list(side.metrics)
    valued = valued_metrics(row for rows in side.rows.values() for row in rows)
    return [name for name in side.metrics if name in valued]


def reject_unknown_names(config: GateConfig, metrics: Collection[str], slices: Collection[str] | None = None) -> None:
    """Raise ConfigurationError for unknown metrics, slices (without `slices`: their dimensions) and causes."""
    for name in (*config.margins, *config.slice_margins):
        if name not in metrics:
            raise ConfigurationError(f"gate: margin of an unknown metric {name!r}: {close_matches(name, metrics)}")
    for name in config.slice_margins.keys() - config.margins.keys():
        raise ConfigurationError(f"gate: {name!r} is in slice_margins but not in margins. Next step: add it to margins")
    names = {*DIMENSIONS, *(slices or ())}
    for slice_name in config.slices:
        dimension = slice_name.partition("=")[0] if slices is None else slice_name
        if dimension not in names:
            raise ConfigurationError(f"gate: unknown slice {slice_name!r}: {close_matches(dimension, names)}")
    for cause in config.may_differ:
        if cause not in SYSTEM_FIELDS:
            raise ConfigurationError(f"gate: may_differ {cause!r}: {close_matches(cause, SYSTEM_FIELDS)}")


def _checked(config: GateConfig, side: GatedSystem, *other_sides: GatedSystem) -> GateConfig:
    """Return the configuration with margins by metric and filter.

    Raises ConfigurationError for a margin that cannot be tested, or a score outside its metric's range.
    """
    slices = {
        f"{part.dimension}={part.value}" for rows in side.rows.values() for part in row_slices(rows) if part.value
    }
    if side.harness:
        config = config.model_copy(update={"margins": with_filters(config.margins, side.metrics)})
        require_gated(side.harness, config.margins, config.slices)
        slices = {task.name for task in side.harness}
    reject_unknown_names(config, side.metrics, slices)
    for name, margin in (*config.margins.items(), *config.slice_margins.items()):
        low, high = side.metrics[name].bounds
        if margin >= high - low:
            raise ConfigurationError(f"gate: margin {name}={margin:g} allows any drop. Next step: below {high - low:g}")
        low, high = max(low, -_LARGEST) - _ROUNDED, min(high, _LARGEST) + _ROUNDED
        for system in (side, *other_sides):
            for row in (row for rows in system.rows.values() for row in rows):
                value = row.values.get(name)
                if value is not None and not low <= value <= high:
                    location, expected = f"{system.name}, task {row.task.task_id}", f"{name} from {low:g} to {high:g}"
                    raise side_error(location, expected, f"{value:g}", "correct the score, or score the answers again")
    return config


_SAME_SCORE = 1e-6
_ROUNDED = 1e-6  # maximum rounding of a score beyond its metric's bound
_LARGEST = 1e100  # for metrics without a bound: the square of a larger score may overflow


def _mismatches(candidate: GatedSystem, baseline: GatedSystem, config: GateConfig) -> tuple[list[str], list[str]]:
    """Return the differences that prevent a test, and those that do not."""
    problems, notes = harness_mismatches(candidate.harness, baseline.harness, config.margins, config.slices)
    for setting, before in baseline.fields.items():
        now = candidate.fields.get(setting)
        if now is None:
            problems.append(f"setting {setting} is in the baseline only")
            continue
        for name in FIELDS:
            if before.get(name, UNKNOWN) != now.get(name, UNKNOWN):
                line = f"{name} in {setting}: {before.get(name, UNKNOWN)} -> {now.get(name, UNKNOWN)}"
                cause = next((cause for cause, names in SYSTEM_FIELDS.items() if name in names), None)
                if name in MENTIONED or cause in config.may_differ:
                    notes.append(f"differs: {line}")
                else:
                    hint = f" (`may_differ: [{cause}]` under `gate` if the change intends this)" if cause else ""
                    problems.append(line + hint)
    more = [setting for setting in candidate.fields if setting not in baseline.fields]
    notes += [f"not tested: setting {setting}, which the baseline does not have" for setting in more]
    is_judged = any(baseline.is_judged(metric) for name, metric in baseline.metrics.items() if name in config.margins)
    decides_too = is_judged and baseline.judges <= set(config.anchored_judges)
    for name in sorted(baseline.judges & candidate.judges & baseline.anchors.keys() & candidate.anchors.keys()):
        reason = not_anchored_reason([baseline.anchors[name], candidate.anchors[name]])
        if reason.startswith(DRIFT):
            (problems if decides_too else notes).append(f"judge {name}: {reason}")
    if not problems:
        for decides, line in _drift(candidate, baseline, config):
            (problems if decides else notes).append(line)
    for side in (candidate, baseline) if TURN_ERROR_NAMES & config.margins.keys() else ():
        if not any(TURN_ERROR_NAMES & row.values.keys() for rows in side.rows.values() for row in rows):
            notes.append(
                f"{side.name}: its results have no turn errors yet; `ragtasks score RESULTS --output FOLDER` adds them"
            )
    return problems, notes


def _drift(candidate: GatedSystem, baseline: GatedSystem, config: GateConfig) -> Iterator[tuple[bool, str]]:
    """Yield (whether it decides, line) for each metric with other scores for unchanged answers.

    A metric without judges gives the same answer one score. A judge may change single verdicts, but not in one
    direction.
    """
    for test in _tests(candidate, baseline, config.model_copy(update={"slices": ()})):
        first, second = (
            replace(side, values={task: side.values[task] for task in side.values if task in test.unchanged})
            for side in test.sides
        )
        comparison = compare(first, second)
        moved = [gap for gap in comparison.differences.values() if gap is not None and abs(gap) > _SAME_SCORE]
        if not moved:
            continue
        p = p_of_signs(comparison.difference)
        if baseline.is_judged(test.metric) and (p is None or p > config.alpha):
            continue
        by = f"by {math.fsum(moved) / len(moved):+.3f} on average"
        scored = f"{len(moved)} of {len(first.values)} unchanged answers have different scores, {by}"
        yield not test.objections, f"drift of {test.metric.name} in {test.setting}: {scored}"
