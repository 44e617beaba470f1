"""Language models as judges: what they are asked (rubrics), how a reply is read (parsers), what they said (verdicts).

A rubric turns a response into a question, a client answers it, a parser reads the final verdict and nothing else. A
reply without one is asked for again once, then stays without a value: no number is made up for it.
"""

from ragtasks.judges._parsers import UnparsableReplyError, json_values
from ragtasks.judges._question import Question, Rubric, code_of
from ragtasks.judges._session import judge_responses
from ragtasks.judges._verdicts import CLARIFICATION, IDK, JudgeIdk, Verdict, VerdictOutcome, Verdicts
from ragtasks.judges.rubrics import (
    CITATION_SUPPORT,
    CONTEXT_PRECISION,
    CONTEXT_RECALL,
    MULTIHOP_ANSWER,
    NUGGET_ASSIGNMENT,
    NUGGET_CREATION,
    PAIRWISE,
    RB_LLM,
    RELEVANCE,
    RL_F,
    RL_MTB,
    RL_R,
    JudgedPassages,
    citation_support,
    judge_passages,
    multihop_answer,
    nugget_assignment,
    nugget_creation,
    nuggets_of,
    pair_of,
    pairwise,
    relevance,
    rubrics_named,
)

__all__ = [
    "CITATION_SUPPORT",
    "CLARIFICATION",
    "CONTEXT_PRECISION",
    "CONTEXT_RECALL",
    "IDK",
    "MULTIHOP_ANSWER",
    "NUGGET_ASSIGNMENT",
    "NUGGET_CREATION",
    "PAIRWISE",
    "RB_LLM",
    "RELEVANCE",
    "RL_F",
    "RL_MTB",
    "RL_R",
    "JudgeIdk",
    "JudgedPassages",
    "Question",
    "Rubric",
    "UnparsableReplyError",
    "Verdict",
    "VerdictOutcome",
    "Verdicts",
    "citation_support",
    "code_of",
    "json_values",
    "judge_passages",
    "judge_responses",
    "multihop_answer",
    "nugget_assignment",
    "nugget_creation",
    "nuggets_of",
    "pair_of",
    "pairwise",
    "relevance",
    "rubrics_named",
]
