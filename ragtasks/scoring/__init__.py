"""Scoring of responses, all of them in one pass, independent of the harness."""

from ragtasks.scoring._anchors import frozen_anchors
from ragtasks.scoring._deciding import DECISION_FILE, Decided, RaceOptions, decide
from ragtasks.scoring._failures import record_checked, record_failure, record_unanswered, take_checked, take_failures
from ragtasks.scoring._judge import Folders, open_named, rescore
from ragtasks.scoring._judging import LocalJudge, given_metrics
from ragtasks.scoring._live_retrieval import LiveRetrieval
from ragtasks.scoring._plausibility import (
    EXEMPT,
    CheckedAnswers,
    Plausibility,
    check_answers,
    find_implausible,
    plausibility_of,
    require_plausible,
    with_turn_error,
)
from ragtasks.scoring._requirements import data_requirements, evaluation_requirements
from ragtasks.scoring._scoring import ResponseScorer, shared_scorer
from ragtasks.scoring._system import (
    ScoredSystem,
    System,
    SystemAnswers,
    SystemScores,
    ask_endpoint,
    request_body,
    rows_to_score,
    score_answers,
    system_to_score,
)
from ragtasks.scoring._tokens import Count, estimated_tokens, token_counter, tokens_of_text
from ragtasks.scoring._tool_server import serve_tools
from ragtasks.scoring._toolbox import Toolbox, ToolCall, ToolLimits, ToolResult, ToolSession

__all__ = [
    "DECISION_FILE",
    "EXEMPT",
    "CheckedAnswers",
    "Count",
    "Decided",
    "Folders",
    "LiveRetrieval",
    "LocalJudge",
    "Plausibility",
    "RaceOptions",
    "ResponseScorer",
    "ScoredSystem",
    "System",
    "SystemAnswers",
    "SystemScores",
    "ToolCall",
    "ToolLimits",
    "ToolResult",
    "ToolSession",
    "Toolbox",
    "ask_endpoint",
    "check_answers",
    "data_requirements",
    "decide",
    "estimated_tokens",
    "evaluation_requirements",
    "find_implausible",
    "frozen_anchors",
    "given_metrics",
    "open_named",
    "plausibility_of",
    "record_checked",
    "record_failure",
    "record_unanswered",
    "request_body",
    "require_plausible",
    "rescore",
    "rows_to_score",
    "score_answers",
    "serve_tools",
    "shared_scorer",
    "system_to_score",
    "take_checked",
    "take_failures",
    "token_counter",
    "tokens_of_text",
    "with_turn_error",
]
