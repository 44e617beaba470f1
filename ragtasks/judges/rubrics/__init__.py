"""The rubrics: each turns a response into a question to a judge, and a reply into a label and a value."""

from ragtasks.judges.rubrics._citations import CITATION_SUPPORT, citation_support
from ragtasks.judges.rubrics._contexts import CONTEXT_PRECISION, CONTEXT_RECALL
from ragtasks.judges.rubrics._faithfulness import RL_F
from ragtasks.judges.rubrics._multihop_answer import MULTIHOP_ANSWER, multihop_answer
from ragtasks.judges.rubrics._named import (
    NOT_UNDERSPECIFIED,
    RB_LLM,
    RUBRICS,
    RubricMaker,
    added_rubric_names,
    label_finding,
    rubrics_named,
)
from ragtasks.judges.rubrics._nuggets import (
    NUGGET_ASSIGNMENT,
    NUGGET_CREATION,
    nugget_assignment,
    nugget_creation,
    nuggets_of,
)
from ragtasks.judges.rubrics._pairwise import PAIRWISE, pair_of, pairwise
from ragtasks.judges.rubrics._reference_less import RL_MTB, RL_R
from ragtasks.judges.rubrics._relevance import RELEVANCE, JudgedPassages, judge_passages, relevance

__all__ = [
    "CITATION_SUPPORT",
    "CONTEXT_PRECISION",
    "CONTEXT_RECALL",
    "MULTIHOP_ANSWER",
    "NOT_UNDERSPECIFIED",
    "NUGGET_ASSIGNMENT",
    "NUGGET_CREATION",
    "PAIRWISE",
    "RB_LLM",
    "RELEVANCE",
    "RL_F",
    "RL_MTB",
    "RL_R",
    "RUBRICS",
    "JudgedPassages",
    "RubricMaker",
    "added_rubric_names",
    "citation_support",
    "judge_passages",
    "label_finding",
    "multihop_answer",
    "nugget_assignment",
    "nugget_creation",
    "nuggets_of",
    "pair_of",
    "pairwise",
    "relevance",
    "rubrics_named",
]
