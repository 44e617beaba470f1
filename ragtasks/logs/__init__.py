"""The one reader of what an evaluation left behind."""

from ragtasks.logs._answer_contexts import OWN_CONTEXTS, contexts_of_answers
from ragtasks.logs._evaluations import Evaluation, evaluation_of, gold_model, has_own_history, read_evaluations
from ragtasks.logs._given_answers import AnswerReader, GivenAnswer, Note, read_answers
from ragtasks.logs._merging import Group, comparable_evaluations, group_of, merge_evaluations, model_names
from ragtasks.logs._origin import Kind, model_of, own_history
from ragtasks.logs._predictions import answers_evaluation, read_predictions
from ragtasks.logs._provenance import (
    ASKED,
    CAUSES,
    DECISIVE,
    UNKNOWN,
    asked_otherwise,
    causes_of,
    files_of,
    heading,
    provenance_of,
    scored_on,
    shortened_prompts,
)
from ragtasks.logs._rows import Row
from ragtasks.logs._sample_lines import samples_of
from ragtasks.logs._saved_answers import DEFAULT_SUITE, SavedEvaluation, SavedTask, evaluation_files, read_results
from ragtasks.logs._saved_results import value_at
from ragtasks.logs._saved_settings import say_unused

__all__ = [
    "ASKED",
    "CAUSES",
    "DECISIVE",
    "DEFAULT_SUITE",
    "OWN_CONTEXTS",
    "UNKNOWN",
    "AnswerReader",
    "Evaluation",
    "GivenAnswer",
    "Group",
    "Kind",
    "Note",
    "Row",
    "SavedEvaluation",
    "SavedTask",
    "answers_evaluation",
    "asked_otherwise",
    "causes_of",
    "comparable_evaluations",
    "contexts_of_answers",
    "evaluation_files",
    "evaluation_of",
    "files_of",
    "gold_model",
    "group_of",
    "has_own_history",
    "heading",
    "merge_evaluations",
    "model_names",
    "model_of",
    "own_history",
    "provenance_of",
    "read_answers",
    "read_evaluations",
    "read_predictions",
    "read_results",
    "samples_of",
    "say_unused",
    "scored_on",
    "shortened_prompts",
    "value_at",
]
