"""Fine-tunes the encoder of refusals (`ragtasks/metrics/refusal_encoder.py`), and measures it on `blind.jsonl`.

    python -m perf.train_refusal_encoder                     measures the packaged weights
    python -m perf.train_refusal_encoder --write             trains and writes the weights of the package

Training data are the English responses of `perf/refusals/` (`perf/train_refusals.py` describes them), without responses
of real systems. The encoder's weights are frozen: a low-rank change of its upper half is trained, with the labels of
sentences as a second target. About fifteen minutes on two cores; a GPU is used if available.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Sequence

import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from perf.train_refusals import LABELLED, Row, measures, read_file
from ragtasks.metrics import refusals
from ragtasks.metrics.refusal_encoder import WEIGHTS, linear_layers, load_encoder, read, tokenized

RANK = 8
N_EPOCHS = 4
BATCH = 16
LEARNING_RATE = 1e-3
HEAD_LEARNING_RATE = 2e-3
WARM_UP = 0.1
"""Share of steps with a rising learning rate, which then decreases to 0."""
STRENGTH = 2.0
"""Scale of the low-rank change during training; the written weights include it."""
DROPOUT = 0.1
VERDICT_SHARE = 0.5
"""Weight of the verdict loss relative to the sentence loss."""


class Adapted(nn.Module):
    """A frozen linear layer with a trainable low-rank change."""

    def __init__(self, layer: nn.Linear) -> None:
        super().__init__()
        self.layer = layer
        self.down = nn.Parameter(torch.randn(RANK, layer.in_features) / layer.in_features**0.5)
        self.up = nn.Parameter(torch.zeros(layer.out_features, RANK))

    def forward(self, vectors: Tensor) -> Tensor:
        """Return the output of the layer with the change."""
        changed: Tensor = self.layer(vectors) + STRENGTH * ((vectors @ self.down.T) @ self.up.T)
        return changed


class Learner(nn.Module):
    """The encoder in training: adapted layers and two heads, one of which is only for training."""

    def __init__(self) -> None:
        super().__init__()
        self.tokenizer, self.encoder = load_encoder()
        self.encoder.requires_grad_(False)
        self.adapted = {}
        for name, layer in list(linear_layers(self.encoder)):
            owner, _, attribute = name.partition(".")[2].rpartition(".")
            parent = self.encoder.encoder.layer[int(name.partition(".")[0])].get_submodule(owner)
            self.adapted[name] = Adapted(layer)
            setattr(parent, attribute, self.adapted[name])
        width = self.encoder.config.hidden_size
        self.sentences, self.verdict = nn.Linear(width, 2), nn.Linear(width, len(refusals.VERDICTS))
        self.dropout = nn.Dropout(DROPOUT)

    def frozen(self) -> nn.ModuleList:
        """Return the states below the trainable layers, computed as at inference."""
        layers = self.encoder.encoder.layer
        return nn.ModuleList([self.encoder.embeddings, *layers[: len(layers) // 2]])

    def forward(self, answers: Sequence[Row]) -> tuple[Tensor, Tensor]:
        """Return gap and answer values of all sentences in sequence, and verdict values, one row per answer."""
        texts = [" ".join(answer.sentences) for answer in answers]
        tokens = tokenized(self.tokenizer, texts, return_offsets_mapping=True)
        offsets = tokens.pop("offset_mapping")
        hidden = self.dropout(self.encoder(**tokens.to(self.verdict.weight.device)).last_hidden_state)
        means = [
            _means(row, offsets[index], tokens.sequence_ids(index), answers[index].sentences)
            for index, row in enumerate(hidden)
        ]
        return self.sentences(torch.cat(means)), self.verdict(hidden[:, 0])

    def learned(self) -> dict[str, Tensor]:
        """Return the trained weights by their names in `refusal_encoder`."""
        weights = {"verdict.weight": self.verdict.weight, "verdict.bias": self.verdict.bias}
        for name, layer in self.adapted.items():
            weights |= {f"{name}.down": layer.down, f"{name}.up": layer.up * STRENGTH}
        return {name: tensor.detach().half().cpu().contiguous() for name, tensor in weights.items()}


def _means(vectors: Tensor, offsets: Tensor, parts: Sequence[int | None], sentences: Sequence[str]) -> Tensor:
    """Return the mean vector of each sentence's tokens, 0 for a truncated sentence."""
    ends = torch.tensor([len(sentence) + 1 for sentence in sentences]).cumsum(0)
    of_text = torch.tensor([part == 0 for part in parts])
    positions = torch.bucketize(offsets[:, 0].contiguous(), ends, right=True)
    chosen = (positions[None, :] == torch.arange(len(sentences))[:, None]) & of_text[None, :]
    weights = chosen.float() / chosen.sum(1, keepdim=True).clamp(min=1)
    return weights.to(vectors.device) @ vectors


def learn(answers: Sequence[Row]) -> dict[str, Tensor]:
    """Train on answers; deterministic on one machine."""
    torch.manual_seed(0)
    chance = random.Random(0)
    learner = Learner().to("cuda" if torch.cuda.is_available() else "cpu")
    learner.train()
    learner.frozen().eval()
    changes = [parameter for layer in learner.adapted.values() for parameter in (layer.down, layer.up)]
    heads = [*learner.sentences.parameters(), *learner.verdict.parameters()]
    optimizer = torch.optim.AdamW(
        [{"params": changes, "lr": LEARNING_RATE}, {"params": heads, "lr": HEAD_LEARNING_RATE}], weight_decay=0.01
    )
    n_steps = N_EPOCHS * -(-len(answers) // BATCH)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min(1.0, step / (WARM_UP * n_steps)) * max(0.0, 1 - step / n_steps)
    )
    for epoch in range(N_EPOCHS):
        total = 0.0
        for batch in _batches(answers, chance):
            loss = _loss(learner, [answers[index] for index in batch])
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(changes, 1.0)
            optimizer.step()
            schedule.step()
            total += loss.item()
        print(f"epoch {epoch + 1}: loss {total * N_EPOCHS / n_steps:.3f}", flush=True)
    return learner.learned()


def _loss(learner: Learner, answers: Sequence[Row]) -> Tensor:
    sentences, verdicts = learner(answers)
    is_labelled = [bool(answer.labels) for answer in answers for _ in answer.sentences]
    labels = [[float("g" in label), float("a" in label)] for answer in answers for label in answer.labels or ()]
    right = [[verdict.value for verdict in refusals.VERDICTS].index(answer.label) for answer in answers]
    of_verdicts = nn.functional.cross_entropy(verdicts, torch.tensor(right, device=verdicts.device))
    if not labels:
        return VERDICT_SHARE * of_verdicts
    gaps = torch.tensor(labels).to(sentences)
    of_sentences = nn.functional.binary_cross_entropy_with_logits(sentences[torch.tensor(is_labelled)], gaps)
    return of_sentences + VERDICT_SHARE * of_verdicts


def _batches(answers: Sequence[Row], chance: random.Random) -> list[list[int]]:
    """Return the indices of answers in batches of similar lengths, in random order."""
    order = sorted(range(len(answers)), key=lambda index: len(answers[index].text) + 100 * chance.random())
    batches = [order[start : start + BATCH] for start in range(0, len(order), BATCH)]
    chance.shuffle(batches)
    return batches


def main() -> None:
    parser = argparse.ArgumentParser(description="Fine-tunes the encoder of refusals.")
    parser.add_argument("--write", action="store_true", help="train and write the weights of the package")
    if parser.parse_args().write:
        answers = [row for name in ("answers", "registers", "short") for row in read_file(LABELLED / f"{name}.jsonl")]
        save_file(learn(answers), WEIGHTS)
        WEIGHTS.chmod(0o644)
    blind = read_file(LABELLED / "blind.jsonl")
    names = [verdict.value for verdict in refusals.VERDICTS]
    verdicts = [names[max(range(3), key=scores.__getitem__)] for scores in read([row.text for row in blind])]
    values = measures([(row.label, verdict) for row, verdict in zip(blind, verdicts, strict=True)])
    print("kappa {:.3f}, F1 of partial {:.3f}, yes right {:.3f}, no right {:.3f}, yes or not {:.3f}".format(*values))


if __name__ == "__main__":
    main()
