"""What a combination of judges and free scores is worth on MTRAG's human evaluation, beside each score alone.

python perf/combination.py FOLDER [--nested]     the checkout with the human evaluation, such as data/mt-rag-benchmark

Each answer is predicted by the ratings of the other conversations. The judges are the paper's (published scores).
With `--nested` the scores are chosen too, for each conversation by the squared error on the others left out in turn,
among all sets of two to five of nine: what choosing is worth on answers that it did not see.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ragtasks.benchmarks.mtrag import REFERENCE_MODEL, load_human_evaluation
from ragtasks.judges import JUDGED_INPUTS, TARGETS
from ragtasks.judges._combination import _ridge
from ragtasks.metrics import NgramIdk
from ragtasks.reports.judge_card import combination_inputs, combine, rated_pairs, weights_table
from ragtasks.tables import Format, Section, render


def main(root: Path) -> None:
    """Print the table, and the weights."""
    answers = load_human_evaluation(root)
    labels = NgramIdk().detect([row.response for row in answers])
    idk = {row.key: label.verdict for row, label in zip(answers, labels, strict=True)}
    judged = {name: {row.key: row.metrics.get(name) for row in answers} for name in JUDGED_INPUTS}
    found, table = combine(
        answers,
        combination_inputs(answers, judged, idk),
        judges=(),
        rubrics={},
        data="MTRAG's human evaluation",
        time="",
    )
    print(render([Section("Combination", {}, (table, weights_table(found)))], Format.MARKDOWN))


_PUBLISHED = ("rb_agg", "RougeL", "Bert-Rec", "Bert-KPrec")
_FILE = "mtrag-human/evaluations/reference_subset_with_human_evaluations.json"


def nested(root: Path) -> None:
    """Print the agreement of combinations whose scores were chosen without the conversation that they predict."""
    answers = [row for row in load_human_evaluation(root) if row.model_id != REFERENCE_MODEL]
    labels = NgramIdk().detect([row.response for row in answers])
    idk = {row.key: label.verdict for row, label in zip(answers, labels, strict=True)}
    judged = {name: {row.key: row.metrics.get(name) for row in answers} for name in JUDGED_INPUTS}
    inputs = combination_inputs(answers, judged, idk)
    inputs["length"] = {key: math.log1p(value or 0.0) for key, value in inputs["length"].items()}
    for row in json.loads((root / _FILE).read_text())["evaluations"]:
        for name in _PUBLISHED:
            first = next(iter(row["annotations"].get(name, {}).values()), {"value": None})["value"]
            inputs.setdefault(name, {})[row["task_id"], row["model_id"]] = float(first or 0.0)
    rows = [row for row in answers if all(column.get(row.key) is not None for column in inputs.values())]
    columns = np.array([[column[row.key] for column in inputs.values()] for row in rows], dtype=np.float64)
    groups = np.unique([row.response.task.conversation_id for row in rows], return_inverse=True)[1]
    sets = [chosen for n in range(2, 6) for chosen in itertools.combinations(range(len(inputs)), n)]
    print(f"{len(rows)} answers, {len(sets)} sets of {', '.join(inputs)}")
    for target in TARGETS:
        people = np.array([row.rating(target) for row in rows])
        predicted = np.zeros(len(rows))
        for group in np.unique(groups):
            seen = groups != group
            errors = [_error(columns[seen][:, chosen], people[seen], groups[seen]) for chosen in sets]
            best = columns[:, sets[int(np.argmin(errors))]]
            constant, weights = _ridge(best[seen], people[seen])
            predicted[~seen] = constant + best[~seen] @ weights
        of_key = dict(zip((row.key for row in rows), predicted, strict=True))
        agree = []
        for pair in rated_pairs(rows):
            one, other = (of_key[pair.first.task.task_id, model] for model in pair.models)
            if pair.people[target]:
                agree.append(0.5 if one == other else float((one > other) == (pair.people[target] > 0)))
        print(f"{target}: {np.mean(agree):.3f} of {len(agree)} pairs")


def _error(columns: NDArray[np.float64], people: NDArray[np.float64], groups: NDArray[np.intp]) -> float:
    """Return the mean squared error of predictions by all other conversations."""
    total = 0.0
    for group in np.unique(groups):
        seen = groups != group
        constant, weights = _ridge(columns[seen], people[seen])
        total += float(((constant + columns[~seen] @ weights - people[~seen]) ** 2).sum())
    return total / len(people)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root", type=Path)
    parser.add_argument("--nested", action="store_true")
    given = parser.parse_args()
    (nested if given.nested else main)(given.root)
