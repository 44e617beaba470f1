"""Cards of published labels have the values that scikit-learn computes from the published files.

The judges repeat published verdicts: RAGChecker's scores, RB_llm of the MTRAG paper, and GPT-4o's ratings on RAD-Bench
with a known share of errors. No expected value uses code of ragtasks.
"""

from __future__ import annotations

import itertools
import json
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from sklearn.metrics import cohen_kappa_score

from ragtasks.clients import no_secrets
from ragtasks.judges import UNDECIDED, JudgeCard, Rubric, Verdicts, judge_responses, rubric_of
from ragtasks.records import Response
from ragtasks.reports.judge_card import calibrate_judges
from ragtasks.results import LabelledRows, read_labelled_rows
from tests.judges._scripted import ScriptedClient, form_of
from tests.reports.test_scripted_judge import chance

pytestmark = pytest.mark.slow

Case = tuple[list[str], str]
"""Labels of people, and the judge's label."""


def sections(prompt: str) -> dict[str, str]:
    """Return the marked texts of a prompt by their names."""
    (code,) = set(re.findall(r"[0-9a-f]{8}", form_of(prompt)))
    marked = re.findall(rf"^\[{code} (?!end)([^\]]+)\]\n(.*?)^\[{code} end\]$", prompt, re.DOTALL | re.MULTILINE)
    return {name: text.strip() for name, text in marked}


def card_of(
    folder: Path, labelled: LabelledRows, rubric: Rubric, label_of: Callable[..., str], repeats: int = 1
) -> Any:
    """Return the card of a judge with scripted labels: (marked texts, name of the judging) -> label."""

    def ask(responses: Sequence[Response], rubrics: Sequence[Rubric], judging: str) -> Verdicts:
        def reply(prompt: str, _: int) -> str:
            label = label_of(sections(prompt), judging)
            return re.sub(r"(LABEL|N)$", label, form_of(prompt))

        return judge_responses(
            responses,
            [ScriptedClient(reply)],
            secrets=no_secrets,
            cache_file=folder / "replies.sqlite",
            rubrics=rubrics,
            judging=judging,
        )

    calibrate_judges(labelled, rubric, ask, repeats=repeats, data="published", cards=folder)
    (path,) = folder.glob("*.json")
    return JudgeCard.of_json(json.loads(path.read_text()))


def check(card: JudgeCard, cases: Sequence[Case], scores: Mapping[str, float]) -> None:
    """Compare a card with the same measures by scikit-learn. Scores are equally spaced."""
    people = [label for labels, _ in cases for label in labels]
    given = [label for labels, label in cases for _ in labels]
    order = sorted(scores, key=scores.__getitem__)

    def kappa(first: Sequence[str], second: Sequence[str]) -> float:
        return float(cohen_kappa_score(first, second, labels=order, weights="quadratic"))

    def equal(first: Sequence[str], second: Sequence[str]) -> float:
        return sum(map(str.__eq__, first, second)) / len(first)

    label, n_most = Counter(people).most_common(1)[0]
    expected = {
        "weighted kappa": (kappa(people, given), len(cases)),
        "agreement": (equal(people, given), len(cases)),
        f"agreement of always {label}": (n_most / len(people), len(cases)),
    }
    several = [labels for labels, _ in cases if len(labels) > 1]
    if several:
        pairs = [pair for labels in several for pair in itertools.permutations(labels, 2)]
        first, second = zip(*pairs, strict=True)
        expected["weighted kappa of two people"] = kappa(first, second), len(several)
        expected["agreement of two people"] = equal(first, second), len(several)
    for name, (value, n) in expected.items():
        row = card.measure(name)
        assert row is not None, name
        assert (row.value, row.n) == (pytest.approx(value), n), name
    counts = Counter(zip(people, given, strict=True))
    assert card.confusion == {one: {other: counts[one, other] for other in order} for one in order}


def preference(gap: float) -> str:
    """Return the preferred answer of a pair by how much better the first is."""
    return "a" if gap > 0 else "b" if gap < 0 else "tie"


@pytest.mark.parametrize("criterion", ["overall", "correctness", "completeness"])
def test_ragcheckers_pairs(mtrag_root: Path, tmp_path: Path, criterion: str) -> None:
    folder = mtrag_root.parent / "ragchecker"
    file = folder / "human_labeled_data.json"
    scored = {row["instance_id"]: row for row in json.loads((folder / "baseline_ragchecker.json").read_text())}
    people: dict[int, list[str]] = {}
    for row in json.loads(file.read_text()):
        people.setdefault(row["instance_id"], []).append(preference(-row[f"{criterion}_label"]))
    given: dict[tuple[str, str], str] = {}
    cases = []
    for number, labels in people.items():
        first, second = (scored[number][name] for name in ("model1", "model2"))
        score, other = (side["ragchecker"][f"{criterion}_label"] for side in (first, second))
        label = preference(score - other)
        texts = first["response"].strip(), second["response"].strip()
        label = "tie" if texts[0] == texts[1] else label
        given |= {texts: label, texts[::-1]: {"a": "b", "b": "a", "tie": "tie"}[label]}
        cases.append((labels, label))
    rubric = rubric_of("pairwise")
    labelled = read_labelled_rows(file, rubric, {"label": criterion})

    def label_of(shown: Mapping[str, str], _: str) -> str:
        first, second = (text for name, text in shown.items() if name.startswith("reply of assistant"))
        return given[first, second]

    card = card_of(tmp_path, labelled, rubric, label_of)
    assert len(cases) == 280
    check(card, cases, {"b": 0.0, "tie": 0.5, "a": 1.0})


def test_mtrags_ratings_and_published_verdicts(mtrag_root: Path, tmp_path: Path) -> None:
    file = mtrag_root / "mtrag-human" / "evaluations" / "reference_subset_with_human_evaluations.json"
    content = json.loads(file.read_text())
    question_of = {task["task_id"]: task["input"][-1]["text"].strip() for task in content["tasks"]}
    given: dict[tuple[str, str], str] = {}
    cases = []
    for row in content["evaluations"]:
        if row["model_id"] == "reference":
            continue
        ratings = [row["annotations"][name] for name in ("faithfulness", "appropriateness", "completeness")]
        raters = [rater for rater in ratings[0] if all(rater in rated for rated in ratings)]
        # 1 to 4 three times is 1 to 10: the sum minus 2
        labels = [str(sum(int(rated[rater]["value"]) for rated in ratings) - 2) for rater in raters]
        published = str(max(1, round(10 * row["annotations"]["rb_llm"]["composite"]["value"])))
        key = question_of[row["task_id"]], row["model_response"].strip()
        cases.append((labels, given.setdefault(key, published)))
    used = {label for labels, _ in cases for label in labels}
    assert used == {str(number) for number in range(1, 11)}
    rubric = rubric_of("rb_llm")
    card = card_of(
        tmp_path,
        read_labelled_rows(file, rubric),
        rubric,
        lambda shown, _: given[shown["last message of the user"], shown["answer"]],
    )
    assert len(cases) == 318
    check(card, cases, {label: int(label) / 10 for label in used})


def test_rad_bench_with_known_errors_and_flips(mtrag_root: Path, tmp_path: Path) -> None:
    lines = (mtrag_root.parent / "rad_bench" / "gpt-4o.jsonl").read_text().splitlines()
    rows = [row for row in map(json.loads, lines) if row["score"] > 0][::5]
    given: dict[str, int] = {}
    flips: dict[str, bool] = {}
    labels = []
    for row in rows:
        name = f"{row['question_id']} {row['turn']} {row['model']}"
        shift = 3 if row["score"] <= 5 else -3
        given[name] = row["score"] + (shift if chance("error", name) < 0.15 else 0)
        flips[name] = chance("flip", name) < 0.12
        cluster = {"id": name, "cluster": row["question_id"], "question": f"About {name}?", "contexts": []}
        labels.append({**cluster, "answer": name, "label": row["score"]})
    (tmp_path / "rad.jsonl").write_text("".join(json.dumps(one) + "\n" for one in labels), encoding="utf-8")

    def label_of(shown: Mapping[str, str], judging: str) -> str:
        number = given[shown["answer"]]
        return str(number % 10 + 1 if judging and flips[shown["answer"]] else number)

    rubric = rubric_of("rl_mtb")
    labelled = read_labelled_rows(tmp_path / "rad.jsonl", rubric)
    card = card_of(tmp_path / "cards", labelled, rubric, label_of, repeats=2)
    scores = {str(number): number / 10 for number in {row["score"] for row in rows}}
    check(card, [([str(row["score"])], str(given[name])) for row, name in zip(rows, given, strict=True)], scores)
    agreement, undecided = (card.measure(name) for name in ("agreement", UNDECIDED))
    assert agreement.low < 0.85 < agreement.high
    assert undecided.value == pytest.approx(sum(flips.values()) / len(flips))
    assert undecided.low < 0.12 < undecided.high
