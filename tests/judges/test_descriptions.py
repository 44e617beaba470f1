"""Descriptions of rubrics: results store them, so a new wording makes all earlier judged scores not comparable."""

from __future__ import annotations

import ragtasks.judges.rubrics as shipped
from ragtasks.files import canonical_hash
from ragtasks.judges.rubrics import rubrics_named

NAMES = (
    *(shipped.RB_LLM, shipped.IDK, shipped.CLARIFICATION, shipped.RL_F, shipped.RL_F_CONVERSATION),
    *(shipped.RL_MTB, shipped.RL_R, shipped.CONTEXT_PRECISION, shipped.CONTEXT_RECALL),
)


def test_descriptions_are_those_of_earlier_results() -> None:
    descriptions = {rubric.name: rubric.description for rubric in rubrics_named(NAMES)}
    assert descriptions["idk"] == "whether the response says that it does not know"
    assert canonical_hash(descriptions)[:16] == "16e1f73add688b33", descriptions
