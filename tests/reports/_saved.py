"""Small results folders in the harness's format with known scores."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

TASKS = tuple((conversation, turn) for conversation in ("a", "b") for turn in (1, 2))
START = 1_767_225_600  # 2026-01-01 00:00 UTC
Values = Mapping[str, float | None]
Change = Callable[[dict[str, Any]], None]


def save(
    folder: Path,
    model: str = "org/model",
    *,
    day: int = 1,
    setting: str = "reference",
    values: Callable[[str], Values] = lambda task_id: {"rb_alg": 0.5, "idk_yes": 0.0},
    change: Change = lambda results: None,
    change_sample: Change = lambda sample: None,
    tasks: tuple[tuple[str, int], ...] = TASKS,
    n_tasks: int | None = None,
) -> Path:
    """Write one evaluation with one harness task and return its results file.

    Args:
        folder: the output folder. Two calls with one folder need different days.
        model: the model's name.
        day: day of January 2026.
        setting: setting of all tasks.
        values: task id -> metric -> value, or None if unscored.
        change: changes the results in place.
        change_sample: changes a sample in place.
        tasks: conversation and turn of each task.
        n_tasks: number of tasks in the setting; default: the number of `tasks`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    results = _results(model, day, setting, len(tasks), n_tasks or len(tasks))
    change(results)
    samples = [
        _sample(conversation, turn, setting, values(f"{conversation}<::>{turn}")) for conversation, turn in tasks
    ]
    for sample in samples:
        change_sample(sample)
    lines = [json.dumps(sample) + "\n" for sample in samples]
    (folder / f"samples_mtrag_{setting}_2026-01-{day:02}.jsonl").write_text("".join(lines), encoding="utf-8")
    path = folder / f"results_2026-01-{day:02}.json"
    path.write_text(json.dumps(results), encoding="utf-8")
    return path


def facts_of(results: dict[str, Any]) -> dict[str, Any]:
    """Return the provenance of the only harness task."""
    (config,) = results["configs"].values()
    found: dict[str, Any] = config["metadata"]["ragtasks"]
    return found


def facts(**fields: object) -> Change:
    """Return a function that changes the provenance of the only harness task."""
    return lambda results: facts_of(results).update(fields)


def scoring(**fields: object) -> Change:
    """Return a function that changes the scoring in the provenance."""
    return lambda results: facts_of(results)["scoring"].update(fields)


def top(**fields: object) -> Change:
    """Return a function that changes the results themselves."""
    return lambda results: results.update(fields)


def _results(model: str, day: int, setting: str, n_logged: int, n_tasks: int) -> dict[str, Any]:
    facts = {
        "benchmark": "mtrag",
        "suite": "mtrag",
        "revision": "cc5b1d4",
        "configuration": {"run": "official", "data": "/home/someone/private"},
        "fingerprint": "00112233",
        "prompts": {"system": "generation/system (aa)", "plain": "generation/plain (bb)"},
        "setting_tasks": {setting: {f"mtrag_{setting}": n_tasks}},
        "scoring": {
            "scored_by": "ragtasks 0.1.0",
            "encoder": "minilm",
            "rescaled": False,
            "idk_detector": "ngrams-2",
            "judges": "",
            "judge_prompts": None,
            "rubrics": {},
        },
    }
    task = f"mtrag_{setting}"
    return {
        "results": {task: {}},
        "configs": {task: {"dataset_kwargs": {"setting": setting}, "metadata": {"version": 1.0, "ragtasks": facts}}},
        "versions": {task: 1.0},
        "n-samples": {task: {"original": n_tasks, "effective": n_logged}},
        "config": {"model": "local-chat-completions", "model_args": {"model": model, "api_key": "sk-secret"}},
        "date": START + 86_400 * (day - 1) + 0.5,
        "lm_eval_version": "0.4.13",
        "git_hash": "abc1234",
    }


def _sample(conversation: str, turn: int, setting: str, values: Values) -> dict[str, Any]:
    passages = [{"passage_id": f"p{number}", "title": f"t{number}", "text": f"text {number}"} for number in (1, turn)]
    doc = {
        "task_id": f"{conversation}<::>{turn}",
        "conversation_id": conversation,
        "turn": turn,
        "domain": "govt",
        "setting": setting,
        "answerability": "ANSWERABLE",
        "question_types": ["Factoid"],
        "multi_turn": "N/A",
        "history": [{"role": "user", "content": "first"}, {"role": "assistant", "content": "reply"}] * (turn - 1),
        "question": f"question {turn} of {conversation}",
        "passages": passages,
        "references": ["p1"],
        "target": "the target",
        "scoring": {"idk": "no", "unscored": {name: "why not" for name, value in values.items() if value is None}},
    }
    logged = {name: float("nan") if value is None else value for name, value in values.items()}
    return {"doc": doc, "filtered_resps": [f"answer to {conversation} {turn}"], "metrics": list(values), **logged}
