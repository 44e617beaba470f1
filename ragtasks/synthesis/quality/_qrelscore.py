"""QRelScore: how relevant a question is to the passages that its answer rests on, by two language models as they are.

The harmonic mean of two terms. Local: an encoder reads question and passages together; in each layer each token of the
question goes with the token of the passages that it attends to most, and the cosines of the two are averaged. Global:
by how much a causal language model finds the passages more likely after the question.

Source: X. Wang et al., QRelScore: Better Evaluating Generated Questions with Deeper Understanding of Context-aware
Relevance (EMNLP 2022), as its published implementation computes it. That one leaves out the last token of either text
in the local term, and averages the probabilities of question and passages together in the global one; so does this.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ragtasks.errors import MissingExtraError
from ragtasks.metrics import whole_weights
from ragtasks.weights import NO_CODE, loading
from retrieval_cache.retrievers import load_model

PUBLISHED_MODELS = ("bert-base-cased", "gpt2")
"""Encoder and language model of the published values."""

_PURPOSE = "QRelScore"


@dataclass(frozen=True, slots=True)
class Relevance:
    """How relevant a question is to its passages."""

    local: float
    """Mean cosine of the tokens that belong together, -1 to 1."""
    gain: float
    """Share by which the passages are more likely after the question, 0 or more."""

    @property
    def score(self) -> float:
        """The harmonic mean of both; 0 where one of them is not positive."""
        return 2 * self.local * self.gain / (self.local + self.gain) if min(self.local, self.gain) > 0 else 0.0


class QRelScore:
    """The two models; one pair of texts at a time."""

    def __init__(self, encoder: str, language_model: str) -> None:
        """Load the models.

        Args:
            encoder: `minilm`, a name on the Hugging Face hub, or a folder.
            language_model: a causal one: a name on the Hugging Face hub, or a folder.

        Raises:
            ConfigurationError: there is no such model.
            MissingExtraError: transformers, sentence-transformers or the package of `minilm` is not installed.
        """
        self.models = (encoder, language_model)
        # Only this implementation gives its attention away.
        loaded = load_model("SentenceTransformer", encoder, _PURPOSE, model_kwargs={"attn_implementation": "eager"})
        self._encoder = loaded[0].auto_model.eval()
        self._encoder_tokenizer = loaded.tokenizer
        self._model, self._tokenizer = _language_model(language_model)

    def __call__(self, question: str, passages: Sequence[str]) -> Relevance | None:
        """Return how relevant a question is to passages; None where one of them has fewer than two tokens."""
        context = " ".join(passages)
        local = self._local(question, context)
        before, after = self._likelihood(context), self._likelihood(f"{question} {context}")
        if local is None or not before or after is None:
            return None
        return Relevance(local, max(0.0, (after - before) / before))

    def _local(self, question: str, context: str) -> float | None:
        import torch

        encoding = self._encoder_tokenizer(
            question,
            context,
            truncation="only_second",
            max_length=self._encoder.config.max_position_embeddings,
            return_tensors="pt",
        )
        sides = encoding.sequence_ids(0)
        asked, given = ([place for place, side in enumerate(sides) if side == number][:-1] for number in (0, 1))
        if not asked or not given:
            return None
        with torch.no_grad():
            found = self._encoder(
                **encoding.to(self._encoder.device), output_hidden_states=True, output_attentions=True
            )
        cosines = []
        for hidden, attention in zip(found.hidden_states[1:], found.attentions, strict=True):
            by_pair = attention[0].amax(dim=0)[asked][:, given]
            vectors = torch.nn.functional.normalize(hidden[0], dim=-1)
            attended = vectors[given][by_pair.argmax(dim=1)]
            cosines.append((vectors[asked] * attended).sum(dim=1).mean())
        return float(torch.stack(cosines).mean())

    def _likelihood(self, text: str) -> float | None:
        """Return the mean probability of the tokens of a text after the first; None without one."""
        import torch

        longest = getattr(self._model.config, "max_position_embeddings", None)
        ids = self._tokenizer(text, return_tensors="pt", truncation=longest is not None, max_length=longest).input_ids
        if ids.shape[1] < 2:
            return None
        with torch.no_grad():
            logits = self._model(ids.to(self._model.device)).logits[0, :-1].float()
        return float(logits.softmax(dim=-1).gather(1, ids[0, 1:, None].to(logits.device)).mean())


def _language_model(name: str) -> tuple[Any, Any]:
    try:
        from transformers import AutoModelForCausalLM, AutoTokenizer
    except ImportError as error:
        raise MissingExtraError("transformers", "train", _PURPOSE) from error
    with (
        loading(
            _PURPOSE,
            name,
            expected="a name on the Hugging Face hub, or a folder with a causal language model",
            next_step="check the name; without a network, download the model first and name its folder",
        ),
        whole_weights(_PURPOSE, name, "take a causal language model, such as gpt2"),
    ):
        model = AutoModelForCausalLM.from_pretrained(name, **NO_CODE)
        return model.eval(), AutoTokenizer.from_pretrained(name, **NO_CODE)


__all__ = ["PUBLISHED_MODELS", "QRelScore", "Relevance"]
