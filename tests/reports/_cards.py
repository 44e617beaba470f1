"""Cards of the judge `gpt`, and sides of a gate that it scored."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from ragtasks.judges import IDK, KAPPA, UNDECIDED, CardRow, JudgeCard
from ragtasks.reports.gate_sides import GatedSystem

PROMPTS = {"rb_llm": "aa", IDK: "bb", "clarification": "cc"}


def judged(found: GatedSystem, *rubrics: str) -> GatedSystem:
    """Return a side that the judge `gpt` scored with these rubrics; it detects refusals if `idk` is one of them."""
    fields = {"judges": "gpt", "rubrics": json.dumps({name: f"a text ({PROMPTS[name]})" for name in rubrics})}
    fields |= {"idk detector": "judge gpt"} if IDK in rubrics else {}
    return replace(found, fields={name: {**texts, **fields} for name, texts in found.fields.items()})


def card(
    rubric: str = "rb_llm", *, low: float = 0.5, n: int = 80, undecided: float | None = 0.05, **changes: Any
) -> Any:
    rows = [CardRow(rubric, KAPPA, 0.6, low, 0.7, n)]
    rows += [] if undecided is None else [CardRow(rubric, UNDECIDED, undecided, n=n)]
    made = JudgeCard("gpt", "2026-01-01T00:00:00", "labels.csv", {rubric: PROMPTS[rubric]}, tuple(rows))
    return replace(made, **changes)


def with_cards(found: GatedSystem, *cards: JudgeCard) -> GatedSystem:
    return replace(found, cards=tuple(one.json_values for one in cards))
