"""What a results file says of where its answers come from: the model, its history, the kind of evaluation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ragtasks.logs._saved_answers import provenance_of_answers
from ragtasks.logs._saved_results import value_at

_OUR_PROMPTS = "ours"
OWN_HISTORY = "own history"
Kind = tuple[str, str, str]
"""Benchmark (says `sample` where it is one), encoder, and IDK detector with any judges of an evaluation."""


def own_history(provenance: Mapping[str, Any]) -> str:
    """Return that turns saw the model's own answers, and how passages were searched for; empty for gold history."""
    if value_at(provenance, "history", "answers") != "own":
        return ""
    searched = (value_at(provenance, "history", key) for key in ("retriever", "queries", "rewriter"))
    return ", ".join([OWN_HISTORY, *(text for text in searched if isinstance(text, str))])


def provenance_in(results: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return our harness tasks of a results file that ask for answers -> what it says of them."""
    return {
        task: {**_offered(results, task), **provenance, "harness": _asked_by_harness(results, task)}
        for task, provenance in provenance_of_answers(results.get("configs", {})).items()
    }


def _offered(results: Mapping[str, Any], task: str) -> dict[str, Any]:
    """Return how many tasks a harness task has before any limit: what older results say in place of its setting's."""
    setting = value_at(results, "configs", task, "dataset_kwargs", "setting")
    n = value_at(results, "n-samples", task, "original")
    return {"setting_tasks": {setting: {task: n}}} if isinstance(setting, str) and isinstance(n, int) else {}


def _asked_by_harness(results: Mapping[str, Any], task: str) -> dict[str, Any]:
    """Return what a call of the harness may change in how a task is asked, and the version of the task.

    The number of few-shot examples is not among it: our tasks take none, whatever the harness notes.
    """
    # Of a chat endpoint, which applies its template itself, the harness notes the empty text.
    is_templated = results["chat_template"] is not None if "chat_template" in results else None
    return {
        "version": value_at(results, "versions", task),
        "system_instruction_sha": value_at(results, "system_instruction_sha"),
        "has_chat_template": is_templated,
        "generation_kwargs": value_at(results, "configs", task, "generation_kwargs"),
    }


def kind_of(provenance: Mapping[str, Any]) -> Kind:
    return provenance["benchmark"], provenance["scoring"]["encoder"], _judging(provenance["scoring"])


def _judging(scoring: Mapping[str, Any]) -> str:
    """Return who decided on refusals, and the judges where there were any."""
    judges, prompts = scoring.get("judges"), scoring.get("judge_prompts") or _OUR_PROMPTS
    if not judges:
        return str(scoring["idk_detector"])
    words = "" if prompts == _OUR_PROMPTS else f" (prompts: {prompts})"
    return f"{scoring['idk_detector']}; judges: {judges}{words}"


def model_of(results: Mapping[str, Any]) -> str:
    """Return the model's own name where its arguments give one, else the harness's name for its kind."""
    config = results.get("config", {})
    arguments = config.get("model_args") or {}
    named = [arguments[key] for key in ("model", "pretrained") if isinstance(arguments, dict) and key in arguments]
    return str(named[0]) if named else str(config.get("model", "unknown"))


__all__ = ["OWN_HISTORY", "Kind", "kind_of", "model_of", "own_history", "provenance_in"]
