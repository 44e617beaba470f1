"""What figures rest on, as flat fields that can be shown side by side.

The results hold it in nested JSON that an older version, another program or a person may have written: whatever is
missing or of another shape shows as a dash, and nothing here can fail on it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ragtasks.reports.results import Evaluation, Row
from ragtasks.runs import canonical_hash

UNKNOWN = "-"
"""What stands for a fact that the results do not hold."""
CAUSES: Mapping[str, tuple[str, ...]] = {
    "data": ("benchmark", "data revision", "suite", "setting", "tasks", "harness task versions"),
    "encoder": ("encoder", "rescaled"),
    "judges": ("idk detector", "judges"),
    "prompts": ("system prompt", "plain prompt", "system instruction", "judge prompts", "rubrics"),
}
"""Cause -> the fields that make figures incomparable where they differ."""
DECISIVE = tuple(field for fields in CAUSES.values() for field in fields)
"""The fields of all causes."""
_ASKED = ("max_words", "conversational", "end_of_thinking")  # of the configuration
_SHORT = 16
# Of the model's arguments only these are shown: others may hold a key, a header or a private address.
_PUBLIC_ARGUMENTS = ("model", "pretrained", "revision", "dtype", "quantization", "peft", "max_length", "max_model_len")


def provenance_of(
    evaluation: Evaluation, tasks: Sequence[str], rows: Sequence[Row], results: Mapping[str, Any]
) -> dict[str, str]:
    """Return field -> text of an evaluation in one setting; `UNKNOWN` for what the results do not say.

    Args:
        evaluation: where the rows come from.
        tasks: harness tasks of the setting. A field in which they differ has every value, joined by `; `.
        rows: responses in the setting.
        results: the results file.
    """
    own = {task: evaluation.facts[task] for task in tasks}

    def shared(*keys: str) -> str:
        return _distinct(value_at(facts, *keys) for facts in own.values())

    return {
        "benchmark": shared("benchmark"),
        "data revision": shared("revision"),
        "suite": evaluation.suite,
        "setting": _distinct(row.setting for row in rows),
        "tasks": _tasks(rows),
        "harness task versions": _distinct(value_at(results, "versions", task) for task in tasks),
        "encoder": shared("scoring", "encoder"),
        "rescaled": shared("scoring", "rescaled"),
        "idk detector": shared("scoring", "idk_detector"),
        "judges": shared("scoring", "judges"),
        "system prompt": shared("prompts", "system"),
        "plain prompt": shared("prompts", "plain"),
        "system instruction": _text(value_at(results, "system_instruction_sha")),
        "judge prompts": shared("scoring", "judge_prompts"),
        "rubrics": shared("scoring", "rubrics"),
        "run": shared("configuration", "run"),
        "run key": shared("run_key"),
        "requests": _requests({task: value_at(facts, "fingerprint") for task, facts in own.items()}),
        "model": evaluation.model,
        "model arguments": _text(_public(value_at(results, "config", "model_args"))),
        "chat template": _text(value_at(results, "chat_template_sha")),
        "generation options": _distinct(value_at(results, "configs", task, "generation_kwargs") for task in tasks),
        "limit": _text(value_at(results, "config", "limit")),
        "texts that the encoder cut": shared("scoring", "n_truncated"),
        "judge usage": shared("scoring", "judge_usage"),
        "configuration": shared("configuration"),
        "ragtasks version": shared("ragtasks_version"),
        "harness version": _text(value_at(results, "lm_eval_version")),
        "transformers version": _text(value_at(results, "transformers_version")),
        "git commit": _text(value_at(results, "git_hash")),
    }


def scored_on(evaluation: Evaluation) -> dict[str, str]:
    """Return field -> text of what figures must share to stand in one table, as a heading says it.

    The benchmark is the heading's title. What the results do not say, or did not use, has no field.
    """
    _, encoder, detector = evaluation.kind
    is_rescaled = _said(evaluation, "scoring", "rescaled") == "true"
    rubrics = _said(evaluation, "scoring", "rubrics")
    fields = {
        "data revision": evaluation.revision,
        "metrics": evaluation.suite,
        "encoder of BERTScore": f"{encoder}, rescaled" if is_rescaled else encoder,
        "retriever": _said(evaluation, "scoring", "retriever", "line"),
        "IDK detector": detector,
        "rubrics": UNKNOWN if rubrics == UNKNOWN else canonical_hash(rubrics)[:_SHORT],
    }
    return {name: text for name, text in fields.items() if text not in {"", UNKNOWN}}


def asked_with(evaluation: Evaluation) -> dict[str, str]:
    """Return field -> text of how answers were asked for: what a comparison may be about, and must be said then.

    The model's name has its run; the run's key is here, under a field of its own for each run. Of the path of a prompt
    only the file is named.
    """
    prompts = {
        f"{name} prompt": [_text(value_at(facts, "prompts", name)) for facts in evaluation.facts.values()]
        for name in ("system", "plain")
    }
    fields = {
        **{field: _distinct(text.rpartition("/")[2] for text in texts) for field, texts in prompts.items()},
        **{name: _said(evaluation, "configuration", name) for name in _ASKED},
    }
    run, key = _said(evaluation, "configuration", "run"), _said(evaluation, "run_key")
    return fields if key == UNKNOWN else {**fields, f"key of run {run}": key[:_SHORT]}


def asked_otherwise(evaluations: Sequence[Evaluation]) -> dict[str, str]:
    """Return the fields of `asked_with` that differ -> each text and whose it is; empty where all were asked alike.

    Args:
        evaluations: that share a table, one a model.
    """
    models_of: dict[str, dict[str, list[str]]] = {}
    for evaluation in evaluations:
        for name, text in asked_with(evaluation).items():
            models_of.setdefault(name, {}).setdefault(text, []).append(evaluation.model)
    return {
        name: ", but ".join(f"{text} for {', '.join(models)}" for text, models in own.items())
        for name, own in models_of.items()
        if len(own) > 1
    }


def causes_of(fields: Iterable[str]) -> list[str]:
    """Return the causes that any of the fields belongs to: none where figures stay comparable."""
    given = set(fields)
    return [cause for cause, own in CAUSES.items() if given & set(own)]


def value_at(found: Any, *keys: str) -> Any:
    """Return what stands in nested JSON objects under some keys; None where there is nothing."""
    for key in keys:
        found = found.get(key) if isinstance(found, Mapping) else None
    return found


def _said(evaluation: Evaluation, *keys: str) -> str:
    """Return what the results of all harness tasks say, each text once."""
    return _distinct(value_at(facts, *keys) for facts in evaluation.facts.values())


def _text(value: Any) -> str:
    if value is None or value in ("", {}, []):
        return UNKNOWN
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True, ensure_ascii=False)


def _distinct(values: Iterable[Any]) -> str:
    return "; ".join(dict.fromkeys(_text(value) for value in values)) or UNKNOWN


def _tasks(rows: Sequence[Row]) -> str:
    """Return how many tasks there are, and a hash of which: a `--limit` or other data shows in it."""
    ids = sorted({str(row.task_id) for row in rows})
    return f"{len(ids)} ({canonical_hash(ids)[:_SHORT]})"


def _requests(fingerprints: Mapping[str, Any]) -> str:
    """Return one fingerprint of what was asked in all harness tasks of a setting."""
    known = {task: value for task, value in fingerprints.items() if value is not None}
    return canonical_hash(known)[:_SHORT] if len(known) == len(fingerprints) else UNKNOWN


def _public(arguments: Any) -> dict[str, Any]:
    if not isinstance(arguments, Mapping):
        return {}
    return {key: arguments[key] for key in _PUBLIC_ARGUMENTS if key in arguments}


__all__ = [
    "CAUSES",
    "DECISIVE",
    "UNKNOWN",
    "asked_otherwise",
    "asked_with",
    "causes_of",
    "provenance_of",
    "scored_on",
    "value_at",
]
