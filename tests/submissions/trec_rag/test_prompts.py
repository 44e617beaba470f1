"""The judges' prompts are fixed, because a changed word changes verdicts.

After a change, raise `metadata.version` and update the files.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from ragtasks.judges import Finding, Question, citation_support, nugget_assignment, nugget_creation
from tests.judges._scripted import code_in, response

SNAPSHOTS = Path(__file__).parent / "prompts"


def prompt_text(step: Question | Finding) -> Question:
    assert isinstance(step, Question)
    return step


def rendered() -> dict[str, str]:
    base = response("The ferry runs from April [1]. It is red.", history=())
    nuggets = [{"text": "It runs from April", "importance": "vital"}, {"text": "It is red", "importance": "okay"}]
    judged = replace(base, task=replace(base.task, extra={"nuggets": nuggets}))
    creation = prompt_text(nugget_creation().open(judged))
    reply = json.dumps({"id": code_in(creation.text), "nuggets": [nugget["text"] for nugget in nuggets]})
    return {
        "nugget_assignment": prompt_text(nugget_assignment().open(judged)).text,
        "citation_support": prompt_text(citation_support().open(judged)).text,
        "nugget_creation": creation.text,
        "nugget_importance": prompt_text(creation.read(reply)).text,
    }


@pytest.mark.parametrize("name", ["citation_support", "nugget_assignment", "nugget_creation", "nugget_importance"])
def test_prompts_are_unchanged(name: str) -> None:
    assert rendered()[name] == (SNAPSHOTS / f"{name}.txt").read_text(encoding="utf-8")


def test_rubrics_keep_their_texts() -> None:
    prints = {rubric.fingerprint for rubric in (nugget_assignment(), citation_support(), nugget_creation())}
    assert len(prints) == 3
