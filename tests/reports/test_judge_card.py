"""A judge's card on artificial labels: kappa by scikit-learn's values, biases, repeats, and the stored card."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import pytest
from scipy.stats import bootstrap
from sklearn.metrics import cohen_kappa_score

from ragtasks.clients import no_secrets
from ragtasks.judges import CardRow, JudgeCard, Rubric, Verdicts, judge_responses, latest_card, rubric_of, store_card
from ragtasks.records import Response
from ragtasks.reports.judge_card import calibrate_judges, card_table
from ragtasks.reports.tables import report_sections
from ragtasks.results import LabelledRows, read_labelled_rows
from ragtasks.tables import Table
from tests.judges._scripted import ScriptedClient, form_of
from tests.reports._rows import evaluation, row

N = 60
LABELS = ("no", "partial", "yes")


def labelled_rows(folder: Path, rows: Sequence[dict[str, object]], rubric: str = "idk") -> LabelledRows:
    path = folder / "labels.jsonl"
    numbered = ({"question": f"What is item {n}?", "answer": f"Answer {n}.", **row} for n, row in enumerate(rows))
    path.write_text("".join(json.dumps(row) + "\n" for row in numbered), encoding="utf-8")
    return read_labelled_rows(path, rubric_of(rubric))


Says = Callable[[str, str], str]
"""(prompt, name of the judging) -> label."""


def calibrated(
    folder: Path, labelled: LabelledRows, label_of: Says, rubric: str = "idk", repeats: int = 1
) -> tuple[JudgeCard, list[Table]]:
    """Return card and tables of a judge that gives scripted labels."""

    def ask(responses: Sequence[Response], rubrics: Sequence[Rubric], judging: str) -> Verdicts:
        client = ScriptedClient(
            lambda prompt, _: form_of(prompt).replace("LABEL", label_of(prompt, judging)), name="scripted"
        )
        return judge_responses(
            responses,
            [client],
            secrets=no_secrets,
            cache_file=folder / f"{uuid4()}.sqlite",
            rubrics=rubrics,
            judging=judging,
        )

    tables, _ = calibrate_judges(labelled, rubric_of(rubric), ask, repeats=repeats, data="made", cards=folder / "cards")
    (path,) = (folder / "cards").glob("*.json")
    card = JudgeCard.of_json(json.loads(path.read_text()))
    path.unlink()
    return card, tables


def number_in(prompt: str) -> int:
    return int(prompt.partition("item ")[2].partition("?")[0])


def value_of(card: JudgeCard, measure: str) -> float:
    return card.measure(measure).value


def test_kappa_is_that_of_scikit_learn(tmp_path: Path) -> None:
    rng = random.Random(1)
    people = [rng.choice(LABELS) for _ in range(N)]
    given = [label if rng.random() < 0.6 else rng.choice(LABELS) for label in people]
    labelled = labelled_rows(tmp_path, [{"label": label} for label in people])
    card, tables = calibrated(tmp_path, labelled, lambda prompt, _: given[number_in(prompt)])
    kappa = card.measure("weighted kappa")
    numbers = [[LABELS.index(label) for label in column] for column in (people, given)]
    assert kappa.value == pytest.approx(cohen_kappa_score(*numbers, weights="quadratic"))
    assert kappa.low < kappa.value < kappa.high
    assert kappa.n == N
    assert value_of(card, "agreement") == pytest.approx(sum(a == b for a, b in zip(people, given, strict=True)) / N)
    most = max(LABELS, key=people.count)
    assert value_of(card, f"agreement of always {most}") == people.count(most) / N
    pairs = list(zip(people, given, strict=True))
    assert card.confusion == {a: {b: pairs.count((a, b)) for b in LABELS} for a in LABELS}
    assert tables[1].rows[0] == ("no", *(pairs.count(("no", label)) for label in LABELS))


def test_the_interval_of_kappa_is_that_of_scipy_at_rare_labels(tmp_path: Path) -> None:
    """With percentiles, the interval begins at 0.77: such intervals cover kappa in 90 % of cases."""
    people = np.array([1] * 10 + [0] * 50)
    given = np.array([1] * 9 + [0] * 51)

    def kappa(first: Any, second: Any, axis: int = -1) -> Any:
        agreed, shares = (first == second).mean(axis), (first.mean(axis), second.mean(axis))
        by_chance = shares[0] * shares[1] + (1 - shares[0]) * (1 - shares[1])
        return (agreed - by_chance) / (1 - by_chance)

    options = {"paired": True, "method": "BCa", "rng": 0}
    expected = bootstrap((people, given), kappa, **options).confidence_interval
    labelled = labelled_rows(tmp_path, [{"label": ("no", "yes")[label]} for label in people])
    card, _ = calibrated(tmp_path, labelled, lambda prompt, _: ("no", "yes")[given[number_in(prompt)]])
    found = card.measure("weighted kappa")
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high), abs=0.02)


def test_the_majority_is_that_of_the_rows_with_a_verdict(tmp_path: Path) -> None:
    people = ["yes"] * 30 + ["no"] * 20
    labelled = labelled_rows(tmp_path, [{"label": label} for label in people])
    card, _ = calibrated(tmp_path, labelled, lambda prompt, _: "no" if number_in(prompt) >= 20 else "unclear")
    always = card.measure("agreement of always no")
    assert (always.value, always.n) == (pytest.approx(20 / 30), 30)


@pytest.mark.parametrize(("n_rare", "n"), [(3, 50), (30, 60)])
def test_perfect_agreement_on_few_rows_of_a_label_is_no_proof(tmp_path: Path, n_rare: int, n: int) -> None:
    """The bound is 1 - share / by chance, where 0.025 ** (1 / n) is the probability of n rows without the share."""
    people = ["yes"] * n_rare + ["no"] * (n - n_rare)
    card, _ = calibrated(
        tmp_path,
        labelled_rows(tmp_path, [{"label": label} for label in people]),
        lambda prompt, _: people[number_in(prompt)],
    )
    kappa = card.measure("weighted kappa")
    prevalence = n_rare / n
    expected = 1 - (1 - 0.025 ** (1 / n)) / (2 * prevalence * (1 - prevalence))
    assert (kappa.value, kappa.low, kappa.high) == (1, pytest.approx(expected), 1)


def test_two_labels_and_labels_of_equal_score_have_plain_kappa(tmp_path: Path) -> None:
    (tmp_path / "kind.yaml").write_text("prompt: '{{ question }} {{ answer }}'\nlabels: {a: 1, b: 0, c: 0}\n")
    rubric = str(tmp_path / "kind.yaml")
    people = ["abc"[n % 3] for n in range(N)]
    given = ["abc"[(n + (n % 4 == 0)) % 3] for n in range(N)]
    labelled = labelled_rows(tmp_path, [{"label": label} for label in people], rubric)
    card, _ = calibrated(tmp_path, labelled, lambda prompt, _: given[number_in(prompt)], rubric)
    assert value_of(card, "kappa") == pytest.approx(cohen_kappa_score(people, given))
    assert card.measure("weighted kappa") is None


def test_each_persons_label_counts_and_their_own_agreement_is_the_ceiling(tmp_path: Path) -> None:
    rows = [
        {"label_ann": "yes" if n % 2 else "no", "label_bob": "yes" if n % 2 or n % 10 == 0 else "no"} for n in range(N)
    ]
    labelled = labelled_rows(tmp_path, rows)
    card, _ = calibrated(tmp_path, labelled, lambda prompt, _: str(rows[number_in(prompt)]["label_ann"]))
    ann, bob = ([row[name] for row in rows] for name in ("label_ann", "label_bob"))
    assert value_of(card, "agreement") == pytest.approx(0.95)
    assert value_of(card, "weighted kappa") == pytest.approx(cohen_kappa_score(ann + bob, ann + ann))
    assert value_of(card, "agreement of two people") == pytest.approx(0.9)
    assert value_of(card, "weighted kappa of two people") == pytest.approx(cohen_kappa_score(ann + bob, bob + ann))


def test_intervals_are_over_conversations(tmp_path: Path) -> None:
    """Ten equal answers of each conversation are no more evidence than one."""
    single = [{"label": "yes" if n % 2 else "no", "cluster": f"c{n}"} for n in range(20)]
    rows = [row for row in single for _ in range(10)]

    def wrong(n: int) -> str:
        return "no" if n % 2 == 0 or n % 3 == 0 else "yes"

    one, _ = calibrated(tmp_path, labelled_rows(tmp_path, single), lambda prompt, _: wrong(number_in(prompt)))
    ten, _ = calibrated(tmp_path, labelled_rows(tmp_path, rows), lambda prompt, _: wrong(number_in(prompt) // 10))
    assert ten.measure("weighted kappa").value == pytest.approx(one.measure("weighted kappa").value)
    assert ten.measure("weighted kappa").low == pytest.approx(one.measure("weighted kappa").low)


LONG, SHORT = "Many words follow here, more than in all of the other answers of this file.", "Few words."
REFUSAL = "I don't have specific information about it."


def test_a_judge_that_prefers_long_answers_or_refusals_favours_them(tmp_path: Path) -> None:
    answers = [LONG if n % 2 else SHORT for n in range(N - 10)] + [REFUSAL] * 10
    labelled = labelled_rows(tmp_path, [{"label": "no", "answer": answer} for answer in answers])
    length, _ = calibrated(tmp_path, labelled, lambda prompt, _: "yes" if LONG in prompt else "no")
    assert length.measure("favours longer").low > 0
    refusal, _ = calibrated(tmp_path, labelled, lambda prompt, _: "yes" if REFUSAL in prompt else "no")
    assert refusal.measure("favours refusals").value == pytest.approx(1)
    even, _ = calibrated(tmp_path, labelled, lambda *_: "no")
    assert value_of(even, "favours longer") == 0


def test_a_judge_that_errs_at_random_favours_nothing(tmp_path: Path) -> None:
    """People like long answers: errors of the judge lower their score, as they raise that of short ones."""
    rows = [{"label": "yes", "answer": LONG if n % 5 < 3 else SHORT} for n in range(150)]
    rows += [{"label": "no", "answer": LONG if n % 5 < 1 else SHORT} for n in range(150)]
    rng = random.Random(4)
    flips = [rng.random() < 0.3 for _ in rows]

    def label_of(prompt: str, _: str) -> str:
        n = number_in(prompt)
        return "yes" if (rows[n]["label"] == "yes") ^ flips[n] else "no"

    longer = calibrated(tmp_path, labelled_rows(tmp_path, rows), label_of)[0].measure("favours longer")
    assert longer.low < 0 < longer.high


def test_a_judge_of_pairs_that_prefers_the_longer_answer_favours_it(tmp_path: Path) -> None:
    rows = [{"label": "ab"[n % 2], "answer": (LONG, SHORT)[n % 3 == 0], "answer_2": "Some words."} for n in range(N)]
    rows += [{"label": "ab"[n % 2], "answer": "One.", "answer_2": "Three words here."} for n in range(N)]
    labelled = labelled_rows(tmp_path, rows, "pairwise")

    def longer(prompt: str, _: str) -> str:
        texts = {"Some words.": 2, LONG: 14, SHORT: 2, "One.": 1, "Three words here.": 3}
        present = sorted((prompt.index(text), n) for text, n in texts.items() if text in prompt)
        (_, first), (_, second) = present
        return "tie" if first == second else "ab"[first < second]

    card, _ = calibrated(tmp_path, labelled, longer, "pairwise")
    assert value_of(card, "favours longer") == pytest.approx(1)


def test_a_judge_of_pairs_that_prefers_the_first_has_a_bias_of_position(tmp_path: Path) -> None:
    rows = [{"label": "ab"[n % 2], "answer_2": "Another."} for n in range(N)]
    labelled = labelled_rows(tmp_path, rows, "pairwise")
    first, _ = calibrated(tmp_path, labelled, lambda *_: "a", "pairwise")
    assert value_of(first, "prefers what is shown first") == 1
    assert value_of(first, "another verdict in the other order") == 1
    assert first.confusion["a"] == {"b": 0, "tie": N // 2, "a": 0}

    def right(prompt: str, _: str) -> str:
        is_first = prompt.index("Another.") > prompt.index("Answer ")
        return "ab"[(number_in(prompt) % 2) ^ (not is_first)]

    like, _ = calibrated(tmp_path, labelled, right, "pairwise")
    assert (value_of(like, "agreement"), value_of(like, "prefers what is shown first")) == (1, 0.5)


def test_repeats_show_stable_and_undecided_rows(tmp_path: Path) -> None:
    labelled = labelled_rows(tmp_path, [{"label": LABELS[n % 2]} for n in range(N)])

    def flips(prompt: str, judging: str) -> str:
        n = number_in(prompt)
        return LABELS[(n + (n % 4 == 0 and judging == "repeat 3")) % 2]

    card, tables = calibrated(tmp_path, labelled, flips, repeats=3)
    assert (value_of(card, "undecided"), card.measure("undecided").n) == (0.25, N)
    assert value_of(card, "same verdict again") == pytest.approx(1 - 0.25 * 2 / 3)
    assert value_of(card, "agreement") == 1, "the first verdicts count"
    undecided = tables[2]
    assert len(undecided.rows) == N // 4
    assert undecided.rows[0] == ("row-1", "no", "no 2, partial 1", "0.667")
    assert f"{N - N // 4} of {N} rows are stable" in undecided.legend[0]


@pytest.mark.parametrize(
    ("labels", "label", "warning"),
    [
        (("no",), "no", "People gave every row the label no"),
        (("no", "yes"), "no", "The judge gave every row the label no"),
        (("no", "yes"), "either", "not significantly above chance"),
    ],
)
def test_a_card_states_what_it_cannot_show(tmp_path: Path, labels: Sequence[str], label: str, warning: str) -> None:
    labelled = labelled_rows(tmp_path, [{"label": labels[n % len(labels)]} for n in range(N)])

    def label_of(prompt: str, _: str) -> str:
        return label if label != "either" else labels[number_in(prompt) // 2 % 2]

    card, tables = calibrated(tmp_path, labelled, label_of)
    assert warning in tables[0].legend[0]
    if len(labels) == 1:
        assert card.measure("weighted kappa").value is None


def test_a_report_shows_cards_with_their_confusion_tables(tmp_path: Path) -> None:
    labelled = labelled_rows(tmp_path, [{"label": LABELS[n % 2]} for n in range(N)])
    card, tables = calibrated(tmp_path, labelled, lambda prompt, _: LABELS[number_in(prompt) % 2])
    provenance = {"task": {"scoring": {"judge_cards": [card.json_values] * 2}}}
    shown = replace(evaluation([row(1, 0.5)]), provenance=provenance)
    titles = [table.title for section in report_sections([shown]) for table in section.tables]
    assert [title for title in titles if "scripted" in title] == [table.title for table in tables]


def test_few_conversations_have_no_interval(tmp_path: Path) -> None:
    labelled = labelled_rows(tmp_path, [{"label": LABELS[n % 2]} for n in range(6)])
    card, tables = calibrated(tmp_path, labelled, lambda prompt, _: LABELS[number_in(prompt) % 2])
    assert (card.measure("weighted kappa").value, card.measure("weighted kappa").low) == (1, None)
    assert "at least 10 conversations" in tables[0].legend[0]


def test_cards_are_stored_by_time_and_the_newest_with_the_same_prompts_is_read(tmp_path: Path) -> None:
    row = CardRow("rb_llm", "agreement", 0.7, 0.6, 0.8, 30)
    first = JudgeCard("open/ai:j", "2026-01-01T00:00:00", "made", {"rb_llm": "w"}, (row,))
    second = replace(first, time="2026-02-01T00:00:00")
    for card in (second, first):
        store_card(tmp_path, card)
    (tmp_path / "open-ai-j_junk.json").write_text("{")
    assert latest_card(tmp_path, "open/ai:j", {"rb_llm": "w", "idk": "x"}) == second
    assert latest_card(tmp_path, "open-ai:j", {"rb_llm": "w"}) is None
    assert latest_card(tmp_path / "missing", "open/ai:j", {"rb_llm": "w"}) is None
    assert JudgeCard.of_json(json.loads(json.dumps(first.json_values))) == first
    for broken in (None, {}, {**first.json_values, "version": 2}, {**first.json_values, "rows": [{"value": "x"}]}):
        assert JudgeCard.of_json(broken) is None
    assert card_table(first).rows[0][1] == "agreement"


def test_a_card_without_cost_has_the_cost_of_the_previous_card() -> None:
    cost = CardRow("", "tokens a prompt", 100.0, n=5)
    before = JudgeCard("j", "t", "made", {}, (cost,))
    assert JudgeCard("j", "u", "made", {}, ()).with_cost_of(before).rows == (cost,)
    dearer = CardRow("", "tokens a prompt", 200.0, n=5)
    assert JudgeCard("j", "u", "made", {}, (dearer,)).with_cost_of(before).rows == (dearer,)


AGREES = CardRow("rb_llm", "agreement", 0.7, 0.6, 0.8, 30)
COST = CardRow("", "tokens a prompt", 100.0, n=5)


def test_the_newest_card_with_any_of_the_prompts_counts(tmp_path: Path) -> None:
    def stored(time: str, **rubrics: str) -> JudgeCard:
        card = JudgeCard("j", time, "made", rubrics, (AGREES,))
        store_card(tmp_path, card)
        return card

    first, second = stored("2026-01-01T00:00:00", a="w", b="x"), stored("2026-03-01T00:00:00", a="w", b="new")
    other = stored("2026-04-01T00:00:00", a="new", b="new too")
    assert latest_card(tmp_path, "j", {"a": "w", "b": "x"}) == second
    assert latest_card(tmp_path, "j", {"b": "x"}) == first
    assert latest_card(tmp_path, "j", {"b": "new too"}) == other
    assert latest_card(tmp_path, "j", {"b": "w"}) is None
    assert latest_card(tmp_path, "j", {}) is None
    assert latest_card(tmp_path, "J", {"a": "w"}) is None


def test_cards_of_judges_with_similar_file_names_are_kept_apart(tmp_path: Path) -> None:
    names = ["a/b", "a:b", "a-b", "ä-b", "x" * 80, "x" * 81]
    cards = {name: JudgeCard(name, "2026-01-01T00:00:00", "made", {"r": "w"}, ()) for name in names}
    files = {store_card(tmp_path, card) for card in cards.values()}
    assert len(files) == len(names)
    assert all(file.parent == tmp_path and len(file.name) < 100 for file in files)
    assert {name: latest_card(tmp_path, name, {"r": "w"}) for name in names} == cards


def test_a_foreign_file_is_not_a_card(tmp_path: Path) -> None:
    card = JudgeCard("j", "2026-01-01T00:00:00", "made", {"r": "w"}, (AGREES,))
    path = store_card(tmp_path, card)
    newer = path.with_name(path.name.replace("2026", "2027"))
    for content in ("{", "[]", json.dumps({**card.json_values, "judge": "k"}), json.dumps({"version": 2})):
        newer.write_text(content)
        assert latest_card(tmp_path, "j", {"r": "w"}) == card
    newer.unlink()
    newer.mkdir()
    assert latest_card(tmp_path, "j", {"r": "w"}) == card


@pytest.mark.parametrize(
    "change",
    [
        {"more": 1},
        {"rubrics": {"r": 5}},
        {"rows": [{"rubric": "r"}]},
        {"rows": None},
        {"judge": None},
    ],
)
def test_a_card_of_another_format_is_ignored(change: dict[str, object]) -> None:
    card = JudgeCard("j", "t", "made", {"r": "w"}, (AGREES, COST))
    assert JudgeCard.of_json(json.loads(json.dumps(card.json_values))) == card
    assert JudgeCard.of_json({**card.json_values, **change}) is None


def test_a_number_on_a_card_is_finite() -> None:
    card = JudgeCard("j", "t", "made", {"r": "w"}, (replace(AGREES, value=float("nan")),))
    assert JudgeCard.of_json(card.json_values) is None


def test_a_card_is_of_verdicts_if_it_has_an_agreement_with_people() -> None:
    def card(*rows: CardRow) -> JudgeCard:
        return JudgeCard("j", "t", "made", {}, rows)

    assert card(COST, AGREES).is_of_verdicts
    assert not card(COST, replace(AGREES, value=None)).is_of_verdicts
    assert not card(COST, replace(AGREES, measure="kappa")).is_of_verdicts
    assert card(replace(AGREES, value=0.0)).is_of_verdicts


def test_only_the_cost_is_copied_from_the_previous_card() -> None:
    now, before = JudgeCard("j", "u", "made", {}, (AGREES,)), JudgeCard("j", "t", "made", {}, (AGREES, COST))
    assert now.with_cost_of(before).rows == (AGREES, COST)
    assert now.with_cost_of(None) == now
    assert now.with_cost_of(replace(before, rows=(AGREES,))) == now
