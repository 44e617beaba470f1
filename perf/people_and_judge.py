"""People's mean from a few ratings and a judge's scores of all answers: does the interval cover, and what does it save.

python perf/people_and_judge.py simulated                made ratings, and judges that follow them more or less
python perf/people_and_judge.py mtrag FOLDER             the human evaluation, its conversations drawn again

"width": median width of the interval over that of the ratings alone; "people": ratings for an equal width.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from ragtasks.benchmarks.mtrag import REFERENCE_MODEL, load_human_evaluation
from ragtasks.judges import INPUTS, JUDGED_INPUTS, TARGETS, left_out_predictions
from ragtasks.metrics import NgramIdk
from ragtasks.reports.judge_card import combination_inputs
from ragtasks.statistics import assisted_mean

TRIALS = 200
N_CONVERSATIONS = 100
RATED = (12, 20, 40)
FOLLOWS = (0.0, 0.3, 0.6, 0.9)  # correlation of judge and people, within and between conversations
Draw = tuple[list[float], list[float], list[str]]
"""People's rating, judge's score and conversation of each answer; those of the first conversations are rated."""


def tried(draws: Iterator[tuple[Draw, int]], truth: float, bounds: tuple[float, float]) -> str:
    """Return the cells of one row."""
    covered, alone, used, widths = 0, 0, 0, []
    for (people, judge, names), n_rated in draws:
        first = set(list(dict.fromkeys(names))[:n_rated])
        rated = [value if name in first else None for value, name in zip(people, names, strict=True)]
        found = assisted_mean(rated, judge, names, bounds)
        if found.low is None or found.high is None or found.alone.low is None or found.alone.high is None:
            continue
        covered += found.low <= truth <= found.high
        alone += found.alone.low <= truth <= found.alone.high
        used += found.weight > 0
        widths.append((found.high - found.low) / (found.alone.high - found.alone.low))
    n, width = len(widths), float(np.median(widths))
    return f"{alone / n:.3f} | {covered / n:.3f} | {used / n:.0%} | {width:.2f} | {width**2:.2f}"


def simulated() -> None:
    """Print a row for each strength of the judge and number of rated conversations."""
    print(
        "| judge follows people | rated conversations | ratings alone cover | with the judge | used | width | people |"
    )
    print("|---:|---:|---:|---:|---:|---:|---:|")
    for follows in FOLLOWS:
        for n_rated in RATED:
            row = tried(made(follows, n_rated), 2.8, (-np.inf, np.inf))
            print(f"| {follows:g} | {n_rated} | {row} |")


def made(follows: float, n_rated: int) -> Iterator[tuple[Draw, int]]:
    """Yield benchmarks of conversations of 2 to 12 answers."""
    rng = np.random.default_rng(11)
    for _ in range(TRIALS):
        sizes = rng.integers(2, 13, N_CONVERSATIONS)
        index = np.repeat(np.arange(N_CONVERSATIONS), sizes)
        one, other = (
            0.3 * rng.normal(size=N_CONVERSATIONS)[index] + 0.6 * rng.normal(size=len(index)) for _ in range(2)
        )
        judge = 0.5 + 0.2 * (follows * one + np.sqrt(1 - follows**2) * other)
        yield ((2.8 + one).tolist(), judge.tolist(), [f"c{place}" for place in index]), n_rated


def mtrag(root: Path) -> None:
    """Print a row for each property and judge, on conversations of the human evaluation that are drawn again."""
    rows = [row for row in load_human_evaluation(root) if row.model_id != REFERENCE_MODEL]
    labels = NgramIdk().detect([row.response for row in rows])
    idk = {row.key: label.verdict for row, label in zip(rows, labels, strict=True)}
    inputs = combination_inputs(
        rows, {name: {row.key: row.metrics.get(name) for row in rows} for name in JUDGED_INPUTS}, idk
    )
    rows = [row for row in rows if all(inputs[name][row.key] is not None for name in INPUTS)]
    columns = {name: [inputs[name][row.key] or 0.0 for row in rows] for name in INPUTS}
    conversations = [row.response.task.conversation_id for row in rows]
    print("| people's | judge | system | ratings alone cover | with the judge | judge used | width | people |")
    print("|---|---|---|---:|---:|---:|---:|---:|")
    for name, bounds in TARGETS.items():
        people = [row.rating(name) for row in rows]
        judges = {one: columns[one] for one in JUDGED_INPUTS}
        judges["combination"] = left_out_predictions(columns, people, conversations)
        for judge, scores in judges.items():
            for system in ("both", *sorted({row.model_id for row in rows})):
                kept = [place for place, row in enumerate(rows) if system in {"both", row.model_id}]
                truth = float(np.mean([people[place] for place in kept]))
                draws = drawn([(people[place], scores[place], conversations[place]) for place in kept])
                print(f"| {name} | {judge} | {system} | {tried(draws, truth, bounds)} |", flush=True)


def drawn(answers: Sequence[tuple[float, float, str]]) -> Iterator[tuple[Draw, int]]:
    """Yield benchmarks of 100 conversations, each one of those given; 20 are rated."""
    groups: dict[str, list[tuple[float, float]]] = {}
    for people, judge, name in answers:
        groups.setdefault(name, []).append((people, judge))
    members = list(groups.values())
    rng = np.random.default_rng(13)
    for _ in range(TRIALS):
        chosen = [members[place] for place in rng.integers(0, len(members), N_CONVERSATIONS)]
        flat = [(*pair, f"c{number}") for number, group in enumerate(chosen) for pair in group]
        yield ([one for one, _, _ in flat], [one for _, one, _ in flat], [name for _, _, name in flat]), 20


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["simulated", "mtrag"])
    parser.add_argument("root", type=Path, nargs="?")
    given = parser.parse_args()
    if given.what == "simulated":
        simulated()
    else:
        mtrag(given.root)
