"""The floor of judges: a judge decides in the gate only if its card shows enough agreement with people.

Each rubric that a score depends on requires a card of each judge, with the prompts of the results. A judge in
`anchored_judges` requires none. Anchors do not replace a card: they show that a judge is stable, not that it is right.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from ragtasks.config import EvaluationConfig, GateConfig, JudgeFloor
from ragtasks.judges import CLARIFICATION, IDK, KAPPA, UNDECIDED, WEIGHTED_KAPPA, CardRow, JudgeCard
from ragtasks.metrics import Metric
from ragtasks.records import Answerability, Task
from ragtasks.suites import suite_named

RubricPrompts = tuple[str, str]
"""Name of a rubric, and the fingerprint of its prompts. The fingerprint is empty if results do not contain it."""

FLOOR_STEP = (
    "Next step: `ragtasks judges label RESULTS --output labels.jsonl`, labels by people, and "
    "`ragtasks judges calibrate labels.jsonl --rubric RUBRIC --repeats 2 --judge J`"
)
_RUBRIC = re.compile(r'"(\w+)": "[^"]*\(([^()"]+)\)"')


def rubrics_behind(
    metric: Metric, fields: Mapping[str, str], tasks: Iterable[Task], *, is_idk_judged: bool
) -> set[RubricPrompts]:
    """Return the rubrics behind a metric in a setting, from its provenance. Empty for a score without judges."""
    judged = dict(_RUBRIC.findall(fields.get("rubrics", "")))
    if metric.needs_judges:
        return _behind(metric, judged, tasks) or {(metric.name, "")}
    return {(IDK, judged.get(IDK, ""))} if is_idk_judged else set()


def sent_rubrics(metric: Metric, suite: str, tasks: Iterable[Task], judging: EvaluationConfig) -> set[RubricPrompts]:
    """Return the rubrics that a configuration will send to its judges for a metric."""
    if judging.prompts == "official":  # cards are made with the shipped prompts
        return {(metric.name, "")}
    unsent = set() if judging.idk_by_judges else {IDK}
    sent = {rubric.name: rubric.fingerprint for rubric in suite_named(suite).rubrics() if rubric.name not in unsent}
    return _behind(metric, sent, tasks)


def _behind(metric: Metric, judged: Mapping[str, str], tasks: Iterable[Task]) -> set[RubricPrompts]:
    """Return the judged rubrics that a metric depends on. `clarification` judges UNDERSPECIFIED tasks only."""
    unasked = {CLARIFICATION}
    if any(task.answerability is Answerability.UNDERSPECIFIED for task in tasks):
        unasked = set()
    names = (metric.rubrics & judged.keys() if metric.rubrics else judged.keys()) - unasked
    return {(name, judged[name]) for name in names}


def judge_objections(
    rubrics: Iterable[RubricPrompts],
    judges: Collection[str],
    config: GateConfig,
    cards: Sequence[JudgeCard],
    drift: Mapping[str, str],
) -> tuple[str, ...]:
    """Return why judges may not decide, one reason per judge and rubric. `drift`: judge -> evidence on anchors."""
    objections = []
    for judge in sorted(set(judges) - set(config.anchored_judges)):
        for rubric, prompts in sorted(rubrics):
            moved = [drift[judge]] if judge in drift else []
            shortfalls = [*moved, *_shortfalls(_measures(cards, judge, rubric, prompts), config.judge_floor)]
            if shortfalls:
                objections.append(f"{judge}, {rubric}: {', '.join(shortfalls)}")
    return tuple(objections)


def _measures(cards: Sequence[JudgeCard], judge: str, rubric: str, prompts: str) -> dict[str, CardRow]:
    """Return measure -> row of the newest card of a judge for a rubric with these prompts. {} without a card."""
    matching = [card for card in cards if card.judge == judge and card.rubrics.get(rubric) == prompts]
    of_rubric = [[row for row in card.rows if row.rubric == rubric] for card in sorted(matching, key=lambda c: c.time)]
    measured = [rows for rows in of_rubric if any(row.measure in {KAPPA, WEIGHTED_KAPPA} for row in rows)]
    return {row.measure: row for row in measured[-1]} if measured else {}


def _shortfalls(measures: Mapping[str, CardRow], floor: JudgeFloor) -> Iterator[str]:
    """Yield how a card is below the floor."""
    kappa = measures.get(KAPPA) or measures.get(WEIGHTED_KAPPA)
    undecided = measures.get(UNDECIDED)
    if kappa is None:
        yield "no card"
        return
    if kappa.n < floor.labels:
        yield f"{kappa.n} labels of {floor.labels}"
    if kappa.low is None or kappa.high is None:
        yield "no interval of kappa"
    elif kappa.low <= floor.kappa:
        yield f"kappa {kappa.low:.2f} to {kappa.high:.2f}, must be above {floor.kappa:g}"
    if undecided is None or undecided.value is None:
        yield "no repeats (--repeats 2)"
    elif undecided.n < floor.labels <= kappa.n:
        yield f"{undecided.n} repeated rows of {floor.labels}"
    elif undecided.value >= floor.undecided:
        yield f"{undecided.value:.0%} of {undecided.n} rows undecided, must be below {floor.undecided:.0%}"
