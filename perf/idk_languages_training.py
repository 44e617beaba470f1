"""Learns the weights of refusals in other languages than English, and shows how they do on a round left out.

    python -m perf.idk_languages_training                prints a table a round, each left out of learning
    python -m perf.idk_languages_training --write        learns from all but the eighth and writes the package's weights

`perf/idk_languages.jsonl` has eight rounds of sentences in twelve languages, which language models wrote for this
project. One regression serves all languages. The tables' phrases were changed for the first five rounds until they read
nearly all of them, so that every response is learned from twice, with and without its phrases. Longer responses are
made of several. Leaving out a round flatters, for the tables' words were widened with rounds six and seven in view. The
eighth was written for measuring and is never learned from.
"""

from __future__ import annotations

import argparse
import json
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.feature_extraction import DictVectorizer
from sklearn.linear_model import LogisticRegression

from perf.idk_agreement import HELD_BACK
from ragtasks.metrics.idk_languages import LANGUAGES, WEIGHTS, Clause, Weights, clauses_in, features_of
from ragtasks.records import IdkVerdict

SENTENCES = Path(__file__).with_name("idk_languages.jsonl")
SPARSITY = 0.3
"""Inverse strength of the L1 penalty, which leaves some hundred weights."""
TABLES_KNEW = 5
"""Rounds that the tables' phrases were changed for; the others count `LATER` times as much."""
LATER = 3.0
N_LONG = 25
"""Longer responses a language and verdict."""
LONG_WEIGHT = 0.5
LEAST = 8
"""Rows that a feature has to occur in."""


@dataclass(frozen=True)
class Row:
    """A labelled response, read."""

    round: int
    language: str
    verdict: IdkVerdict
    clauses: tuple[Clause, ...]


def read_rows() -> list[Row]:
    """Return the labelled responses."""
    rows = map(json.loads, SENTENCES.read_text(encoding="utf-8").splitlines())
    return [
        Row(row["round"], row["language"], IdkVerdict(row["idk"]), tuple(clauses_in(row["text"], row["language"])))
        for row in rows
    ]


def learn(rows: Sequence[Row]) -> dict[str, dict[str, float]]:
    """Return verdict -> feature -> weight, the empty feature the intercept."""
    told = [(row.clauses, row.verdict, 1.0 if row.round <= TABLES_KNEW else LATER) for row in rows]
    told += [(clauses, verdict, LONG_WEIGHT) for clauses, verdict in _longer(rows)]
    features = [features_of(clauses) for clauses, _, _ in told]
    features += [{one for one in of_one if "phrase" not in one} for of_one in features]
    verdicts, weights = [verdict.value for _, verdict, _ in told] * 2, [weight / 2 for _, _, weight in told] * 2
    names = DictVectorizer()
    matrix: Any = names.fit_transform([dict.fromkeys(sorted(of_one), 1.0) for of_one in features])
    kept = np.asarray((matrix != 0).sum(axis=0)).ravel() >= LEAST
    found = {}
    for verdict in IdkVerdict:
        model = LogisticRegression(C=SPARSITY, l1_ratio=1, solver="liblinear", random_state=0, max_iter=300)
        model.fit(matrix[:, kept], [one == verdict.value for one in verdicts], sample_weight=weights)
        learned = zip(names.get_feature_names_out()[kept], model.coef_[0], strict=True)
        rounded = {str(name): round(float(value), 3) for name, value in learned}
        found[verdict.value] = {"": round(float(model.intercept_[0]), 3)} | {
            name: one for name, one in rounded.items() if one
        }
    return found


def _longer(rows: Sequence[Row]) -> list[tuple[tuple[Clause, ...], IdkVerdict]]:
    """Return responses made of several: plain answers, one refusal among them, refusals alone."""
    chance, found = random.Random(0), []
    for code in LANGUAGES:
        plain = [row.clauses for row in rows if (row.language, row.verdict) == (code, IdkVerdict.NO)]
        refusals = [row.clauses for row in rows if (row.language, row.verdict) == (code, IdkVerdict.YES)]
        for _ in range(N_LONG):
            found.append((sum(chance.sample(plain, chance.randint(3, 8)), ()), IdkVerdict.NO))
            mixed = chance.sample(plain, chance.randint(1, 6))
            mixed.insert(chance.randint(0, len(mixed)), chance.choice(refusals))
            found.append((sum(mixed, ()), IdkVerdict.PARTIAL))
            found.append((sum(chance.sample(refusals, chance.randint(2, 3)), ()), IdkVerdict.YES))
    return found


def leave_one_round_out(rows: Sequence[Row]) -> None:
    """Print for each round what weights make of it that the others taught, by language."""
    for number in sorted({row.round for row in rows}):
        weights = weights_of(learn([row for row in rows if row.round not in (number, HELD_BACK)]))
        print(f"\nround {number}, left out")
        print_table([row for row in rows if row.round == number], weights)


def print_table(rows: Sequence[Row], weights: Weights) -> None:
    """Print how many refusals are `yes`, and how many others are not, by language and in sum."""
    counts = Counter[tuple[str, bool, bool]]()
    for row in rows:
        may_refuse = any(clause.may_refuse for clause in row.clauses)
        is_found = may_refuse and weights.verdict(features_of(row.clauses)) is IdkVerdict.YES
        for code in (row.language, "all"):
            counts[code, row.verdict is IdkVerdict.YES, is_found] += 1
    for code in (*LANGUAGES, "all"):
        refusals = f"{counts[code, True, True]} of {counts[code, True, True] + counts[code, True, False]} refusals"
        others = f"{counts[code, False, False]} of {counts[code, False, True] + counts[code, False, False]} others"
        print(f"  {code:<4} {refusals}, {others}")


def weights_of(learned: dict[str, dict[str, float]]) -> Weights:
    """Return what was learned as the detector reads it."""
    return Weights({verdict: learned[verdict.value] for verdict in IdkVerdict})


def main() -> None:
    parser = argparse.ArgumentParser(description="Learns the weights of refusals in other languages than English.")
    parser.add_argument(
        "--write", action="store_true", help="write the weights; without it, each round is left out once"
    )
    rows = read_rows()
    if parser.parse_args().write:
        WEIGHTS.write_text(
            json.dumps(
                learn([row for row in rows if row.round != HELD_BACK]), indent=0, sort_keys=True, ensure_ascii=False
            )
            + "\n",
            encoding="utf-8",
        )
    else:
        leave_one_round_out(rows)


if __name__ == "__main__":
    main()
