"""QRelScore: relevance of a question to the passages of its answer, by two language models without training.

The harmonic mean of two terms. Local: an encoder reads question and passages together. In each layer each question
token is paired with the passage token that it attends to most, and the cosines of the pairs are averaged. Global: how
much more likely a causal language model rates the passages after the question.

Source: X. Wang et al., QRelScore: Better Evaluating Generated Questions with Deeper Understanding of Context-aware
Relevance (EMNLP 2022), as its published implementation computes it. The implementation leaves out the last token of
either text in the local term, and averages the probabilities of question and passages together in the global term. This
module does the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ragtasks.benchmarks import Benchmark
from ragtasks.files import NO_CODE, loading
from ragtasks.metrics import require_all_weights
from ragtasks.progress import Progress, no_progress
from ragtasks.requirements import importing
from ragtasks.synthesis.folder import standalone
from ragtasks.tables import Table, fixed
from retrieval_cache import load_model

PUBLISHED_MODELS = ("bert-base-cased", "gpt2")
"""Encoder and language model of the published values."""

_PURPOSE = "QRelScore"


@dataclass(frozen=True, slots=True)
class Relevance:
    """Relevance of a question to its passages."""

    local: float
    """Mean cosine of paired tokens, -1 to 1."""
    gain: float
    """Relative increase of the passages' likelihood after the question, 0 or more."""

    @property
    def score(self) -> float:
        """Harmonic mean of both; 0 unless both are positive."""
        return 2 * self.local * self.gain / (self.local + self.gain) if min(self.local, self.gain) > 0 else 0.0


class QRelScore:
    """The two models; scores one pair of texts at a time."""

    def __init__(self, encoder: str, language_model: str) -> None:
        """Load the models."""
        self.models = (encoder, language_model)
        # Other implementations do not return attention weights.
        loaded = load_model("SentenceTransformer", encoder, _PURPOSE, model_kwargs={"attn_implementation": "eager"})
        self._encoder = loaded[0].auto_model.eval()
        self._encoder_tokenizer = loaded.tokenizer
        self._model, self._tokenizer = _language_model(language_model)

    def __call__(self, question: str, passages: Sequence[str]) -> Relevance | None:
        """Return the relevance of a question to passages; None if either text has too few tokens."""
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
        question_tokens, passage_tokens = (
            [position for position, side in enumerate(sides) if side == number][:-1] for number in (0, 1)
        )
        if not question_tokens or not passage_tokens:
            return None
        with torch.no_grad():
            output = self._encoder(
                **encoding.to(self._encoder.device), output_hidden_states=True, output_attentions=True
            )
        cosines = []
        for hidden, attention in zip(output.hidden_states[1:], output.attentions, strict=True):
            by_pair = attention[0].amax(dim=0)[question_tokens][:, passage_tokens]
            vectors = torch.nn.functional.normalize(hidden[0], dim=-1)
            attended = vectors[passage_tokens][by_pair.argmax(dim=1)]
            cosines.append((vectors[question_tokens] * attended).sum(dim=1).mean())
        return float(torch.stack(cosines).mean())

    def _likelihood(self, text: str) -> float | None:
        """Return the mean probability of the tokens of a text after the first; None for a single token."""
        import torch

        max_tokens = getattr(self._model.config, "max_position_embeddings", None)
        ids = self._tokenizer(
            text, return_tensors="pt", truncation=max_tokens is not None, max_length=max_tokens
        ).input_ids
        if ids.shape[1] < 2:
            return None
        with torch.no_grad():
            logits = self._model(ids.to(self._model.device)).logits[0, :-1].float()
        return float(logits.softmax(dim=-1).gather(1, ids[0, 1:, None].to(logits.device)).mean())


def _language_model(name: str) -> tuple[Any, Any]:
    with importing("transformers", "train", _PURPOSE):
        from transformers import AutoModelForCausalLM, AutoTokenizer
    with (
        loading(
            _PURPOSE,
            name,
            expected="a name on the Hugging Face hub, or a folder with a causal language model",
            next_step="check the name; without a network, download the model first and give its folder",
        ),
        require_all_weights(_PURPOSE, name, "use a causal language model, such as gpt2"),
    ):
        model = AutoModelForCausalLM.from_pretrained(name, **NO_CODE)
        return model.eval(), AutoTokenizer.from_pretrained(name, **NO_CODE)


# Table of QRelScore: questions in both forms, next to the published values.

# OR-CONVQA paper, Table 1, dialogues from propositions of public and of proprietary documents.
_PUBLISHED_RELEVANCE = {"as asked": ("0.33", "0.36"), "standing alone": ("0.36", "0.41")}


def relevance_table(benchmark: Benchmark, measure: QRelScore, progress: Progress = no_progress) -> Table:
    """Return the means over all questions whose answers have passages."""
    tasks = [task for task in benchmark.tasks if task.references]
    forms = {"as asked": [task.question for task in tasks], "standing alone": list(map(standalone, tasks))}
    rows = []
    n_done = 0
    for form, questions in forms.items():
        relevances: list[Relevance | None] = []
        for task, question in zip(tasks, questions, strict=True):
            relevances.append(measure(question, [passage.text for passage in task.references]))
            n_done += 1
            progress("QRelScore\tquestions", n_done, 2 * len(tasks))
        scored = [relevance for relevance in relevances if relevance is not None]
        means = [_mean([getattr(relevance, name) for relevance in scored]) for name in ("local", "gain", "score")]
        rows.append((form, f"{len(scored)} of {len(benchmark.tasks)}", *means, *_PUBLISHED_RELEVANCE[form]))
    columns = ("questions", "scored", "local", "global", "QRelScore", "paper, public", "paper, proprietary")
    encoder, language_model = measure.models
    note = (
        f"Encoder {encoder}, language model {language_model}; the paper's values have {' and '.join(PUBLISHED_MODELS)}."
    )
    if measure.models != PUBLISHED_MODELS:
        note += " Values of other models are comparable only with each other."
    legend = ("not scored: questions whose answers have no passages, and texts of one token",)
    return Table("QRelScore", columns, tuple(rows), note, legend)


def _mean(values: Sequence[float]) -> str:
    return fixed(sum(values) / len(values)) if values else "-"
