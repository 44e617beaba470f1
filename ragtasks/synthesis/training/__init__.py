"""What synthetic dialogues train: a light query rewriter and a bi-encoder, by the libraries' own trainers."""

from ragtasks.synthesis.training._retriever import (
    FORM,
    MEASURES,
    RETRIEVER_FITTING,
    TrainedRetriever,
    relevant,
    score_retriever,
    train_retriever,
)
from ragtasks.synthesis.training._rewriter import RewriterScores, TrainedOne, score_rewriter, train_rewriter
from ragtasks.synthesis.training._run import Fitting
from ragtasks.synthesis.training._split import Split, split_by_dialogue

__all__ = [
    "FORM",
    "MEASURES",
    "RETRIEVER_FITTING",
    "Fitting",
    "RewriterScores",
    "Split",
    "TrainedOne",
    "TrainedRetriever",
    "relevant",
    "score_retriever",
    "score_rewriter",
    "split_by_dialogue",
    "train_retriever",
    "train_rewriter",
]
