"""Forms in the layout of MTRAG's human-evaluation file, so that `ragtasks calibrate` reads them as the official one.

A win rate is the share of the other answers that a rater did not like better: in the official file two answers that
are held equal both count as preferred (three ties give 100, 100, 100).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ragtasks.arena.battles import Answer, AnswerPool, ItemKey
from ragtasks.arena.forms._form import QUESTIONS, SCALE, Rated
from ragtasks.benchmarks.mtrag import FANC, HUMAN_EVALUATION_FILE, PUBLISHED_METRICS, WIN_RATE, domain_of
from ragtasks.errors import ConfigurationError
from ragtasks.files import write_atomically
from ragtasks.records import Answerability, Role

_WIN_RATE = "win-rate"
_SPEAKERS = {Role.USER: "user", Role.ASSISTANT: "agent"}
_FILTERS = ("Question Type", "Multi-Turn", "Answerability", "Turn", "Collection")


def win_rates(rated: Rated) -> dict[str, float]:
    """Return system -> share of the other answers that are not preferred to it, 0 to 100."""
    systems = list(rated.form.ratings)
    wins = dict.fromkeys(systems, 0)
    for first, second, choice in rated.form.preferences:
        wins[first] += choice != "second"
        wins[second] += choice != "first"
    return {system: 100 * wins[system] / (len(systems) - 1) for system in systems}


def write_human_evaluation(folder: Path, pool: AnswerPool, forms: Sequence[Rated]) -> Path:
    """Write the forms where `ragtasks calibrate --data FOLDER` looks for them, and return the file.

    Raises:
        ConfigurationError: no form, forms on several settings, or on a benchmark whose corpora are not MTRAG's.
        CacheError: the file cannot be written.
    """
    items = list(dict.fromkeys(rated.item for rated in forms))
    settings = sorted({item[1] for item in items})
    if not settings:
        raise ConfigurationError(
            "human evaluation: there is no form on these answers, so no file is written. Next step: `ragtasks arena "
            "serve` with the same results; people fill in forms under its tab Evaluate"
        )
    if len(settings) > 1:
        raise ConfigurationError(
            f"human evaluation: the file holds one setting, found forms on {', '.join(settings)}. Next step: give "
            "--setting"
        )
    for item in items:
        domain = _any(pool, item).response.task.domain
        if domain_of(domain) is None:
            raise ConfigurationError(
                f"human evaluation: the file knows MTRAG's corpora only, and {item[2]} is of {domain!r}"
            )
    path = folder / HUMAN_EVALUATION_FILE
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, json.dumps(_content(pool, items, forms), ensure_ascii=False, indent=1).encode())
    return path


def _content(pool: AnswerPool, items: Sequence[ItemKey], forms: Sequence[Rated]) -> dict[str, Any]:
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
        "metrics": [*_human_metrics(), *_algorithmic_metrics(scored)],
        "documents": list(documents.values()),
        "tasks": [_task(pool, item) for item in items],
        "evaluations": [
            _evaluation(answer, [rated for rated in forms if rated.item == item], scored) for item, answer in evaluated
        ],
    }


def _human_metrics() -> list[dict[str, Any]]:
    values = [{"value": str(number), "display_value": word, "numeric_value": number} for number, word in SCALE.items()]
    shared = {"author": "human", "aggregator": "median"}
    rated = [
        {
            "name": name,
            "display_name": name.capitalize(),
            "description": text,
            **shared,
            "type": "categorical",
            "values": values,
        }
        for name, text in QUESTIONS.items()
    ]
    text = "Share of the other answers to the task that are not preferred to this one"
    won = {"name": _WIN_RATE, "display_name": "Win rate", "description": text, **shared}
    return [*rated, {**won, "type": "numerical", "range": [0, 100, 10]}]


def _algorithmic_metrics(scored: Sequence[str]) -> list[dict[str, Any]]:
    names = ["conditional_idk", *(PUBLISHED_METRICS[name] for name in scored)]
    shared = {"author": "algorithm", "type": "numerical", "aggregator": "average", "range": [0, 1, 0.1]}
    return [{"name": name, "display_name": name, "description": name, **shared} for name in names]


def _any(pool: AnswerPool, item: ItemKey) -> Answer:
    return next(iter(pool.answers_to(item).values()))


def _task(pool: AnswerPool, item: ItemKey) -> dict[str, Any]:
    """Return the task with every passage that any of its answers was given."""
    task = _any(pool, item).response.task
    shown = [passage.passage_id for answer in pool.answers_to(item).values() for passage in answer.response.passages]
    return {
        "task_id": task.task_id,
        "task_type": "rag",
        "input": [{"speaker": _SPEAKERS[message.role], "text": message.text} for message in task.messages],
        "contexts": [{"document_id": passage_id} for passage_id in dict.fromkeys(shown)],
        "targets": [{"speaker": "agent", "text": task.target}],
        "Question Type": list(task.question_types),
        "Multi-Turn": [] if task.multi_turn == "N/A" else [task.multi_turn],
        "Answerability": [task.answerability.value],
        "Turn": str(task.turn),
        "Collection": f"mt-rag-{task.domain}",
    }


def _evaluation(answer: Answer, forms: Sequence[Rated], scored: Sequence[str]) -> dict[str, Any]:
    task = answer.response.task
    annotations: dict[str, Any] = {name: {} for name in (*FANC, _WIN_RATE)}
    for rated in forms:
        note = {"timestamp": rated.time, "duration": rated.form.seconds}
        for name in FANC:
            annotations[name][rated.rater] = {**note, "value": str(rated.form.ratings[answer.system][name])}
        annotations[_WIN_RATE][rated.rater] = {**note, "value": win_rates(rated)[answer.system]}
    scores: Mapping[str, float] = {PUBLISHED_METRICS[name]: answer.scores[name] for name in scored}
    composite = {"conditional_idk": int(_refuses_where_it_should(answer)), **scores}
    annotations |= {name: {"composite": {"value": value}} for name, value in composite.items()}
    return {
        "task_id": task.task_id,
        "model_id": answer.system,
        "model_response": answer.response.text,
        "annotations": annotations,
    }


def _refuses_where_it_should(answer: Answer) -> bool:
    """Return whether an answer refuses exactly where the corpus has none, by rules; conversational ones count so."""
    label = answer.response.task.answerability
    return label is Answerability.CONVERSATIONAL or answer.refuses == (label is Answerability.UNANSWERABLE)


__all__ = ["WIN_RATE", "win_rates", "write_human_evaluation"]
