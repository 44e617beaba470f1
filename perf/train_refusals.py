"""Trains the refusal detector (`ragtasks/metrics/refusals.py`) and measures it on held-out data.

    python -m perf.train_refusals --data DIR --systems DIR             measures, each set held out of training
    python -m perf.train_refusals --data DIR --systems DIR --write     trains on all and writes the weights

`perf/refusals/` contains labelled responses: `answers.jsonl` in the style of 23 types of systems and of plain answers
that resemble refusals, `registers.jsonl` in 57 registers, `short.jsonl` of a few words, `attributed.jsonl` that name
their source, `languages.jsonl` in twelve other languages. Language models wrote and labelled them for this project; the
facts in them are made up. `parts` are the sentences with a label each: `g` states that information is missing, `a`
answers, `ga` does both, `o` neither. A response without `parts` only has a label of its own; a first model labels its
sentences, once. `blind.jsonl` is only for measuring and was written after the model was finished.

DIR of --data is a checkout of IBM/mt-rag-benchmark: reference answers by answerability, the human evaluation with its
judge's label, and sentences with a negation from passages that no task shows, as prose without a refusal. DIR of
--systems contains labelled answers of real systems.

Every set is measured by weights trained without it: folds leave out complete systems, registers and rounds, and every
text of a measured set is removed from the training data, wherever else it occurs.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import zipfile
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.linear_model import LogisticRegression, SGDClassifier

from ragtasks.metrics import refusals

LABELLED = Path(__file__).with_name("refusals")
FOLDS, INNER_FOLDS = 6, 4
N_PROSE, PROSE_WEIGHT = 8_000, 0.3
STRENGTH, EPOCHS = 15.0, 10
"""Sentence model: inverse strength of its L2 penalty, and passes over the data."""
KEPT_FEATURES = 300_000
"""Number of buckets with the largest weights, which are written."""
LEANING = (0.0, 0.4, 0.8)
"""Added to the log odds of `yes`, `partial` and `no`. Without it, every tenth plain answer in new words is
misclassified.
"""
VERDICTS = [verdict.value for verdict in refusals.VERDICTS]
WEIGHT = {"languages": 0.8, "registers": 1.5, "systems": 1.5, "references": 0.7, "judged": 0.7}
"""Weight of a response by its file; 1 for others."""


@dataclass(eq=False, slots=True)
class Row:
    """A labelled response."""

    source: str
    """Source file."""
    group: str
    """Group that is held out together: a system, a register, a round."""
    label: str
    """`yes`, `partial`, `no` or `not yes`."""
    text: str
    sentences: list[str]
    labels: list[str] | None
    """One label per sentence."""
    language: str = "en"
    at: slice = field(default_factory=lambda: slice(0))
    """Indices of its sentences among those of all rows."""


def read_rows(data: Path, systems: Path) -> list[Row]:
    """Return all labelled responses that are not empty."""
    rows = [row for path in sorted(LABELLED.glob("*.jsonl")) for row in read_file(path)]
    rows += [
        _row("systems", {"group": path.stem, **record})
        for path in sorted(systems.glob("*.jsonl"))
        for record in _lines(path)
    ]
    for part in ("mtrag-human", "mtragun-human"):
        for record in _lines(data / part / "generation_tasks" / "reference.jsonl"):
            label = {"ANSWERABLE": "no", "UNANSWERABLE": "yes"}.get(
                (record.get("Answerability") or record["answerability"])[0]
            )
            if label:
                rows.append(_row("references", {"group": part, "idk": label, "text": record["targets"][0]["text"]}))
    judged = json.loads(
        (data / "mtrag-human/evaluations/reference_subset_with_human_evaluations.json").read_text("utf-8")
    )
    of_task = {task["task_id"]: task["Answerability"][0] for task in judged["tasks"]}
    for record in judged["evaluations"]:
        agrees = record["annotations"]["conditional_idk"]["composite"]["value"] == 1
        if (answerability := of_task[record["task_id"]]) != "CONVERSATIONAL":
            label = "yes" if agrees == (answerability == "UNANSWERABLE") else "not yes"
            rows.append(_row("judged", {"group": "judged", "idk": label, "text": record["model_response"]}))
    return [row for row in rows if row.sentences]


def read_file(path: Path) -> list[Row]:
    """Return the labelled responses in a file of `perf/refusals/` that are not empty."""
    return [row for record in _lines(path) if (row := _row(path.stem, record)).sentences]


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    yield from map(json.loads, path.read_text(encoding="utf-8").splitlines())


def _row(source: str, record: dict[str, Any]) -> Row:
    cut = [(label, text) for label, part in record.get("parts", ()) for text in refusals.sentences_of(part)]
    text = record["text"] if "text" in record else " ".join(part for _, part in record["parts"])
    sentences = [sentence for _, sentence in cut] or refusals.sentences_of(text)
    labels = [label for label, _ in cut] or None
    return Row(source, record["group"], record["idk"], text, sentences, labels, record.get("language", "en"))


_NEGATION = re.compile(r"\b(?:no|not|none|\w+n't|un\w+)\b")


def read_prose(data: Path) -> list[str]:
    """Return sentences with a negation from passages that no task shows."""
    shown = {
        passage["text"][:200]
        for path in data.glob("*-human/generation_tasks/reference.jsonl")
        for task in _lines(path)
        for passage in task["contexts"]
    }
    archives, rows = sorted(data.glob("corpora/passage_level/*.jsonl.zip")), []
    for archive in archives:
        with zipfile.ZipFile(archive) as opened:
            texts = [json.loads(line)["text"] for line in opened.read(opened.namelist()[0]).splitlines()]
        random.Random(0).shuffle(texts)
        sentences = (sentence for text in texts if text[:200] not in shown for sentence in refusals.sentences_of(text))
        denying = (
            sentence
            for sentence in sentences
            if 20 < len(sentence) < 400 and re.search(r"\b(?:no|not|none|\w+n't|un\w+)\b", sentence)
        )
        rows += [sentence for sentence, _ in zip(denying, range(N_PROSE // len(archives)), strict=False)]
    return rows


def matrix_of(sentences: Sequence[str]) -> Any:
    """Return the matrix of sentences by buckets."""
    rows, buckets, values = refusals.features_of(sentences)
    shape = (len(sentences), refusals.N_FEATURES)
    return sparse.coo_matrix((values.astype(np.float32), (rows, buckets)), shape).tocsr()


@dataclass
class Learned:
    """Contents of `refusals.Model` before writing."""

    table: Any
    bias: Any
    response: Any = None
    centre: Any = None
    spread: Any = None

    def scores(self, matrix: Any) -> Any:
        """Return the scores of sentences, with 2 columns."""
        return np.asarray(matrix @ self.table) + self.bias


class Learner:
    """Trains on rows whose sentences are rows of one matrix."""

    def __init__(self, rows: Sequence[Row], prose: Sequence[str]) -> None:
        start = 0
        for row in rows:
            row.at = slice(start, start + len(row.sentences))
            start = row.at.stop
        self.matrix = matrix_of([sentence for row in rows for sentence in row.sentences])
        self.prose = matrix_of(prose)
        n_seen = np.asarray((self.matrix != 0).sum(axis=0)).ravel()
        # Frequent features get less weight, and a feature of a single sentence gets 0.
        self.scale = np.where(n_seen >= 2, 1.5 / np.sqrt(np.log(2 + n_seen)), 0).astype(np.float32)

    def sentence_model(self, rows: Sequence[Row], first: Any = None) -> Learned:
        """Return the two linear scores. `first`: scores of all sentences that label the unlabelled ones."""
        at, gap, answer, weight = [], [], [], []
        for row in rows:
            for index, pair in enumerate(_sentence_labels(row, first) or ()):
                at.append(row.at.start + index)
                gap.append(pair[0])
                answer.append(pair[1])
                weight.append(WEIGHT.get(row.source, 1.0) * (1.0 if row.labels or len(row.sentences) == 1 else 0.7))
        n_prose = self.prose.shape[0]
        matrix = (sparse.vstack([self.matrix[at], self.prose]) @ sparse.diags(self.scale)).tocsr()
        weights = np.array([*weight, *[PROSE_WEIGHT] * n_prose])
        models = []
        for labels, of_prose in ((gap, False), (answer, True)):
            fitted = SGDClassifier(
                loss="log_loss",
                alpha=1 / (STRENGTH * len(weights)),
                max_iter=EPOCHS,
                tol=None,
                average=True,
                random_state=0,
            ).fit(matrix, np.array([*labels, *[of_prose] * n_prose]), sample_weight=weights)
            models.append((fitted.coef_[0] * self.scale, fitted.intercept_[0]))
        table = np.stack([coefficients for coefficients, _ in models], axis=1).astype(np.float32)
        return Learned(table, np.array([bias for _, bias in models]))

    def learn(self, rows: Sequence[Row]) -> Learned:
        """Return a complete model. Its response level is trained on sentence scores of other folds."""
        first = self.sentence_model(rows)
        scores = first.scores(self.matrix)
        by_text = ("systems", "short")
        key = {row: row.text if row.source in by_text else row.group for row in rows}
        fold = {row: zlib.crc32(key[row].encode()) % INNER_FOLDS for row in rows}
        features, labels, weights = [], [], []
        for number in range(INNER_FOLDS):
            part = self.sentence_model([row for row in rows if fold[row] != number], scores).scores(self.matrix)
            for row in rows:
                if fold[row] == number and row.label in VERDICTS:
                    features.append(refusals.response_features(part[row.at], row.sentences))
                    labels.append(VERDICTS.index(row.label))
                    weights.append(WEIGHT.get(row.source, 1.0))
        sentence_scores = self.sentence_model(rows, scores)
        matrix = np.array(features)
        sentence_scores.centre, sentence_scores.spread = matrix.mean(axis=0), matrix.std(axis=0) + 1e-6
        sentence_scores.response = LogisticRegression(C=1.0, max_iter=1000).fit(
            (matrix - sentence_scores.centre) / sentence_scores.spread, labels, sample_weight=weights
        )
        return sentence_scores


def _sentence_labels(row: Row, first: Any) -> list[tuple[bool, bool]] | None:
    """Return (gap, answer) of each sentence; None if not yet labelled."""
    n = len(row.sentences)
    if row.labels is not None:
        return [("g" in label, "a" in label) for label in row.labels]
    if n == 1 and row.label != "partial":
        return [(row.label == "yes", row.label != "yes")]
    if first is None:
        return None
    gaps, answers = first[row.at, 0] > 0, first[row.at, 1] > 0
    highest = np.arange(n) == first[row.at, 0].argmax()
    if row.label == "yes":
        return [(bool(gap), False) for gap in gaps | highest]
    if row.label == "partial":
        likeliest = np.arange(n) == first[row.at, 1].argmax()
        answers = answers if answers.any() else likeliest
        return list(zip((gaps | highest).tolist(), answers.tolist(), strict=True))
    return None if row.label == "not yes" and gaps.any() else [(False, bool(answer)) for answer in answers]


def packed(learned: Learned) -> dict[str, Any]:
    """Return the arrays of the weights file: the roots of the largest weights in 8 bits."""
    heaviest = np.sort(np.argsort(-np.abs(learned.table).max(axis=1), kind="stable")[:KEPT_FEATURES])
    roots = np.sign(learned.table[heaviest]) * np.sqrt(np.abs(learned.table[heaviest]))
    scale = np.percentile(np.abs(roots), 99.99, axis=0) / 127
    return {
        "steps": np.diff(heaviest, prepend=0).astype(np.uint16),
        "values": np.clip(np.round(roots / scale), -127, 127).astype(np.int8),
        "scale": scale.astype(np.float32),
        "bias": learned.bias.astype(np.float32),
        "centre": learned.centre.astype(np.float32),
        "spread": learned.spread.astype(np.float32),
        "weights": learned.response.coef_.astype(np.float32),
        "intercepts": (learned.response.intercept_ + LEANING).astype(np.float32),
    }


def verdicts_of(learned: Learned, rows: Sequence[Row]) -> list[str]:
    """Return the verdict on each row by the package with these weights."""
    model = refusals.unpacked(packed(learned))
    return [
        VERDICTS[int(np.argmax(probabilities))]
        for probabilities, _ in refusals.probabilities([row.text for row in rows], model)
    ]


def left_out(rows: Sequence[Row], prose: Sequence[str]) -> dict[Row, str]:
    """Return the verdict on each row by weights trained without its group and its text."""
    systems = sorted({row.group for row in rows if row.source == "systems"})
    verdicts: dict[Row, str] = {}
    for number in range(FOLDS):
        measured = [row for row in rows if _fold(row, systems) == number]
        texts = {_words(row) for row in measured}
        taught = [
            row for row in rows if row.source != "blind" and _fold(row, systems) != number and _words(row) not in texts
        ]
        verdicts |= zip(measured, verdicts_of(Learner(taught, prose).learn(taught), measured), strict=True)
        print(f"fold {number + 1} of {FOLDS}: {len(taught)} responses taught, {len(measured)} measured", flush=True)
    return verdicts


def _fold(row: Row, systems: Sequence[str]) -> int:
    if row.source == "systems":
        return systems.index(row.group) % FOLDS
    if row.source == "languages":
        return int(row.group.split()[1]) % FOLDS
    return zlib.crc32((row.text if row.source == "short" else row.group).encode()) % FOLDS


def _words(row: Row) -> str:
    return " ".join(re.findall(r"\w+", row.text.lower()))


def print_measures(verdicts: dict[Row, str]) -> None:
    """Print a line per set: kappa of `yes` against the rest, F1 of `partial`, and the shares classified correctly."""
    groups: dict[str, list[tuple[str, str]]] = defaultdict(list)
    printed: set[tuple[str, str]] = set()
    for row, verdict in verdicts.items():
        names = [row.source]
        names += [row.group] if row.source in ("systems", "languages") or row.group == "short, held back" else []
        names += [row.language] if row.source == "languages" else []
        names += [f"{row.source}, distinct texts"] if (row.source, _words(row)) not in printed else []
        printed.add((row.source, _words(row)))
        for name in names:
            groups[name].append((row.label, verdict))
    print(f"{'set':<28}{'n':>6}{'kappa':>8}{'F1 part.':>9}{'yes right':>11}{'no right':>10}{'yes or not':>12}")
    for name, pairs in sorted(groups.items()):
        print(f"{name:<28}{len(pairs):>6}" + "".join(f"{value:>10.3f}" for value in measures(pairs)))


def measures(pairs: Sequence[tuple[str, str]]) -> tuple[float, ...]:
    """Return kappa of `yes`, F1 of `partial`, and the shares correct of `yes`, of `no`, and of `yes` or not."""

    def share(chosen: Callable[[str], bool], right: Callable[[str, str], bool]) -> float:
        some = [right(label, verdict) for label, verdict in pairs if chosen(label)]
        return sum(some) / len(some) if some else float("nan")

    agreement = share(lambda _: True, lambda label, verdict: (label == "yes") == (verdict == "yes"))
    labelled, detected = (sum(pair[side] == "yes" for pair in pairs) / len(pairs) for side in (0, 1))
    chance = labelled * detected + (1 - labelled) * (1 - detected)
    both = sum(pair == ("partial", "partial") for pair in pairs)
    either = sum((pair[0] == "partial") + (pair[1] == "partial") for pair in pairs)
    return (
        (agreement - chance) / (1 - chance) if chance < 1 else float("nan"),
        2 * both / either if either else float("nan"),
        share(lambda label: label == "yes", lambda _, verdict: verdict == "yes"),
        share(lambda label: label == "no", lambda _, verdict: verdict == "no"),
        agreement,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="Trains and measures the refusal detector.")
    parser.add_argument("--data", type=Path, required=True, help="checkout of IBM/mt-rag-benchmark")
    parser.add_argument("--systems", type=Path, required=True, help="folder of labelled answers of real systems")
    parser.add_argument("--write", action="store_true", help="train on all data and write the weights of the package")
    options = parser.parse_args()
    rows, prose = read_rows(options.data, options.systems), read_prose(options.data)
    if options.write:
        taught = [row for row in rows if row.source != "blind"]
        np.savez_compressed(refusals.WEIGHTS, **packed(Learner(taught, prose).learn(taught)))
    else:
        print_measures(left_out(rows, prose))


if __name__ == "__main__":
    main()
