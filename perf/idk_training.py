"""Learns the weights of the IDK detector, and shows how it does on styles that it did not learn from.

    python -m perf.idk_training --data DIR                     prints one table a style, each left out of learning
    python -m perf.idk_training --data DIR --write FILE        learns from all and writes the weights

`perf/idk_answers.jsonl` has 2,099 answers in the manner of fifteen kinds of systems. Language models wrote them for
this project, not knowing the rules, and labelled them by the prompt of MTRAG's judge (`idk`); of ten kinds also every
sentence (`g` says that information is missing, `a` answers, `ga` both, `o` neither). They hold made-up facts: nothing
but their way of speaking is meant. The rules learn from sentences, thus from those ten kinds.

DIR is a checkout of IBM/mt-rag-benchmark: sentences with a negation of passages that no task shows are learned from as
prose that refuses nothing. Of a file of weights, nothing can be read back but words of grammar and of the classes.
"""

from __future__ import annotations

import argparse
import json
import random
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from sklearn.feature_extraction import DictVectorizer
from sklearn.linear_model import LogisticRegression

from perf.idk_agreement import Labelled, confusion, not_there, print_table, response_of
from ragtasks.metrics import RuleBasedIdk
from ragtasks.metrics.idk_rules import _learned
from ragtasks.metrics.idk_rules._classifying import refuses_by_rule
from ragtasks.metrics.idk_rules._clauses import sentences_of
from ragtasks.metrics.idk_rules._learned import (
    GAP,
    Sentences,
    answer_features,
    features_of,
    gap_probability,
    has_sign,
    tokens_of,
)
from ragtasks.records import Answerability

ANSWERS = Path(__file__).with_name("idk_answers.jsonl")
SENTENCES = Path(__file__).parents[1] / "tests" / "metrics" / "idk_sentences.jsonl"
"""Short replies, many of which look like a refusal and are none; those marked `final` are for tests alone."""
SHORT_REPLIES = "short replies"
"""Their style."""
N_PROSE = 8_000
PROSE_WEIGHT = 0.3
"""What a sentence of a passage counts beside one of an answer: nobody read it, and a few are refusals."""
SPARSITY = 0.5
"""Inverse strength of the L1 penalty, which leaves some hundred weights."""
N_GROUPS = 3
"""Groups of styles: which sentences of a group are gaps is told by the others, as it will be of new systems."""
MIN_SENTENCES = 4
"""Sentences of answers that a feature has to occur in."""

Weights = dict[str, dict[str, float]]


@dataclass(frozen=True)
class Answer:
    """A labelled answer.

    Attributes:
        style: the kind of system that it is in the manner of.
        idk: `yes`, `partial` or `no`.
        labels: a label a sentence; empty where nobody gave any.
        text: the answer.
        sentences: its sentences as the detector reads them.
    """

    style: str
    idk: str
    labels: tuple[str, ...]
    text: str
    sentences: tuple[str, ...]


def read_answers(path: Path = ANSWERS) -> list[Answer]:
    """Return the labelled answers of a file."""
    rows = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    return [
        Answer(row["style"], row["idk"], tuple(row["sentences"]), row["text"], tuple(sentences_of(row["text"])))
        for row in rows
    ]


def read_sentences(path: Path = SENTENCES) -> list[Answer]:
    """Return the short replies whose label tells that of each of their sentences."""
    found = []
    for row in map(json.loads, path.read_text(encoding="utf-8").splitlines()):
        sentences = tuple(sentences_of(row["text"]))
        label = {"no": "a", "yes": "g" if len(sentences) == 1 else ""}.get(row["idk"], "")
        if label and not row["final"]:
            found.append(Answer(SHORT_REPLIES, row["idk"], (label,) * len(sentences), row["text"], sentences))
    return found


def read_prose(data: Path) -> list[str]:
    """Return sentences with a negation out of passages that no task of the benchmark shows.

    Raises:
        BenchmarkFileError: there are no tasks or no passages.
    """
    tasks_files, archives = "*-human/generation_tasks/reference.jsonl", "corpora/passage_level/*.jsonl.zip"
    for pattern in (tasks_files, archives):
        if not any(data.glob(pattern)):
            raise not_there(data / pattern)
    shown = set()
    for tasks in data.glob(tasks_files):
        for line in tasks.read_text(encoding="utf-8").splitlines():
            shown |= {passage["text"][:200] for passage in json.loads(line)["contexts"]}
    found: list[str] = []
    for archive in sorted(data.glob(archives)):
        chosen = _prose_of(archive, shown)
        found += [sentence for sentence, _ in zip(chosen, range(N_PROSE // 4), strict=False)]
    return found


def _prose_of(archive: Path, shown: set[str]) -> Iterator[str]:
    with zipfile.ZipFile(archive) as opened:
        texts = [json.loads(line)["text"] for line in opened.read(opened.namelist()[0]).splitlines()]
    random.Random(0).shuffle(texts)
    for text in texts:
        if text[:200] not in shown:
            yield from (
                one for one in sentences_of(text) if 4 <= len(tokens_of(one)) <= 60 and has_sign(tokens_of(one))
            )


def learn(answers: Sequence[Answer], prose: Iterable[str]) -> Weights:
    """Return the weights that answers with labelled sentences teach."""
    told = [answer for answer in answers if answer.labels]
    return {"gap": _learn_gaps(told, prose), "answer": _learn_answers(told, _gaps_by_others(told, prose))}


def _learn_gaps(answers: Iterable[Answer], prose: Iterable[str]) -> dict[str, float]:
    told = [
        (features_of(tokens), "g" in label)
        for answer in answers
        for sentence, label in zip(answer.sentences, answer.labels, strict=True)
        if has_sign(tokens := tokens_of(sentence))
    ]
    plain = [features_of(tokens_of(sentence)) for sentence in prose]
    rows = [dict.fromkeys(sorted(features), 1.0) for features in [*(features for features, _ in told), *plain]]
    labels = [label for _, label in told] + [False] * len(plain)
    return _fit(rows, labels, [1.0] * len(told) + [PROSE_WEIGHT] * len(plain), n_counted=len(told))


def _gaps_by_others(answers: Sequence[Answer], prose: Iterable[str]) -> list[list[bool]]:
    """Return which sentences of each answer say that information is missing, as learned from other styles."""
    kept = list(prose)
    styles = sorted({answer.style for answer in answers})
    group = {style: number % N_GROUPS for number, style in enumerate(styles)}
    taught: list[Weights] = [
        {"gap": _learn_gaps([one for one in answers if group[one.style] != number], kept)} for number in range(N_GROUPS)
    ]
    return [_gaps(answer, taught[group[answer.style]]) for answer in answers]


def _gaps(answer: Answer, weights: Weights) -> list[bool]:
    with patch.object(_learned, "_learned", return_value=_learned.Learned.of(weights)):
        learned = [gap_probability(sentence) >= GAP for sentence in answer.sentences]
    return [by_rule or one for by_rule, one in zip(refuses_by_rule(answer.sentences), learned, strict=True)]


def _learn_answers(answers: Iterable[Answer], gaps: Iterable[list[bool]]) -> dict[str, float]:
    rows, labels = [], []
    for answer, found in zip(answers, gaps, strict=True):
        if any("g" in label for label in answer.labels):
            rows += answer_features(Sentences.of(answer.sentences), found)
            labels += ["a" in label for label in answer.labels]
    ordered = [dict(sorted(row.items())) for row in rows]
    return _fit(ordered, labels, [1.0] * len(rows), n_counted=len(rows))


def _fit(rows: list[dict[str, float]], labels: list[bool], weights: list[float], *, n_counted: int) -> dict[str, float]:
    names = DictVectorizer()
    matrix: Any = names.fit_transform(rows)
    kept = np.asarray((matrix[:n_counted] != 0).sum(axis=0)).ravel() >= MIN_SENTENCES
    model = LogisticRegression(C=SPARSITY, l1_ratio=1, solver="liblinear", random_state=0, max_iter=300)
    model.fit(matrix[:, kept], labels, sample_weight=weights)
    learned = zip(names.get_feature_names_out()[kept], model.coef_[0], strict=True)
    rounded = {str(name): round(float(value), 3) for name, value in learned}
    return {"": round(float(model.intercept_[0]), 3)} | {name: value for name, value in rounded.items() if value}


def leave_one_style_out(answers: Sequence[Answer], prose: Sequence[str]) -> None:
    """Print a table for each style, by weights that the nine others taught, and their sum."""
    every: Counter[tuple[str, str]] = Counter()
    for style in dict.fromkeys(answer.style for answer in answers):
        weights = learn([one for one in answers if one.style != style], prose)
        with patch.object(_learned, "_learned", return_value=_learned.Learned.of(weights)):
            table = confusion(RuleBasedIdk(), [labelled(one) for one in answers if one.style == style])
        print_table(style, table)
        every += table
    print_table("all styles, each left out", every)


def labelled(answer: Answer) -> Labelled:
    """Return an answer as what a detector is measured by."""
    return Labelled(response_of("c<::>1", Answerability.ANSWERABLE, answer.text), answer.idk)


def main() -> None:
    parser = argparse.ArgumentParser(description="Learns the weights of the IDK detector.")
    parser.add_argument("--data", type=Path, required=True, help="a checkout of IBM/mt-rag-benchmark")
    parser.add_argument("--write", type=Path, help="where the weights go; without it, each style is left out once")
    options = parser.parse_args()
    answers, prose = [*read_answers(), *read_sentences()], read_prose(options.data)
    if options.write:
        lines = json.dumps(learn(answers, prose), indent=0, sort_keys=True)
        options.write.write_text(f"{lines}\n", encoding="utf-8")
    else:
        leave_one_style_out(answers, prose)


if __name__ == "__main__":
    main()
