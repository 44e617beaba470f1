"""Agreement of `grounded` with people, without a judge: attribution, faithfulness, correctness, support; and its speed.

python perf/grounding.py FOLDER                  the data folder: mt-rag-benchmark, ragchecker, trec_rag
python perf/grounding.py FOLDER --begin BEGIN    adds a checkout of github.com/google/BEGIN-dataset

The definition was chosen on all of BEGIN's development sets, MTRAG's human evaluation and NIST's assessments, so none
of the tables is held back. Intervals are percentiles of 1,000 resamples of documents, conversations, topics or
questions.
"""

from __future__ import annotations

import argparse
import csv
import json
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from statistics import fmean

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata, spearmanr

from ragtasks.benchmarks.mtrag import REFERENCE_MODEL, RatedResponse, load_human_evaluation
from ragtasks.benchmarks.ragchecker import load_labelled_pairs
from ragtasks.metrics import CitationKind, cohen_kappa, copied, ground, grounded, k_precision, rouge_l
from ragtasks.records import Passage

DRAWS = 1000
FAITHFUL = 3.5  # median of the raters, from 1 to 4
LONG = 25
Floats = NDArray[np.float64]
Statistic = Callable[[NDArray[np.int64]], float]


def auc(scores: Floats, good: Floats) -> float:
    """Return the probability that a good answer has the higher score; ties count half."""
    is_good = good.astype(bool)
    n_good, n_bad = int(is_good.sum()), int((~is_good).sum())
    if not n_good or not n_bad:
        return float("nan")
    return float((rankdata(scores)[is_good].sum() - n_good * (n_good + 1) / 2) / (n_good * n_bad))


def with_interval(statistic: Statistic, groups: Sequence[str]) -> str:
    """Return a statistic of indices, and its interval over resampled groups."""
    names = np.array(groups)
    members = [np.flatnonzero(names == name) for name in dict.fromkeys(groups)]
    rng = np.random.default_rng(29)
    draws = [
        statistic(np.concatenate([members[index] for index in rng.integers(0, len(members), len(members))]))
        for _ in range(DRAWS)
    ]
    low, high = np.nanpercentile(draws, [2.5, 97.5])
    return f"{statistic(np.concatenate(members)):.3f} [{low:.3f}, {high:.3f}]"


@dataclass(frozen=True)
class Rated:
    """Answers of two systems with people's ratings, and the scores of each."""

    rows: Sequence[RatedResponse]
    scores: dict[str, Floats]

    def table(self) -> None:
        """Print the AUC of each score on all answers and on subsets."""
        conversations = [row.response.task.conversation_id for row in self.rows]
        good = np.array([row.rating("faithfulness") >= FAITHFUL for row in self.rows], float)
        long = np.array([len(row.response.text.split()) >= LONG for row in self.rows])
        parts = {"all": long | ~long, f"{LONG} words and more": long}
        parts |= {name: np.array([row.model_id == name for row in self.rows]) for name in _systems(self.rows)}
        heads = [f"{name} ({part.sum()})" for name, part in parts.items()]
        print("| " + " | ".join(["score", *heads, "Spearman", "over RL_F", "over k_precision"]) + " |")
        print("|---|" + "---|" * (len(parts) + 3))
        people = np.array([row.rating("faithfulness") for row in self.rows])
        for name, values in self.scores.items():
            cells = []
            for part in parts.values():
                indices = np.flatnonzero(part)
                chosen = [conversations[index] for index in indices]
                cells.append(with_interval(_auc_of(values[indices], good[indices]), chosen))
            gaps = [
                with_interval(_gap_of(values, self.scores[baseline], good), conversations)
                for baseline in ("RL_F (paper's judge)", "k_precision")
            ]
            print(f"| {name} | {' | '.join(cells)} | {spearmanr(values, people)[0]:.3f} | {' | '.join(gaps)} |")


def _systems(rows: Sequence[RatedResponse]) -> list[str]:
    return sorted({row.model_id for row in rows})


def _auc_of(values: Floats, good: Floats) -> Statistic:
    return lambda indices: auc(values[indices], good[indices])


def _gap_of(values: Floats, baseline: Floats, good: Floats) -> Statistic:
    return lambda indices: auc(values[indices], good[indices]) - auc(baseline[indices], good[indices])


BEGIN_FILES = ("cmu-dog/begin_dev_cmu.tsv", "topicalchat/begin_dev_tc.tsv", "wow/begin_dev_wow.tsv")
ATTRIBUTABLE = "Fully attributable"


def begin(folder: Path) -> None:
    """Print the AUC of full attribution by people for each development set."""
    print("\n## BEGIN, development sets: AUC on full attribution to the knowledge, by people\n")
    print("| score | " + " | ".join(Path(name).parent.name for name in BEGIN_FILES) + " |\n|---|" + "---|" * 3)
    cells: dict[str, list[str]] = defaultdict(list)
    for name in BEGIN_FILES:
        with (folder / name).open(encoding="utf-8", newline="") as stream:
            rows = list(csv.DictReader(stream, delimiter="\t", quoting=csv.QUOTE_NONE))
        good = np.array([row["begin_label"] == ATTRIBUTABLE for row in rows], float)
        documents = [row["knowledge"] for row in rows]
        texts = [(row["response"], [Passage("", row["knowledge"])]) for row in rows]
        scores = {name: np.array([score(*text) for text in texts]) for name, score in SCORES.items()}
        cells["rows, of them attributable; documents"].append(f"{len(rows)}, {good.sum():.0f}; {len(set(documents))}")
        for score, values in scores.items():
            cells[score].append(with_interval(_auc_of(values, good), documents))
        gap = _gap_of(scores["grounded"], scores["k_precision"], good)
        cells["grounded over k_precision"].append(with_interval(gap, documents))
    for name, row in cells.items():
        print(f"| {name} | {' | '.join(row)} |")


SCORES: dict[str, Callable[[str, Sequence[Passage]], float]] = {
    "grounded": lambda text, shown: grounded(text, shown) or 0.0,
    "k_precision": lambda text, shown: k_precision(text, [passage.text for passage in shown]) or 0.0,
    "copied": lambda text, shown: copied(text, shown) or 0.0,
}


def mtrag(folder: Path) -> None:
    """Print the agreement with people's faithfulness ratings, for answers with passages by the two models."""
    rated = load_human_evaluation(folder / "mt-rag-benchmark")
    rows = [row for row in rated if row.response.passages and row.model_id != REFERENCE_MODEL]
    ground("The first call loads the language data.", ["The language data."])
    start = time.process_time()
    for row in rows:
        grounded(row.response.text, row.response.passages)
    seconds = time.process_time() - start
    values = {name: [score(row.response.text, row.response.passages) for row in rows] for name, score in SCORES.items()}
    results = [ground(row.response.text, row.response.passages, row.response.task.messages) for row in rows]
    values["grounded, conversation included"] = [result.share_with_conversation or 0.0 for result in results]
    values["RL_F (paper's judge)"] = [row.metrics["rl_f"] for row in rows]
    scores = {name: np.array(column, float) for name, column in values.items()}
    ranks = rankdata(scores["grounded"]) + rankdata(scores["RL_F (paper's judge)"])
    print(f"\n## MTRAG: AUC on people's faithfulness ({FAITHFUL} of 4 and more)\n")
    Rated(rows, {**scores, "ranks of grounded and RL_F": ranks}).table()
    start = time.process_time()
    for row in rows:
        grounded(row.response.text, row.response.passages)
    again = time.process_time() - start
    start = time.process_time()
    for row in rows:
        copied(row.response.text, row.response.passages)
    print(
        f"\nseconds of a core for {len(rows)} answers: grounded {seconds:.2f}, with cached passages {again:.2f};",
        end=" ",
    )
    print(f"copied {time.process_time() - start:.2f}; answers per second: {len(rows) / seconds:.0f}")


def ragchecker(folder: Path) -> None:
    """Print the agreement of scores with people's preference by correctness, from references without passages."""
    pairs = load_labelled_pairs(folder / "ragchecker" / "human_labeled_data.json")
    baseline = json.loads((folder / "ragchecker" / "baseline_ragchecker.json").read_text())
    people = np.array([fmean(pair.labels["correctness"]) for pair in pairs])
    scores: dict[str, Callable[[str, str, str], float]] = {
        "grounded in the reference answer": lambda text, target, _: grounded(text, [Passage("", target)]) or 0,
        "ROUGE-L": lambda text, target, _: rouge_l(text, target),
        "k_precision in the reference answer": lambda text, target, _: k_precision(text, [target]) or 0,
        "length": lambda text, *_: float(len(text)),
    }
    gaps = {
        name: np.array([score(*_parts(pair.first)) - score(*_parts(pair.second)) for pair in pairs])
        for name, score in scores.items()
    }
    labels = [[row[side]["ragchecker"]["correctness_label"] for side in ("model1", "model2")] for row in baseline]
    gaps["RAGChecker (its judge)"] = np.array([first - second for first, second in labels])
    print("\n## RAGChecker: which of two answers is more correct, by people (280 pairs)\n")
    print("| score | Spearman | same preference, of the pairs with a preference |\n|---|---|---|")
    for name, gap in gaps.items():
        followed = with_interval(
            lambda indices, gap=gap: float(spearmanr(gap[indices], people[indices])[0]), _names(pairs)
        )
        apart = people != 0
        share = float((np.sign(gap[apart]) == np.sign(people[apart])).mean())
        print(f"| {name} | {followed} | {share:.3f} of {apart.sum()} |")


def _parts(response) -> tuple[str, str, str]:  # type: ignore[no-untyped-def]
    return response.text, response.task.target, response.task.question


def _names(pairs) -> list[str]:  # type: ignore[no-untyped-def]
    return [pair.first.task.conversation_id for pair in pairs]


def nist(folder: Path) -> None:
    """Print the agreement with NIST's assessors on support.

    The files do not contain the texts of the segments. A segment is represented by the sentences of other groups' runs
    that assessors found fully supported by it, so `grounded` sees only a part of the assessors' text.
    """
    lines = (folder / "trec_rag/nist/final.citation_judgments_with_prediction.20241025.jsonl").read_text().splitlines()
    judged = [
        (row["topic_id"], row["run_id"].split(".")[0], sentence["text"], cited["reference"], int(cited["support"]))
        for row in map(json.loads, lines)
        for sentence in row["sentences"]
        if isinstance(sentence["text"], str)
        for cited in sentence["citations"][:1]
    ]
    supported = defaultdict(set)
    for _, group, text, segment, level in judged:
        if level == 2:
            supported[segment].add((group, text))
    print("\n## NIST: support of a sentence by its first citation (TREC RAG 2024, 14 topics)\n")
    print(
        "| sentences that represent the segment | n | AUC full or none | AUC full or less | kappa, held-back topics |"
    )
    print("|---:|---:|---|---|---|")
    for least in (1, 3, 5):
        rows = []
        for topic, group, text, segment, level in judged:
            supporting = sorted({other for name, other in supported[segment] if name != group and other != text})
            share = grounded(text, [Passage("", "\n".join(supporting))]) if len(supporting) >= least else None
            if share is not None:
                rows.append((topic, share, level))
        names, shares, levels = [row[0] for row in rows], *np.array([row[1:] for row in rows], float).T
        clear = np.flatnonzero(levels != 1)
        full = with_interval(_auc_of(shares[clear], levels[clear] / 2), [names[index] for index in clear])
        less = with_interval(_auc_of(shares, (levels == 2).astype(float)), names)
        print(f"| {least} and more | {len(rows)} | {full} | {less} | {_kappa(names, shares, levels)} |")
    _kinds(lines, supported)


def _kinds(lines: Sequence[str], supported: dict[str, set[tuple[str, str]]]) -> None:
    """Print the kinds of first citations by words, for each label of the assessors.

    The passages that were shown are the segments that the same answer cites.
    """
    rows = []
    for answer in map(json.loads, lines):
        group = answer["run_id"].split(".")[0]
        firsts = [(sentence["text"], cited) for sentence in answer["sentences"] for cited in sentence["citations"][:1]]
        segments = list(dict.fromkeys(cited["reference"] for _, cited in firsts))
        for text, cited in firsts:
            texts = [
                "\n".join(sorted(other for name, other in supported[segment] if name != group and other != text))
                for segment in segments
            ]
            number = segments.index(cited["reference"]) + 1
            if isinstance(text, str) and texts[number - 1]:
                marked = f"{text.rstrip('.')} [{number}]."
                kinds = [kind for sentence in ground(marked, texts).sentences for kind in sentence.kinds]
                rows.append((answer["topic_id"], int(cited["support"]), kinds[0] if kinds else None))
    names = [name for name, *_ in rows]
    shown = [CitationKind.RIGHT, CitationKind.OTHER_PASSAGE, CitationKind.UNSUPPORTED]
    print("\n## NIST: kinds of first citations by words, for each label\n")
    print("| label | n | " + " | ".join(kind.value for kind in shown) + " |\n|---|---:|" + "---:|" * len(shown))
    for level, label in ((2, "full"), (1, "partial"), (0, "no")):
        counts = Counter(kind for _, of, kind in rows if of == level)
        print(f"| {label} | {counts.total()} | " + " | ".join(str(counts[kind]) for kind in shown) + " |")
    right = [float(kind is CitationKind.RIGHT) for *_, kind in rows]
    supports = [float(level > 0) for _, level, _ in rows]

    def agreement(indices: NDArray[np.int64]) -> float:
        pairs = ([values[index] for index in indices] for values in (right, supports))
        return cohen_kappa(*pairs).value or 0.0

    same = np.mean([a == b for a, b in zip(right, supports, strict=True)])
    print(f"\nright against full or partial: equal in {same:.3f}, kappa {with_interval(agreement, names)}")


def _kappa(names: Sequence[str], shares: Floats, levels: Floats) -> str:
    """Return kappa of three levels, with cuts fitted on every second topic and applied to the others."""
    design = np.isin(names, sorted(set(names))[::2])

    def agreement(indices: NDArray[np.int64], cuts: tuple[float, float]) -> float:
        labels = np.searchsorted(cuts, shares[indices], side="right")
        return cohen_kappa(labels.astype(float).tolist(), levels[indices].tolist()).value or 0.0

    grid = [(low, high) for low, high in product(np.arange(0.1, 0.9, 0.05), repeat=2) if low < high]
    cuts = max(grid, key=lambda pair: agreement(np.flatnonzero(design), pair))
    held_back = np.flatnonzero(~design)
    kappa = with_interval(lambda indices: agreement(held_back[indices], cuts), [names[index] for index in held_back])
    return f"{kappa}, cut at {cuts[0]:.2f} and {cuts[1]:.2f}"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--begin", type=Path, help="a checkout of github.com/google/BEGIN-dataset")
    arguments = parser.parse_args()
    if arguments.begin:
        begin(arguments.begin)
    for part in (mtrag, ragchecker, nist):
        part(arguments.folder)
