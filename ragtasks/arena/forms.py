"""Human evaluation as in the MTRAG paper: four properties and a comparison, with several raters per task."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from ragtasks.arena.battles import Answer, AnswerPool, ItemKey, shuffled
from ragtasks.benchmarks.mtrag import FANC, HUMAN_EVALUATION_FILE, PUBLISHED_METRICS, WIN_RATE, domain_of
from ragtasks.errors import ConfigurationError, RagtasksError
from ragtasks.files import write_atomically
from ragtasks.metrics import Level, krippendorff_alpha, rater_agreement
from ragtasks.records import Answerability, Role
from ragtasks.statistics import MIN_CLUSTERS, estimate_mean
from ragtasks.tables import Cell, Section, Table, dashed, grouped

# A rater's form for a task: ratings of four properties for every answer, and a preference for every pair. The
# properties, their scale from 1 to 4 and the comparison are those of MTRAG's human evaluation (paper, sections 3.2 and
# 7). Each rater receives the answers without names, in an individual order.

QUESTIONS: Mapping[str, str] = {
    "faithfulness": "Every statement is supported by the passages or the conversation.",
    "appropriateness": "It answers the user's request, without unrelated content.",
    "naturalness": "It reads like a helpful person in this conversation.",
    "completeness": "It contains everything the user needs, as far as the passages contain it.",
}
"""Property -> the statement that raters rate."""
SCALE: Mapping[int, str] = {1: "no", 2: "mostly no", 3: "mostly yes", 4: "yes"}
"""Rating -> its word in the official file."""

_Choice = Literal["first", "second", "tie"]


class FormError(RagtasksError):
    """A form with missing or invalid fields."""


class Form(BaseModel):
    """A rater's form for an item."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    ratings: dict[str, dict[str, int]]
    """System -> property -> rating from 1 to 4."""
    preferences: list[tuple[str, str, _Choice]]
    """(system, system, preference) of every pair."""
    versions: dict[str, str]
    """System -> hash of the rated answer."""
    seconds: float


@dataclass(frozen=True, slots=True)
class RatedForm:
    """A form with its rater, item and time."""

    rater: str
    item: ItemKey
    form: Form
    time: float


def distinct_answers(pool: AnswerPool, item: ItemKey) -> dict[str, tuple[str, ...]]:
    """Return system -> all systems with the same answer and passages, for the first system of each distinct answer."""
    answers = pool.answers_to(item)
    return {names[0]: tuple(names) for names in grouped(answers, lambda system: answers[system].version).values()}


def order_for(pool: AnswerPool, item: ItemKey, rater: str, secret: bytes) -> list[str]:
    """Return a system for each distinct answer to an item, in the order of the rater's form."""
    return shuffled(distinct_answers(pool, item), f"{secret.hex()} {rater} {item}")


def compared_pairs(pool: AnswerPool, item: ItemKey, systems: Sequence[str]) -> list[tuple[int, int]]:
    """Return the index pairs of systems with different texts. Equal texts are a tie without a question."""
    texts = [pool.answers_to(item)[system].response.text for system in systems]
    return [
        (first, second)
        for first, second in itertools.combinations(range(len(texts)), 2)
        if texts[first] != texts[second]
    ]


def read_form(
    pool: AnswerPool, item: ItemKey, systems: Sequence[str], fields: Mapping[str, str], seconds: float
) -> Form:
    """Return the form in the fields of a request. Ratings of an answer apply to every system that gave it."""
    letters = "ABCDEFGH"
    missing = [
        f"{name} of {letters[index]}"
        for index, name in itertools.product(range(len(systems)), FANC)
        if fields.get(f"rating-{index}-{name}") not in {str(value) for value in SCALE}
    ]
    pairs = compared_pairs(pool, item, systems)
    missing += [
        f"{letters[first]} or {letters[second]}"
        for first, second in pairs
        if fields.get(f"pair-{first}-{second}") not in {"first", "second", "tie"}
    ]
    if missing:
        raise FormError(f"not answered: {', '.join(missing)}")
    answers, givers = pool.answers_to(item), distinct_answers(pool, item)
    index_of = {giver: index for index, system in enumerate(systems) for giver in givers[system]}
    choices = {(a, b): fields[f"pair-{a}-{b}"] for a, b in pairs}
    return Form.model_validate(
        {
            "ratings": {
                system: {name: int(fields[f"rating-{index}-{name}"]) for name in FANC}
                for system, index in index_of.items()
            },
            "preferences": [
                (first, second, choices.get((index_of[first], index_of[second]), "tie"))
                for first, second in itertools.combinations(index_of, 2)
            ],
            "versions": {system: answers[system].version for system in index_of},
            "seconds": seconds,
        }
    )


def read_forms(pool: AnswerPool, rows: Sequence[tuple[str, str, str, float]]) -> tuple[list[RatedForm], int]:
    """Return the forms for the answers in the pool, and the number of other forms."""
    rated_forms: list[RatedForm] = []
    for rater, item, content, time in rows:
        key = tuple(item.split("\t"))
        try:
            form = Form.model_validate_json(content)
        except ValidationError:
            continue
        if len(key) == 3 and form.versions == {name: answer.version for name, answer in pool.answers_to(key).items()}:
            rated_forms.append(RatedForm(rater, key, form, time))
    return rated_forms, len(rows) - len(rated_forms)


# Results of forms: means of the four properties and the win rate by system, and the agreement of raters.

_NAMES = (*FANC, WIN_RATE)
_Ratings = Mapping[tuple[str, str], Mapping[str, Sequence[float]]]


def form_sections(pool: AnswerPool, forms: Sequence[RatedForm]) -> list[Section]:
    """Return a section per benchmark and setting: means by system, agreement of raters."""
    sections = []
    for benchmark, setting in sorted({rated.item[:2] for rated in forms}):
        relevant = [rated for rated in forms if rated.item[:2] == (benchmark, setting)]
        ratings = _collected(relevant)
        conversation_of = {
            rated.item[2]: _first_answer(pool, rated.item).response.task.conversation_id for rated in relevant
        }
        provenance = {
            "raters": ", ".join(sorted({rated.rater for rated in relevant})),
            "forms": str(len(relevant)),
            "tasks": str(len(conversation_of)),
        }
        answered = {(name, rated.item[2]) for rated in relevant for name in distinct_answers(pool, rated.item)}
        distinct = {key: task_ratings for key, task_ratings in ratings.items() if key in answered}
        tables = (_means(ratings, conversation_of), _agreement(distinct))
        sections.append(Section(f"{benchmark}, {setting}: human evaluation", provenance, tables))
    return sections


def _collected(forms: Sequence[RatedForm]) -> _Ratings:
    """Return (system, task id) -> property -> ratings, one per rater."""
    collected: dict[tuple[str, str], dict[str, list[float]]] = {}
    for rated in forms:
        shares = win_rates(rated)
        for system, ratings in rated.form.ratings.items():
            values = collected.setdefault((system, rated.item[2]), {name: [] for name in _NAMES})
            for name in FANC:
                values[name].append(float(ratings[name]))
            values[WIN_RATE].append(shares[system])
    return collected


def _means(ratings: _Ratings, conversation_of: Mapping[str, str]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for system in sorted({system for system, _ in ratings}):
        by_task = {task_id: task_ratings for (name, task_id), task_ratings in ratings.items() if name == system}
        clusters = [conversation_of[task_id] for task_id in by_task]
        means = (
            estimate_mean([median(task_ratings[name]) for task_ratings in by_task.values()], clusters).cell
            for name in _NAMES
        )
        rows.append((system, len(by_task), *means))
    note = (
        "Medians over raters, means over tasks. Properties are rated from 1 to 4. A win rate is the share of other "
        "answers that are not preferred, in %; a tie counts for both. "
    )
    n = len(set(conversation_of.values()))
    few = f"Conversations: {n}, fewer than {MIN_CLUSTERS}, so no intervals."
    note += few if n < MIN_CLUSTERS else "Intervals over conversations."
    return Table("Ratings", ("system", "tasks", *_NAMES), tuple(rows), note)


def _agreement(ratings: _Ratings) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for name in _NAMES:
        items = [task_ratings[name] for task_ratings in ratings.values()]
        alpha = krippendorff_alpha(items, Level.ORDINAL)
        shares = rater_agreement(items, 50.0 if name == WIN_RATE else 1.0)
        agreement_shares = (shares.absolute, shares.high, shares.majority) if shares else ()
        percents = [f"{100 * share:.1f} %" for share in agreement_shares] or ["-"] * 3
        rows.append((name, dashed(alpha.value), *percents, shares.n if shares else 0))
    heads = ("property", "alpha", "absolute", "absolute or high", "two of the raters", "answers")
    note = (
        "Absolute: all raters gave the same score. High: two did, and the others differ by a step (MTRAG paper, "
        "appendix E). alpha: Krippendorff's ordinal alpha, corrected for chance."
    )
    return Table("Agreement of raters", heads, tuple(rows), note)


# Forms in the layout of MTRAG's human-evaluation file, which `ragtasks judges calibrate` reads. A win rate is the share
# of the other answers that a rater did not prefer. In the official file, both answers of a tie count as preferred:
# three ties give 100, 100, 100.

_WIN_RATE = "win-rate"
_SPEAKERS = {Role.USER: "user", Role.ASSISTANT: "agent"}
_FILTERS = ("Question Type", "Multi-Turn", "Answerability", "Turn", "Collection")


def win_rates(rated: RatedForm) -> dict[str, float]:
    """Return system -> share of the other answers that are not preferred to it, 0 to 100."""
    systems = list(rated.form.ratings)
    wins = dict.fromkeys(systems, 0)
    for first, second, choice in rated.form.preferences:
        wins[first] += choice != "second"
        wins[second] += choice != "first"
    return {system: 100 * wins[system] / (len(systems) - 1) for system in systems}


def write_human_evaluation(folder: Path, pool: AnswerPool, forms: Sequence[RatedForm]) -> Path:
    """Write the forms to the file that `ragtasks judges calibrate FOLDER` reads, and return its path."""
    items = list(dict.fromkeys(rated.item for rated in forms))
    settings = sorted({item[1] for item in items})
    if not settings:
        raise ConfigurationError(
            "human evaluation: no form exists for these answers, so no file is written. Next step: `ragtasks arena "
            "serve` with the same results; people fill in forms in its tab Evaluate"
        )
    if len(settings) > 1:
        raise ConfigurationError(
            f"human evaluation: the file contains a single setting, found forms for {', '.join(settings)}. Next step: "
            "use --setting"
        )
    for item in items:
        domain = _first_answer(pool, item).response.task.domain
        if domain_of(domain) is None:
            raise ConfigurationError(
                f"human evaluation: the file only supports MTRAG's corpora, and {item[2]} is from {domain!r}"
            )
    path = folder / HUMAN_EVALUATION_FILE
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, json.dumps(_content(pool, items, forms), ensure_ascii=False, indent=1).encode())
    return path


def _content(pool: AnswerPool, items: Sequence[ItemKey], forms: Sequence[RatedForm]) -> dict[str, Any]:
    evaluated = [(item, answer) for item in items for answer in pool.answers_to(item).values()]
    scored = [name for name in PUBLISHED_METRICS if all(name in answer.scores for _, answer in evaluated)]
    documents = {
        passage.passage_id: {"document_id": passage.passage_id, "text": passage.text, "title": passage.title}
        for _, answer in evaluated
        for passage in answer.response.passages
    }
    return {
        "name": f"Human evaluation ({items[0][0]}, {items[0][1]})",
        "filters": list(_FILTERS),
        "models": [{"model_id": name, "name": name, "owner": ""} for name in sorted({a.system for _, a in evaluated})],
        "metrics": _metrics(scored),
        "documents": list(documents.values()),
        "tasks": [_task(pool, item) for item in items],
        "evaluations": [
            _evaluation(answer, [rated for rated in forms if rated.item == item], scored) for item, answer in evaluated
        ],
    }


def _metrics(scored: Sequence[str]) -> list[dict[str, Any]]:
    values = [{"value": str(number), "display_value": word, "numeric_value": number} for number, word in SCALE.items()]
    shared = {"author": "human", "aggregator": "median"}
    categories = {**shared, "type": "categorical", "values": values}
    rated = [
        {"name": name, "display_name": name.capitalize(), "description": text, **categories}
        for name, text in QUESTIONS.items()
    ]
    text = "Share of the other answers to the task that are not preferred to this one"
    won = {"name": _WIN_RATE, "display_name": "Win rate", "description": text, **shared}
    names = ["conditional_idk", *(PUBLISHED_METRICS[name] for name in scored)]
    computed = {"author": "algorithm", "type": "numerical", "aggregator": "average", "range": [0, 1, 0.1]}
    return [
        *rated,
        {**won, "type": "numerical", "range": [0, 100, 10]},
        *({"name": name, "display_name": name, "description": name, **computed} for name in names),
    ]


def _first_answer(pool: AnswerPool, item: ItemKey) -> Answer:
    return next(iter(pool.answers_to(item).values()))


def _task(pool: AnswerPool, item: ItemKey) -> dict[str, Any]:
    """Return the task with the passages of all its answers."""
    task = _first_answer(pool, item).response.task
    passage_ids = [
        passage.passage_id for answer in pool.answers_to(item).values() for passage in answer.response.passages
    ]
    return {
        "task_id": task.task_id,
        "task_type": "rag",
        "input": [{"speaker": _SPEAKERS[message.role], "text": message.text} for message in task.messages],
        "contexts": [{"document_id": passage_id} for passage_id in dict.fromkeys(passage_ids)],
        "targets": [{"speaker": "agent", "text": task.target}],
        "Question Type": list(task.question_types),
        "Multi-Turn": [] if task.multi_turn == "N/A" else [task.multi_turn],
        "Answerability": [task.answerability.value],
        "Turn": str(task.turn),
        "Collection": f"mt-rag-{task.domain}",
    }


def _evaluation(answer: Answer, forms: Sequence[RatedForm], scored: Sequence[str]) -> dict[str, Any]:
    task = answer.response.task
    annotations: dict[str, Any] = {name: {} for name in (*FANC, _WIN_RATE)}
    for rated in forms:
        note = {"timestamp": rated.time, "duration": rated.form.seconds}
        for name in FANC:
            annotations[name][rated.rater] = {**note, "value": str(rated.form.ratings[answer.system][name])}
        annotations[_WIN_RATE][rated.rater] = {**note, "value": win_rates(rated)[answer.system]}
    label = task.answerability
    is_right = label is Answerability.CONVERSATIONAL or answer.refuses == (label is Answerability.UNANSWERABLE)
    scores: Mapping[str, float] = {PUBLISHED_METRICS[name]: answer.scores[name] for name in scored}
    composite = {"conditional_idk": int(is_right), **scores}
    annotations |= {name: {"composite": {"value": value}} for name, value in composite.items()}
    given = {"task_id": task.task_id, "model_id": answer.system, "model_response": answer.response.text}
    return {**given, "annotations": annotations}
