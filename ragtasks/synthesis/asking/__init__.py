"""What every kind of synthesis asks a model with: questions whose replies are read, never guessed."""

from ragtasks.synthesis.asking._asker import Asker, Failure, Question, question_of
from ragtasks.synthesis.asking._replies import UnreadableReplyError, listed_texts, object_with, text_of
from ragtasks.synthesis.asking._terms import covered_share, terms

__all__ = [
    "Asker",
    "Failure",
    "Question",
    "UnreadableReplyError",
    "covered_share",
    "listed_texts",
    "object_with",
    "question_of",
    "terms",
    "text_of",
]
