"""The model under test: its answers are kept as they come, and requests without an answer are told apart."""

from ragtasks.harness.answering._keeping import AnswerKeeper, model_in_use
from ragtasks.harness.answering._kept_answers import KeptAnswers
from ragtasks.harness.answering._no_answer import NoAnswer
from ragtasks.harness.answering._system_answer import SystemAnswer

__all__ = [
    "AnswerKeeper",
    "KeptAnswers",
    "NoAnswer",
    "SystemAnswer",
    "model_in_use",
]
