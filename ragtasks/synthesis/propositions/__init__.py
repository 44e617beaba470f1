"""What dialogues are written from: propositions that a model takes from passages, or the documents' own sentences."""

from ragtasks.synthesis.propositions._extract import Extraction, extract_propositions
from ragtasks.synthesis.propositions._unit import Unit, cut_sentences, sublists, whole_passages

__all__ = ["Extraction", "Unit", "cut_sentences", "extract_propositions", "sublists", "whole_passages"]
