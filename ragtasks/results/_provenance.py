"""The basis of scores, as flat fields for side-by-side comparison.

The results contain it in nested JSON that another program or a person may have written. A missing or malformed field is
shown as a dash and never raises an error.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Any, TypeVar

from ragtasks.errors import ConfigurationError
from ragtasks.files import canonical_hash
from ragtasks.judges import (
    CLARIFICATION,
    IDK,
    AnchorVerdicts,
    Drift,
    JudgeCard,
    Recalibration,
    comparable,
    drift_of,
    recalibration_of,
)
from ragtasks.results._evaluations import Evaluation, Kind
from ragtasks.results._saved import value_at
from ragtasks.results._scored_answer import ScoredAnswer
from ragtasks.results._summary import UNKNOWN, Summary
from ragtasks.suites import without_agentic
from ragtasks.tables import grouped

CAUSES: Mapping[str, tuple[str, ...]] = {
    "data": ("benchmark", "data revision", "suite", "setting", "tasks"),
    "encoder": ("encoder", "rescaled"),
    "retriever": ("retriever",),
    "judges": ("idk detector", "judges"),
    "prompts": ("system prompt", "plain prompt", "system instruction", "max_words", "judge prompts", "rubrics"),
}
"""Cause -> fields that make scores incomparable if they differ."""
DECISIVE = tuple(field for fields in CAUSES.values() for field in fields)
SCORED_BY = "scored by"
"""The ragtasks version that computed the scores. The answers may be older."""
REQUEST_FIELDS = (
    "harness task version",
    "conversational",
    "end_of_thinking",
    "system_role",
    "chat template applied",
    "generation options",
    "run key",
    "search retriever",
    "search calls",
    "search k",
    "search protocol",
    SCORED_BY,
)
"""Fields of `provenance_of` that leave scores comparable. A table must mention them if they differ."""
_CONFIGURED = ("max_words", "conversational", "end_of_thinking", "system_role")  # under their own names
_SEARCHES = {f"search {key}": key for key in ("retriever", "calls", "k", "protocol")}  # for a model that searches
_YES_NO = {"true": "yes", "false": "no"}
_SHORT = 16
_NUMBERED = re.compile(r"(.+) #\d+", re.DOTALL)  # see `model_names`
# Only these model arguments are printed. Others may contain a key, a header or a private address.
_PUBLIC_ARGUMENTS = ("model", "pretrained", "revision", "dtype", "quantization", "peft", "max_length", "max_model_len")


def provenance_of(
    evaluation: Evaluation, tasks: Sequence[str], summary: Summary, results: Mapping[str, Any]
) -> dict[str, str]:
    """Return field -> text of an evaluation in one setting. `UNKNOWN` if the results do not contain the field."""
    of_tasks = {task: evaluation.provenance[task] for task in tasks}
    texts = _request_texts(of_tasks.values())

    def shared(*keys: str) -> str:
        return _distinct(value_at(provenance, *keys) for provenance in of_tasks.values())

    return {
        "benchmark": shared("benchmark"),
        "data revision": shared("revision"),
        "suite": evaluation.suite,
        "setting": summary.setting,
        "tasks": f"{summary.n} ({summary.tasks[:_SHORT]})",
        "harness task version": texts["harness task version"],
        "encoder": shared("scoring", "encoder"),
        "rescaled": shared("scoring", "rescaled"),
        "retriever": shared("scoring", "retriever", "line"),
        "idk detector": shared("scoring", "idk_detector"),
        "judges": shared("scoring", "judges"),
        "system prompt": texts["system prompt"],
        "plain prompt": texts["plain prompt"],
        "system instruction": texts["system instruction"],
        "max_words": texts["max_words"],
        "judge prompts": shared("scoring", "judge_prompts"),
        "rubrics": shared("scoring", "rubrics"),
        "run": shared("configuration", "run"),
        "run key": shared("run_key"),
        "requests": _requests({task: value_at(provenance, "fingerprint") for task, provenance in of_tasks.items()}),
        "model": evaluation.model,
        "model arguments": _text(_public(value_at(results, "config", "model_args"))),
        "chat template applied": texts["chat template applied"],
        "chat template": _text(value_at(results, "chat_template_sha")),
        "generation options": texts["generation options"],
        **{name: texts[name] for name in _SEARCHES},
        "conversational": texts["conversational"],
        "end_of_thinking": texts["end_of_thinking"],
        "system_role": texts["system_role"],
        "limit": _text(value_at(results, "config", "limit")),
        "prompts that did not fit": shortened_prompts(of_tasks.values()) or UNKNOWN,
        "texts that the encoder cut": shared("scoring", "n_truncated"),
        "judge usage": shared("scoring", "judge_usage"),
        "configuration": shared("configuration"),
        SCORED_BY: texts[SCORED_BY],
        "ragtasks version": shared("ragtasks_version"),
        "harness version": _text(value_at(results, "lm_eval_version")),
        "transformers version": _text(value_at(results, "transformers_version")),
        "evaluation file": _text(value_at(results, "evaluation_file", "hash")),
        "git commit": _text(value_at(results, "git_hash")),
    }


def scored_on(evaluation: Evaluation) -> dict[str, str]:
    """Return field -> text of the facts that evaluations of one table share, for its heading.

    The benchmark is the title of the heading and has no field. Unknown and unused facts have no field.
    """
    _, encoder, detector = evaluation.kind
    is_rescaled = _text_of_all(evaluation, "scoring", "rescaled") == "true"
    rubrics = _text_of_all(evaluation, "scoring", "rubrics")
    fields = {
        "data revision": evaluation.revision,
        "metrics": without_agentic(evaluation.suite),
        "encoder of BERTScore": f"{encoder}, rescaled" if is_rescaled else encoder,
        "retriever": _text_of_all(evaluation, "scoring", "retriever", "line"),
        "IDK detector": detector,
        "rubrics": UNKNOWN if rubrics == UNKNOWN else canonical_hash(rubrics)[:_SHORT],
        "judges drifted": evaluation.judge_drift,
    }
    return {name: text for name, text in fields.items() if text not in {"", UNKNOWN}}


def request_fields(evaluation: Evaluation) -> dict[str, str]:
    """Return field -> text of how the answers were requested. These may differ in a comparison, which then lists them.

    The model's name contains the run. The key of the run is a field of its own for each run. For a prompt file, only
    the file name is given.
    """
    fields = _request_texts(evaluation.provenance.values())
    run, key = _text_of_all(evaluation, "configuration", "run"), _text_of_all(evaluation, "run_key")
    return fields if key == UNKNOWN else {**fields, f"key of run {run}": key[:_SHORT]}


def _request_texts(of_tasks: Collection[Mapping[str, Any]]) -> dict[str, str]:
    """Return field -> text of the requests of some harness tasks, each text once."""

    def values(*keys: str) -> Iterator[str]:
        return (_text(value_at(provenance, *keys)) for provenance in of_tasks)

    return {
        "harness task version": _distinct(values("harness", "version")),
        **{f"{name} prompt": _distinct(map(_file_name, values("prompts", name))) for name in ("system", "plain")},
        "system instruction": _distinct(text[:_SHORT] for text in values("harness", "system_instruction_sha")),
        "chat template applied": _distinct(_YES_NO.get(text, text) for text in values("harness", "has_chat_template")),
        "generation options": _distinct(values("harness", "generation_kwargs")),
        **{name: _distinct(values("tools", key)) for name, key in _SEARCHES.items()},
        **{name: _distinct(values("configuration", name)) for name in _CONFIGURED},
        SCORED_BY: _distinct(values("scoring", "scored_by")),
    }


def _file_name(prompt: str) -> str:
    """Return the names of the templates without their folders, except for official prompts (`official/NAME`)."""
    parts = prompt.split(" + ")
    return " + ".join(part if part.startswith("official/") else part.rpartition("/")[2] for part in parts)


def request_differences(evaluations: Sequence[Evaluation]) -> dict[str, str]:
    """Return the fields of `request_fields` that differ -> each text with its models. Empty if all requests are equal.

    If only a number distinguishes two names, the field `files` lists the results files of each.
    """
    models_of: dict[str, dict[str, list[str]]] = {}
    for evaluation in evaluations:
        for name, text in request_fields(evaluation).items():
            models_of.setdefault(name, {}).setdefault(text, []).append(evaluation.model)
    differing = {
        name: ", but ".join(f"{text} for {', '.join(models)}" for text, models in models_with.items())
        for name, models_with in models_of.items()
        if len(models_with) > 1
    }
    return {**_numbered(evaluations), **differing}


def _numbered(evaluations: Sequence[Evaluation]) -> dict[str, str]:
    """Return `files` -> the results files of `NAME #2`, `NAME #3` and `NAME`. Empty without a number."""
    first_names = {match[0]: match[1] for evaluation in evaluations if (match := _NUMBERED.fullmatch(evaluation.model))}
    numbered = [evaluation for evaluation in evaluations if evaluation.model in {*first_names, *first_names.values()}]
    listed = ", ".join(f"{evaluation.model} is {files_of(evaluation)}" for evaluation in numbered)
    return {"files": listed} if listed else {}


def shortened_prompts(provenance: Collection[Mapping[str, Any]]) -> str:
    """Return how many prompts did not fit the model and how many passages they lost. Empty if all prompts fit."""
    values = [value_at(task, "too_long") for task in provenance]
    records = [value for value in values if isinstance(value, Mapping)]
    n_prompts, n_passages = (
        sum(n for record in records if isinstance(n := record.get(key), int)) for key in ("prompts", "passages_dropped")
    )
    return f"{n_prompts} prompts without {n_passages} of their lowest-ranked passages" if n_prompts else ""


def early_stop_text(provenance: Collection[Mapping[str, Any]]) -> str:
    """Return the number of judged tasks and the decision, if judging stopped at a decision. Empty otherwise."""
    decision = next((value for task in provenance if isinstance(value := task.get("decision"), Mapping)), None)
    if decision is None:
        return ""
    left_out = f", without {', '.join(names)}," if (names := decision.get("left_out")) else ""
    text = f"{decision['n_asked']} of {decision['n_tasks']} tasks were judged{left_out} until a decision"
    return f"{text}: {decision['conclusion']}" if decision["conclusion"] else f"{text}; undecided so far"


def files_of(evaluation: Evaluation) -> str:
    """Return the results files of an evaluation, relative to the paths that were read."""
    return " and ".join(evaluation.files or (evaluation.source.name,))


def causes_of(fields: Iterable[str]) -> list[str]:
    """Return the causes with any of the fields. Without a cause, scores stay comparable."""
    differing = set(fields)
    return [cause for cause, names in CAUSES.items() if differing & set(names)]


def _text_of_all(evaluation: Evaluation, *keys: str) -> str:
    """Return a field of all harness tasks, each text once."""
    return _distinct(value_at(provenance, *keys) for provenance in evaluation.provenance.values())


def _text(value: Any) -> str:
    if value is None or value in ("", {}, []):
        return UNKNOWN
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True, ensure_ascii=False)


def _distinct(values: Iterable[Any]) -> str:
    return "; ".join(dict.fromkeys(_text(value) for value in values)) or UNKNOWN


def _requests(fingerprints: Mapping[str, Any]) -> str:
    """Return one fingerprint of the requests of all harness tasks of a setting."""
    hashes = {task: value for task, value in fingerprints.items() if value is not None}
    return canonical_hash(hashes)[:_SHORT] if len(hashes) == len(fingerprints) else UNKNOWN


def _public(arguments: Any) -> dict[str, Any]:
    if not isinstance(arguments, Mapping):
        return {}
    return {key: arguments[key] for key in _PUBLIC_ARGUMENTS if key in arguments}


# Merging evaluations of one model, whose settings often run in separate calls.

Group = tuple[Kind, str, tuple[tuple[str, str], ...]]
"""Kind, suite and `scored_on` fields that comparable evaluations share."""

_Value = TypeVar("_Value")


def merge_evaluations(evaluations: Sequence[Evaluation]) -> list[Evaluation]:
    """Return one evaluation per kind, suite and name of a model (see `model_names`).

    A merged evaluation keeps all rows, provenance and samples. A harness task in several of the evaluations becomes
    `TASK #2` and so on from the second.
    """
    merged: dict[tuple[Kind, str, str], Evaluation] = {}
    for evaluation, name in zip(evaluations, model_names(evaluations), strict=True):
        key = (evaluation.kind, without_agentic(evaluation.suite), name)
        merged[key] = _extended(merged.get(key), evaluation, name)
    return list(merged.values())


def model_names(evaluations: Sequence[Evaluation]) -> list[str]:
    """Return the name of each evaluation's model in tables, in the given order.

    Evaluations of one model share its name if their requests and scoring are equal and no task of a setting is in both.
    Others become `NAME #2` and so on. `request_differences` lists their files.
    """
    taken: dict[tuple[Kind, str, str], tuple[object, set[tuple[str, str]]]] = {}
    names = []
    for evaluation in evaluations:
        basis = (scored_on(evaluation), request_fields(evaluation))
        keys = {(row.setting, row.task.task_id) for row in evaluation.rows}
        for name in numbered_names(evaluation.model):
            first_basis, used = taken.setdefault(
                (evaluation.kind, without_agentic(evaluation.suite), name), (basis, set())
            )
            if first_basis == basis and used.isdisjoint(keys):
                used.update(keys)
                names.append(name)
                break
    return names


def comparable_evaluations(evaluations: Sequence[Evaluation]) -> list[list[Evaluation]]:
    """Return merged evaluations (see `merge_evaluations`), those with comparable scores in one list.

    The lists are sorted by their `group_of`. Evaluations in a list are in the given order.
    """
    groups = grouped(merge_evaluations(with_drift(evaluations)), group_of)
    return [groups[key] for key in sorted(groups)]


def group_of(evaluation: Evaluation) -> Group:
    """Return the facts that comparable evaluations share."""
    return evaluation.kind, without_agentic(evaluation.suite), tuple(scored_on(evaluation).items())


def _extended(before: Evaluation | None, evaluation: Evaluation, name: str) -> Evaluation:
    if before is None:
        return replace(evaluation, model=name)
    return replace(
        before,
        suite=max(before.suite, evaluation.suite, key=len),  # the agentic suite has all metrics
        rows=before.rows + evaluation.rows,
        provenance=_joined_tasks(before.provenance, evaluation.provenance),
        samples=_joined_tasks(before.samples, evaluation.samples),
        files=before.files + evaluation.files,
    )


def _joined_tasks(before: Mapping[str, _Value], more: Mapping[str, _Value]) -> dict[str, _Value]:
    """Return the values by harness task, those of `before` first. A repeated task gets a number."""
    joined = dict(before)
    for task, value in more.items():
        joined[next(name for name in numbered_names(task) if name not in joined)] = value
    return joined


def numbered_names(name: str) -> Iterator[str]:
    """Yield a name, then `NAME #2` and so on."""
    yield name
    yield from (f"{name} #{number}" for number in itertools.count(2))


# Evaluations whose judges changed between them. Their scores are not comparable, even if the judges have the same
# names.
#
# Results contain each judge's verdicts on the anchors at that time, so two results are enough to detect a change.

DRIFT = "drift"
"""First word of the reason if a judge is not anchored because it drifted."""
_SAME = 1e-6


@dataclass(frozen=True, slots=True)
class JudgeAnchors:
    """One judge's verdicts on the anchors, as saved in the results of an evaluation."""

    now: AnchorVerdicts
    """Verdicts at the time of the evaluation."""
    baseline: AnchorVerdicts | None
    """The first verdicts on that machine. None if `now` was the first time."""


def anchors_in(evaluation: Evaluation) -> dict[str, JudgeAnchors]:
    """Return judge -> its verdicts on the anchors. {} if no anchors were judged."""
    anchors: dict[str, JudgeAnchors] = {}
    for provenance in evaluation.provenance.values():
        saved = value_at(provenance, "scoring", "anchors", "judges")
        for record in saved if isinstance(saved, list) else []:
            now = AnchorVerdicts.of_json(record)
            if now is not None:
                anchors.setdefault(now.judge, JudgeAnchors(now, AnchorVerdicts.of_json(record.get("baseline"))))
    return anchors


def cards_in(evaluations: Sequence[Evaluation]) -> list[JudgeCard]:
    """Return the cards of the judges at the time of the scoring, each once."""
    saved_cards = [
        saved_card
        for evaluation in evaluations
        for provenance in evaluation.provenance.values()
        if isinstance(cards := value_at(provenance, "scoring", "judge_cards"), list)
        for saved_card in cards
    ]
    cards = [card for card in map(JudgeCard.of_json, saved_cards) if card is not None]
    return list({(card.judge, card.time, *card.rubrics): card for card in cards}.values())


def _drift_between(first: Evaluation, second: Evaluation) -> list[Drift] | None:
    """Return the changes of the judges in both evaluations. None if they share no anchors."""
    before, after = anchors_in(first), anchors_in(second)
    shared = [name for name in before if name in after and comparable(before[name].now, after[name].now)]
    if not shared:
        return None
    return [drift for name in shared for drift in drift_of(before[name].now, after[name].now)]


def with_drift(evaluations: Sequence[Evaluation]) -> list[Evaluation]:
    """Return the evaluations in order. Those scored after a judge changed have the evidence in `judge_drift`.

    Each evaluation is compared with the first one, and with the first after each later change. The test is stricter
    with more evaluations, so that a change among many evaluations is not detected by chance.
    """
    n_times = len({record.now.time for evaluation in evaluations for record in anchors_in(evaluation).values()})
    firsts: list[Evaluation] = []
    marked = []
    for evaluation in evaluations:
        if evaluation.recalibrated:
            marked.append(evaluation)
            continue
        comparisons = [(first, drifts) for first in firsts if (drifts := _drift_between(first, evaluation)) is not None]
        moves = [
            (first, [f"{drift.judge}: {drift.text}" for drift in drifts if drift.is_drift_among(max(1, n_times - 1))])
            for first, drifts in comparisons
        ]
        unchanged = next((first for first, moved in moves if not moved), None)
        drift = unchanged.judge_drift if unchanged else _drift_text(*moves[0]) if moves else ""
        marked.append(replace(evaluation, judge_drift=drift))
        if unchanged is None and anchors_in(evaluation):
            firsts.append(marked[-1])
    return marked


def _drift_text(first: Evaluation, moved: Sequence[str]) -> str:
    times = {record.now.time for record in anchors_in(first).values()}
    return f"{', '.join(moved)} since {first.model} of {min(times)[:16]}"


def drift_lines(verdicts: Iterable[AnchorVerdicts], baselines: Mapping[str, AnchorVerdicts | None]) -> Iterator[str]:
    """Yield a line for each judge that drifted since its first time, or whose server now names another model."""
    for now in verdicts:
        before = baselines.get(now.judge)
        if before is None or not comparable(before, now):
            continue
        moved = [drift.text for drift in drift_of(before, now) if drift.is_drift]
        served = _served_since(before, now)
        if moved:
            yield (
                f"Drift: {now.judge} judges {len(now.conversations)} anchors differently than at {before.time[:16]}: "
                f"{', '.join(moved)}; {served or 'its server names the same model'}. Scores before and after are "
                "not comparable."
            )
        elif served:
            yield f"Judge changed: {now.judge}: {served}; its verdicts on the anchors show no drift."


def _served_since(before: AnchorVerdicts, now: AnchorVerdicts) -> str:
    """Return a note that the server names other models. Empty if it names the same models or none."""
    if not before.served or not now.served or set(before.served) == set(now.served):
        return ""
    return f"its server named {', '.join(before.served)} then and {', '.join(now.served)} now"


def not_anchored_reason(records: Sequence[JudgeAnchors | None]) -> str:
    """Return why one judge's scores of several evaluations may not be comparable. Empty if the judge is anchored.

    A judge is anchored if it judged the same anchors in all evaluations and shows no drift, neither since the first
    time on its machine nor between the evaluations.
    """
    judged = [record for record in records if record is not None]
    if len(judged) < len(records):
        return "no anchors were judged"
    first = judged[0].now
    pairs = [(record.baseline, record.now) for record in judged if record.baseline is not None]
    pairs += [(first, record.now) for record in judged[1:] if record.now != first]
    for before, after in pairs:
        if not comparable(before, after):
            return "other anchors or prompts"
        if moved := [drift.text for drift in drift_of(before, after) if drift.is_drift]:
            return f"{DRIFT} since {before.time[:16]}: {', '.join(moved)}"
    return ""


# Recalibration: the scores of a judge that changed, on the scale of its earlier verdicts.


def recalibrated(evaluations: Sequence[Evaluation]) -> list[Evaluation]:
    """Return the evaluations in order, with the scores after a judge's change mapped by the anchors.

    Scores of the rubrics that drifted are mapped to the scale of the first evaluation with the same anchors. Other
    scores stay. Mapped scores may lie outside their range: clipping them would bias means.

    Raises:
        ConfigurationError: the anchors do not determine the mapping of a rubric.
    """
    result = []
    for evaluation in with_drift(evaluations):
        if not evaluation.judge_drift:
            result.append(evaluation)
            continue
        first = next(earlier for earlier in evaluations if _drift_between(earlier, evaluation) is not None)
        rows, mappings = mapped_rows(evaluation.rows, anchors_in(first), anchors_in(evaluation), evaluation.model)
        result.append(
            replace(evaluation, rows=rows, judge_drift="", recalibrated=tuple(mapping.text for mapping in mappings))
        )
    return result


def mapped_rows(
    rows: Sequence[ScoredAnswer], before: Mapping[str, JudgeAnchors], now: Mapping[str, JudgeAnchors], model: str
) -> tuple[tuple[ScoredAnswer, ...], list[Recalibration]]:
    """Return rows with the verdicts of changed judges mapped to their earlier scale, and the mappings."""
    shared = [name for name in now if name in before and comparable(before[name].now, now[name].now)]
    drifts = [drift for name in shared for drift in drift_of(before[name].now, now[name].now) if drift.is_drift]
    mappings = [_mapping_of(drift, before[drift.judge].now, now[drift.judge].now, model) for drift in drifts]
    by_rubric_and_judge = {(mapping.rubric, mapping.judge): mapping for mapping in mappings}
    return tuple(_mapped_row(row, by_rubric_and_judge) for row in rows), mappings


def _mapping_of(drift: Drift, before: AnchorVerdicts, now: AnchorVerdicts, model: str) -> Recalibration:
    mapping = (
        "refusals have no scale, and scores are conditioned on them"
        if drift.rubric in {IDK, CLARIFICATION}
        else recalibration_of(before, now, drift.rubric)
    )
    if isinstance(mapping, str):
        raise ConfigurationError(
            "--recalibrate",
            where=f"{model}, judged by {drift.judge}",
            expected=f"anchors that determine its {drift.rubric} on the scale of {drift.before[:16]}",
            found=mapping,
            next_step="leave the option out to keep the results apart, or judge all of them again",
        )
    return mapping


def _mapped_row(row: ScoredAnswer, mappings: Mapping[tuple[str, str], Recalibration]) -> ScoredAnswer:
    """Return a row with its verdicts mapped, and the scores that are medians of these verdicts."""
    verdicts, scores, moves = list(row.verdicts), dict(row.scores), {}
    for rubric in dict.fromkeys(rubric for rubric, _ in mappings):
        values = {judge: value for (name, judge), value in row.verdict_values.items() if name == rubric}
        numbers = {judge: value for judge, value in values.items() if value is not None}
        if not numbers:
            continue
        mapping_of = {judge: mappings.get((rubric, judge)) for judge in numbers}
        mapped = {
            judge: mapping.of(numbers[judge]) if mapping else numbers[judge] for judge, mapping in mapping_of.items()
        }
        verdicts = [
            {**verdict, "value": mapped[verdict["judge"]]}
            if verdict["rubric"] == rubric and verdict["judge"] in mapped
            else verdict
            for verdict in verdicts
        ]
        before, now = median(numbers.values()), median(mapped.values())
        # A score that is decided by a refusal is not a verdict, and stays.
        for name in (rubric, f"{rubric}_raw"):
            if (value := scores.get(name)) is not None and abs(value - before) < _SAME:
                scores[name], moves[name] = now, _moves_of(numbers, mapped, mapping_of)
    return replace(row, verdicts=tuple(verdicts), scores=scores, moves=moves, repeats=())


def _moves_of(
    numbers: Mapping[str, float], mapped: Mapping[str, float], mapping_of: Mapping[str, Recalibration | None]
) -> tuple[float, ...]:
    """Return the change of the median over judges: that of the middle verdict, or the mean of both middle verdicts."""
    order = sorted(mapped, key=lambda judge: mapped[judge])
    middle = (order[(len(order) - 1) // 2], order[len(order) // 2])
    moves = [mapping.moves(numbers[judge]) for judge in middle if (mapping := mapping_of[judge]) is not None]
    return tuple(sum(column) / len(middle) for column in zip(*moves, strict=True))
