"""The model under test: its answers are kept as they come, and requests without an answer are told apart."""

from ragtasks.harness.answering.keeping import AnswerKeeper
from ragtasks.harness.answering.no_answer import NoAnswer

__all__ = ["AnswerKeeper", "NoAnswer"]
