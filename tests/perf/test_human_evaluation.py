"""The study of MTRAG's human evaluation: Table 6 from the real file, correlations by scipy, tables and pictures."""

from __future__ import annotations

import json
import math
import random
import re
import statistics
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import spearmanr

from perf.human_evaluation import (
    ALL,
    HUMAN,
    PAPER_AGREEMENT,
    PAPER_TABLE_6,
    PAPER_TABLE_7,
    Calibration,
    Consolidation,
    JudgeResults,
    MetricScores,
    RatedPair,
    Weighting,
    calibrate,
    calibrate_judges,
    calibration_picture,
    calibration_section,
    card_table,
    consolidated,
    inverse_frequency,
    judge_measures,
    pairwise_rows,
    rated_pairs,
    weighted_spearman,
)
from ragtasks.benchmarks.mtrag import FANC, WIN_RATE, RatedResponse, load_human_evaluation
from ragtasks.clients import no_secrets
from ragtasks.errors import BenchmarkFileError, ConfigurationError
from ragtasks.judges import CardRow, Verdicts
from ragtasks.metrics import NgramIdk
from ragtasks.records import Answerability, IdkVerdict, Message, Response, Role, Task
from ragtasks.reports.plots import PICTURE_FORMATS, draw_picture
from ragtasks.tables import Format, render
from tests._messages import raises
from tests.judges._scripted import response

MODELS = ("reference", "gpt-4o", "llama-3.1-405b-instruct")


def rated(number: int, model_id: str = "gpt-4o", *, label: str = "ANSWERABLE", **changes: Any) -> RatedResponse:
    """Return an artificial answer whose ratings and scores depend on its number."""
    question = (Message(Role.USER, "Why?"),)
    answerability = Answerability(label)
    task = Task(f"c<::>{number}", "c", number, "govt", question, "So.", answerability, (), "N/A", ())
    ratings: dict[str, Mapping[str, float]] = {name: dict.fromkeys("abc", 1 + number % 4) for name in FANC}
    ratings[WIN_RATE] = {"a": 50.0 * (number % 3), "b": 50, "c": 50.0 * (number % 2)}
    metrics = {"rl_f": number / 20, "rb_llm": (number * 7 % 10) / 10, "rb_alg": 0.5}
    row = RatedResponse(model_id, Response(task, (), "Because."), ratings, metrics, idk_is_right=True)
    return replace(row, **changes)


def made() -> list[RatedResponse]:
    return [rated(number, model) for number in range(1, 13) for model in ("reference", "gpt-4o")]


def one_score(calibration: Calibration, model_id: str, column: str, source: str) -> float:
    (found,) = (m for m in calibration.means if (m.model_id, m.column, m.source) == (model_id, column, source))
    assert found.score.value is not None
    return found.score.value


def text_of(calibration: Calibration) -> str:
    return render([calibration_section(calibration)], Format.MARKDOWN)


def lines_of(report: str, *first: str) -> list[list[str]]:
    """Return the rows of all tables that begin with these cells."""
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in report.splitlines() if line[:1] == "|"]
    return [row for row in rows if row[: len(first)] == list(first)]


@pytest.fixture(scope="module")
def answers(mtrag_root: Path) -> tuple[RatedResponse, ...]:
    return load_human_evaluation(mtrag_root)


@pytest.fixture(scope="module")
def official(answers: tuple[RatedResponse, ...]) -> Calibration:
    labels = NgramIdk().detect([row.response for row in answers])
    verdicts = {row.key: label.verdict for row, label in zip(answers, labels, strict=True)}
    return calibrate(answers, verdicts={"ngrams": verdicts})


@pytest.mark.parametrize("model_id", MODELS)
@pytest.mark.parametrize("metric", ["rl_f", "rb_llm", "rb_alg"])
def test_the_metric_columns_of_table_6_are_the_papers(official: Calibration, *, model_id: str, metric: str) -> None:
    assert round(one_score(official, model_id, metric, "published"), 2) == PAPER_TABLE_6[model_id][metric]


def test_the_human_columns_of_table_6_are_medians_but_for_three_cells(official: Calibration) -> None:
    """No other consolidation is closer. Only the win-rate of the reference answers differs strongly."""
    differing = {
        consolidation: {
            (model, name): round(one_score(official, model, name, consolidation.value), 1)
            for model in MODELS
            for name in (*HUMAN, ALL)
            if round(one_score(official, model, name, consolidation.value), 1) != PAPER_TABLE_6[model][name]
        }
        for consolidation in Consolidation
    }
    assert differing[Consolidation.MEDIAN_HIGH] == {
        ("reference", "win_rate"): 61.9,
        ("gpt-4o", "win_rate"): 48.1,
        ("gpt-4o", "naturalness"): 3.9,
    }
    assert differing[Consolidation.MEDIAN] == differing[Consolidation.MEDIAN_HIGH] | {
        ("reference", "appropriateness"): 3.7
    }
    assert {key.value: len(cells) for key, cells in differing.items()} == {
        "median": 4,
        "upper median": 3,
        "lower median": 6,
        "mean": 17,
    }
    assert one_score(official, "gpt-4o", "naturalness", "median") == pytest.approx(3.948, abs=5e-4)


@pytest.mark.parametrize(
    ("weighting", "expected"),
    [
        (Weighting.NONE, {"rl_f": 0.169, "rb_llm": 0.211, "rb_alg": 0.236}),
        (Weighting.INVERSE_FREQUENCY, {"rl_f": 0.189, "rb_llm": 0.228, "rb_alg": 0.256}),
        (Weighting.INVERSE_FREQUENCY_RANKS, {"rl_f": 0.191, "rb_llm": 0.228, "rb_alg": 0.256}),
    ],
)
def test_the_win_rate_correlations_of_the_released_file(
    official: Calibration, *, weighting: Weighting, expected: dict[str, float]
) -> None:
    """Not the paper's .24, .33 and .01: recorded as computed, so that a change is detected."""
    cells = [
        cell
        for cell in official.correlations
        if (cell.human, cell.with_reference, cell.weighting) == (WIN_RATE, True, weighting)
    ]
    assert {cell.metric: cell.score.value for cell in cells} == pytest.approx(expected, abs=5e-4)
    assert {(cell.n_scored, cell.n_answers) for cell in cells} == {(405, 405)}


def test_every_unweighted_correlation_is_scipys(answers: tuple[RatedResponse, ...], official: Calibration) -> None:
    cells = [cell for cell in official.correlations if cell.weighting is Weighting.NONE]
    assert len(cells) == 2 * 5 * 3
    for cell in cells:
        rows = [
            row
            for row in answers
            if row.response.task.answerability is Answerability.ANSWERABLE
            and (cell.with_reference or row.model_id != "reference")
        ]
        human = [statistics.median(row.ratings[cell.human].values()) for row in rows]
        expected = spearmanr([row.metrics[cell.metric] for row in rows], human).statistic
        assert cell.score.value == pytest.approx(expected, abs=1e-9)
        assert cell.n_answers == (405 if cell.with_reference else 270)


def test_the_ngram_detector_agrees_with_the_papers_judge(official: Calibration) -> None:
    """15 of 471 answers are labelled `yes`; n-grams find all of these and 2 others."""
    (found,) = official.idk
    assert (found.source, found.n_labelled, found.n_scored) == ("ngrams", 471, 471)
    assert found.accuracy.value == 469 / 471
    assert found.precision.value == 15 / 17
    assert found.recall.value == 1


def test_the_raters_agree_little_more_than_by_chance(official: Calibration) -> None:
    assert {name: score.value for name, score in official.raters.items()} == pytest.approx(
        {
            "win_rate": 0.171,
            "faithfulness": 0.420,
            "appropriateness": 0.087,
            "naturalness": 0.298,
            "completeness": 0.193,
        },
        abs=5e-4,
    )


def test_the_papers_agreement_counts_answers_with_two_equal_ratings(official: Calibration) -> None:
    """All five values of section 7 are reproduced.

    By the definition of appendix E, which also requires a close third rating, they would be lower.
    """
    found = official.agreement
    assert {name: round(100 * shares.majority, 1) for name, shares in found.items()} == PAPER_AGREEMENT
    assert {name: round(100 * shares.high, 1) for name, shares in found.items()} == {
        "win_rate": 71.1,
        "faithfulness": 81.1,
        "appropriateness": 84.0,
        "naturalness": 93.1,
        "completeness": 76.4,
    }
    assert {shares.n for shares in found.values()} == {318}
    rows = lines_of(text_of(official), "two of the raters")
    assert rows == [["two of the raters", "87.4", "89.6", "92.1", "95.6", "90.3"]]


def test_a_judge_with_the_published_scores_has_their_correlation(answers: tuple[RatedResponse, ...]) -> None:
    copy = MetricScores("rb_llm", "copy", {row.key: row.metrics["rb_llm"] for row in answers})
    cells = calibrate(answers, [copy]).correlations
    assert [c.score for c in cells if c.source == "copy"] == [
        c.score for c in cells if (c.metric, c.source) == ("rb_llm", "published")
    ]


def test_unscored_and_missing_scores_are_left_out_and_counted() -> None:
    rows = made()
    values: dict[tuple[str, str], float | None] = {row.key: row.metrics["rl_f"] for row in rows}
    values[rows[0].key] = None
    del values[rows[3].key]
    column = MetricScores("rl_f", "judge", values)
    calibration = calibrate(rows, [column])
    cell = next(c for c in calibration.correlations if c.source == "judge")
    kept = [row for row in rows if values.get(row.key) is not None]
    human = [consolidated(row, WIN_RATE, Consolidation.MEDIAN) for row in kept]
    assert cell.score.value == pytest.approx(spearmanr([row.metrics["rl_f"] for row in kept], human).statistic)
    assert (cell.n_scored, cell.n_answers) == (22, 24)
    assert "(22/24)" in text_of(calibration)
    assert lines_of(text_of(calibration), "reference", "rl_f", "judge")[0][3].endswith(" (11/12)")


def test_a_column_without_values_has_no_score() -> None:
    rows = made()
    calibration = calibrate(rows, [MetricScores("rl_f", "silent", {})])
    reasons = {(c.metric, c.source): c.score.reason for c in calibration.correlations}
    assert reasons["rl_f", "silent"] == "fewer than two items that two raters have rated"
    assert reasons["rb_alg", "published"] == "the ratings do not vary, so agreement is not defined"
    assert lines_of(text_of(calibration), "gpt-4o", "rl_f", "silent")[0][3] == "- (0/12)"


def test_only_answerable_answers_count() -> None:
    others = [rated(n, label=label) for n, label in enumerate(("PARTIAL", "UNANSWERABLE", "CONVERSATIONAL"), start=90)]
    result, expected = calibrate([*made(), *others]), calibrate(made())
    assert replace(result, agreement=expected.agreement) == expected


def test_the_order_of_answers_does_not_change_scores() -> None:
    rows = made()
    shuffled = random.Random(0).sample(rows, len(rows))
    scores = [[c.score.value for c in calibrate(order).correlations] for order in (rows, shuffled)]
    assert scores[0] == pytest.approx(scores[1])


@pytest.mark.parametrize(
    ("consolidation", "expected"),
    [
        (Consolidation.MEDIAN, 3.5),
        (Consolidation.MEDIAN_HIGH, 4),
        (Consolidation.MEDIAN_LOW, 3),
        (Consolidation.MEAN, 3.5),
    ],
)
def test_two_raters_with_different_ratings(consolidation: Consolidation, expected: float) -> None:
    row = rated(1, ratings={name: {"a": 3, "b": 4} for name in (WIN_RATE, *FANC)})
    assert consolidated(row, "naturalness", consolidation) == expected
    assert consolidated(row, ALL, consolidation) == pytest.approx(expected)


def test_all_is_computed_by_rater_from_complete_ratings() -> None:
    ratings = {name: {"a": 4.0, "b": 2.0} for name in FANC}
    ratings["faithfulness"] = {"a": 1.0, "b": 2.0, "c": 4.0}
    row = rated(1, ratings=ratings)
    assert consolidated(row, ALL, Consolidation.MEDIAN_HIGH) == pytest.approx(4 / (1 + 3 / 4))
    assert consolidated(row, ALL, Consolidation.MEDIAN_LOW) == 2


def test_idk_scores_cover_scored_answers_and_count_the_rest() -> None:
    rows = [
        rated(1, label="UNANSWERABLE"),  # labelled yes
        rated(2, label="UNANSWERABLE", idk_is_right=False),
        rated(3),
        rated(4, idk_is_right=False),  # labelled yes
        rated(5),
        rated(6, label="CONVERSATIONAL"),  # no label
    ]
    given = (IdkVerdict.YES, IdkVerdict.YES, IdkVerdict.PARTIAL, IdkVerdict.NO, None, IdkVerdict.YES)
    verdicts = {row.key: verdict for row, verdict in zip(rows, given, strict=True)}
    result, silent = calibrate(rows, verdicts={"judge": verdicts, "silent": {}}).idk
    assert (result.n_labelled, result.n_scored) == (5, 4)
    assert [result.accuracy.value, result.precision.value, result.recall.value] == [0.5, 0.5, 0.5]
    assert (silent.n_scored, silent.accuracy.value, silent.accuracy.reason) == (0, None, "no such answer")


def test_scores_of_unknown_answers_are_an_error() -> None:
    foreign = {("d<::>1", "gpt-4o"): 0.5}
    with pytest.raises(ConfigurationError, match="1 others, as") as caught:
        calibrate(made(), [MetricScores("rb_llm", "judge", foreign)])
    assert "rb_llm by judge" in str(caught.value)
    with pytest.raises(ConfigurationError, match="idk-judge"):
        calibrate(made(), verdicts={"idk-judge": dict.fromkeys(foreign, IdkVerdict.NO)})


def test_repeated_columns_and_scores_that_are_not_numbers_are_errors() -> None:
    rows = made()
    with pytest.raises(ConfigurationError, match="rb_llm by published"):
        calibrate(rows, [MetricScores("rb_llm", "published", {})])
    with pytest.raises(ConfigurationError, match="finite"):
        calibrate(rows, [MetricScores("rb_llm", "judge", {rows[0].key: math.nan})])


def test_the_table_has_the_papers_scores_next_to_ours(official: Calibration) -> None:
    report = text_of(official)
    assert "405 answers to ANSWERABLE tasks" in report
    assert lines_of(report, "reference", "rb_alg") == [["reference", "rb_alg", "published", "0.87", "0.87"]]
    assert lines_of(report, "gpt-4o", "paper") == [["gpt-4o", "paper", "47.8", "3.5", "3.8", "4.0", "3.7", "3.6", ""]]
    assert lines_of(report, "gpt-4o", "upper median")[0][-1] == "4 of 6"
    with_reference, without = lines_of(report, "win_rate", "unweighted")
    assert with_reference[2:] == ["0.17", "0.21", "0.24"]
    assert without[2:] == ["0.28", "0.17", "0.25"]
    assert lines_of(report, "win_rate", "paper, Table 7") == [["win_rate", "paper, Table 7", "0.01", "0.33", "0.24"]]
    assert lines_of(report, "ngrams") == [["ngrams", "471 of 471", "0.996", "0.882", "1.000"]]


def test_the_papers_scores_are_next_to_its_own_columns_only() -> None:
    rows = made()
    column = MetricScores("rb_llm", "a|b", {row.key: row.metrics["rb_llm"] for row in rows})
    report = text_of(calibrate(rows, [column]))
    assert lines_of(report, "win_rate", "paper, Table 7")[0][-1] == "-"
    assert "rb_llm (a\\|b)" in report


def test_every_row_of_a_table_has_the_cells_of_its_header(official: Calibration) -> None:
    tables = [block.splitlines() for block in text_of(official).split("\n\n") if block.startswith("|")]
    assert len(tables) == 6
    for table in tables:
        assert len({line.count("|") for line in table if line.startswith("|")}) == 1


def test_a_calibration_without_answers_has_dashes() -> None:
    report = text_of(calibrate([]))
    assert "0 answers" in report
    assert lines_of(report, "win_rate", "unweighted")[0][2:] == ["-", "-", "-"]


@pytest.mark.parametrize("ending", PICTURE_FORMATS)
def test_a_picture_in_each_format(tmp_path: Path, ending: str) -> None:
    heads = {".png": b"\x89PNG", ".svg": b"<?xml", ".pdf": b"%PDF"}
    path = draw_picture(calibration_picture(calibrate(made())), tmp_path / f"picture{ending}")
    assert path.read_bytes().startswith(heads[ending])


def svg_of(calibration: Calibration, path: Path) -> str:
    """Return the SVG source, in which a comment contains the text of drawn letters."""
    return draw_picture(calibration_picture(calibration), path).read_text(encoding="utf-8")


def test_a_picture_contains_its_description(tmp_path: Path) -> None:
    rows = made()
    column = MetricScores("rb_llm", "a $1 judge$", {row.key: row.metrics["rb_llm"] for row in rows})
    calibration = calibrate(rows, [column])
    picture = svg_of(calibration, tmp_path / "a.svg")
    for text in (*(w.value for w in Weighting), *(name.replace("_", "-") for name in HUMAN), "rb_llm (a $1 judge$)"):
        assert f"<!-- {text} -->" in picture
    assert "24 ANSWERABLE answers, with the reference answers" in picture
    assert picture.count("Table 7") == 3, "one entry of the legend for each of the paper's metrics"


@pytest.mark.slow
def test_a_picture_is_reproducible_with_a_light_background(tmp_path: Path) -> None:
    calibration = calibrate(made())
    first, second = (svg_of(calibration, tmp_path / name) for name in ("one.svg", "other.svg"))
    assert first == second
    from matplotlib.image import imread

    pixels = imread(draw_picture(calibration_picture(calibration), tmp_path / "a.png"))
    assert pixels[..., :3].mean() > 0.8
    assert pixels[0, 0, :3].tolist() == [1, 1, 1]


def test_a_picture_draws_no_bar_for_a_missing_correlation() -> None:
    """rb_alg is constant in the artificial answers, so each panel has only the other two columns."""
    calibration = calibrate(made())
    drawn = [
        score.value
        for panel in calibration_picture(calibration).panels
        for name, scores in panel.series.items()
        for score in scores.values()
        if "Table 7" not in name
    ]
    present = [c.score.value for c in calibration.correlations if c.with_reference and c.score.value is not None]
    assert sorted(drawn) == sorted(present)
    assert len(drawn) == len(Weighting) * len(HUMAN) * 2


def test_a_calibration_without_answers_can_be_drawn(tmp_path: Path) -> None:
    assert "0 ANSWERABLE answers" in svg_of(calibrate([]), tmp_path / "a.svg")


def test_a_picture_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    picture = calibration_picture(calibrate(made()))
    with pytest.raises(ConfigurationError, match=r"\.png, \.svg, \.pdf"):
        draw_picture(picture, tmp_path / "picture.bmp")
    with raises(ConfigurationError):
        draw_picture(picture, tmp_path / "nowhere" / "picture.png")


def test_the_papers_tables_are_as_printed() -> None:
    assert PAPER_TABLE_7 == {"rl_f": 0.01, "rb_llm": 0.33, "rb_alg": 0.24, "rl_r": -0.03, "rl_mtb": -0.17}
    assert {model: dict(row)["win_rate"] for model, row in PAPER_TABLE_6.items()} == {
        "reference": 59.3,
        "gpt-4o": 47.8,
        "llama-3.1-405b-instruct": 47.4,
    }


# Weighted correlations.

TRIPLES = st.lists(st.tuples(st.integers(-3, 3), st.integers(-3, 3), st.integers(1, 4)), min_size=2, max_size=30)


def oracle(first: Sequence[float], second: Sequence[float]) -> float | None:
    """Return scipy's rho; None if a column does not vary, about which scipy warns."""
    return None if min(len(set(first)), len(set(second))) < 2 else float(spearmanr(first, second).statistic)


@given(TRIPLES)
def test_integer_weights_repeat_the_pairs(rows: list[tuple[int, int, int]]) -> None:
    first, second, weights = zip(*rows, strict=True)
    repeated = [(a, b) for a, b, n in rows for _ in range(n)]
    value = weighted_spearman(first, second, weights, in_ranks=True).value
    assert value == pytest.approx(oracle([a for a, _ in repeated], [b for _, b in repeated]), abs=1e-9)
    equal = weighted_spearman(first, second, [2.5] * len(rows), in_ranks=False).value
    assert equal == pytest.approx(oracle(first, second), abs=1e-9)


def test_weights_apply_to_the_correlation_of_unweighted_ranks() -> None:
    """Ranks 1 2 3 and 1 3 2, weights 1 1 2: means 9/4 and 2, co-moment 1, moments 11/4 and 2."""
    value = weighted_spearman([10, 20, 30], [1, 9, 5], [1, 1, 2], in_ranks=False).value
    assert value == pytest.approx(1 / math.sqrt(2.75 * 2))


def test_inverse_frequency_gives_every_value_the_same_total_weight() -> None:
    assert inverse_frequency([4, 4, 4, 4, 1, 1]) == [0.25] * 4 + [0.5] * 2
    assert inverse_frequency([]) == []


# The command of the study, with a judge.

SERVER = Path(__file__).resolve().parents[2] / "scripts" / "judge_demo_server.py"


def unpadded(text: str) -> str:
    """Return tables with one space around each cell."""
    return re.sub(" +", " ", text)


@pytest.mark.slow
def test_published_scores_are_next_to_the_papers(mtrag_root: Path, tmp_path: Path) -> None:
    picture = tmp_path / "calibration.png"
    text, verdicts = calibrate_judges(
        mtrag_root, [], secrets=no_secrets, cache_file=tmp_path / "replies.sqlite", picture=picture
    )
    assert verdicts is None
    assert "| reference | rb_alg | published | 0.87 | 0.87 |" in unpadded(text)
    assert "| ngrams | 471 of 471 | 0.996 |" in unpadded(text)
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_judges_are_calibrated_next_to_the_published_scores(mtrag_root: Path, tmp_path: Path) -> None:
    server = subprocess.Popen([sys.executable, str(SERVER)], stdout=subprocess.PIPE, text=True)
    try:
        judge = json.dumps({"model": "steady", "base_url": server.stdout.readline().strip() + "/v1"})
        text, verdicts = calibrate_judges(
            mtrag_root,
            [judge],
            secrets=no_secrets,
            cache_file=tmp_path / "replies.sqlite",
            metrics=["rl_mtb"],
            repeats=2,
        )
        again, _ = calibrate_judges(
            mtrag_root,
            [judge],
            secrets=no_secrets,
            cache_file=tmp_path / "replies.sqlite",
            metrics=["rl_mtb"],
        )
    finally:
        server.kill()
        server.communicate()
    verdicts.require_coverage(1.0)
    assert "| reference | rb_llm | steady |" in unpadded(text)
    assert "| reference | rl_mtb | steady |" in unpadded(text)
    assert "| judges | 471 of 471 |" in unpadded(text)
    assert "## Card of steady" in text
    assert "same value again" in text
    assert "same value again" not in again


def test_a_metric_without_judges_is_refused(tmp_path: Path) -> None:
    for metric, hint in {"length": "rl_mtb or rl_r", "rl_mt": "rl_mtb"}.items():
        with pytest.raises(ConfigurationError, match=hint):
            calibrate_judges(tmp_path, [], secrets=no_secrets, cache_file=tmp_path / "r", metrics=[metric])


def test_impossible_options_are_refused_before_a_judge_request(mtrag_root: Path, tmp_path: Path) -> None:
    broken = tmp_path / "pairs.json"
    broken.write_text("[{}]")
    judge = '{"model": "m", "base_url": "http://127.0.0.1:9/v1"}'
    ask = partial(calibrate_judges, mtrag_root, secrets=no_secrets, cache_file=tmp_path / "r")
    with pytest.raises(BenchmarkFileError, match="amazon-science/RAGChecker"):
        ask([judge], ragchecker=broken)
    with pytest.raises(ConfigurationError, match="no judge is named"):
        ask([], pairs=True)
    with pytest.raises(ConfigurationError, match="a preset has the official prompts"):
        ask(["mtrag-un-official,base_url=http://127.0.0.1:9/v1"])


def test_broken_judge_is_refused_without_showing_it(mtrag_root: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError) as error:
        calibrate_judges(
            mtrag_root,
            ['{"model": "m", "base_url": "http://u:hunter2@h"'],
            secrets=no_secrets,
            cache_file=tmp_path / "r",
        )
    assert "hunter2" not in str(error.value)


# Measures of a judge on artificial ratings.

N = 30


def judged_answer(number: int, model: str, rating: float, text: str, *, refuses: bool = False) -> RatedResponse:
    made = response(text, task_id=f"c{number}<::>2")
    task = replace(made.task, conversation_id=f"c{number}")
    ratings = {name: {"r": rating} for name in (*FANC, "win_rate")}
    return RatedResponse(model, replace(made, task=task), ratings, {}, idk_is_right=not refuses)


def made_answers(second: str = "b") -> list[RatedResponse]:
    """Return three answers per task: the reference, `a`, preferred in every second task, and `b`, the longer answer."""
    result = []
    for number in range(N):
        liked = number % 2 == 0
        result += [
            judged_answer(number, "reference", 4, "Reference."),
            judged_answer(number, "a", 4 if liked else 1, "Short.", refuses=number % 10 == 0),
            judged_answer(number, second, 2, "A longer answer in words."),
        ]
    return result


def card_of(score: Callable[[RatedResponse], float | None], judge: str = "j", second: str = "b") -> dict[str, CardRow]:
    rows = made_answers(second)
    scores = {row.key: score(row) for row in rows}
    idk: dict[tuple[str, str], IdkVerdict | None] = {
        row.key: IdkVerdict.YES if row.refuses else IdkVerdict.NO for row in rows
    }
    judged = JudgeResults(judge, {"rb_llm": scores}, idk, Verdicts([], [], [judge], {}), 1.0, {})
    return {row.measure: row for row in judge_measures(rows, judged)}


def human(row: RatedResponse) -> float:
    return row.ratings["faithfulness"]["r"] / 4


def test_a_judge_that_prefers_like_people_agrees_and_an_opposite_judge_does_not() -> None:
    like, against, even = card_of(human), card_of(lambda row: 1 - human(row)), card_of(lambda _: 0.5)
    assert (like["pairs as people: all"].value, like["pairs as people: all"].n) == (1, N)
    assert against["pairs as people: faithfulness"].value == 0
    assert even["pairs as people: all"].value == 0.5
    assert like["rank: faithfulness"].value == pytest.approx(1)
    assert even["rank: faithfulness"].value is None
    assert "does not distinguish answers" in card_table("j", "made", tuple(even.values())).legend[0]
    assert not card_table("j", "made", tuple(like.values())).legend
    assert "not significantly above chance" in card_table("j", "made", tuple(against.values())).legend[0]
    silent = CardRow("rb_llm", "without a verdict", 1.0, n=40)
    assert "no verdict on 100% of 40 answers" in card_table("j", "made", (silent,)).legend[0]
    assert like["favours longer"].value == 0
    assert like["kappa with the paper's judge"].value == 1


def test_a_judge_that_counts_words_favours_longer_answers() -> None:
    found = card_of(lambda row: len(row.response.text) / 100)
    longer = found["favours longer"]
    assert longer.value == pytest.approx(0.5)
    assert longer.low > 0.2
    assert found["pairs as people: all"].low is not None
    assert found["pairs as people: all"].value == pytest.approx(0.5)
    assert found["favours refusals"].value == -1
    assert found["favours refusals"].n == 3


def test_answers_without_a_verdict_are_in_no_pair() -> None:
    found = card_of(lambda row: None if row.model_id == "a" else 0.5)
    assert (found["pairs as people: all"].value, found["pairs as people: all"].n) == (None, 0)


def test_twice_the_length_and_the_own_family_are_favours() -> None:
    found = card_of(lambda row: len(row.response.text.split()) / 100, judge="model-b-llama")
    slope = found["favours twice as long"]
    assert slope.value == pytest.approx(0.5 / math.log2(5))
    assert slope.low > 0
    assert not any(measure.startswith("favours its own") for measure in found), "no system is a Llama by its name"
    kin = card_of(lambda row: float(row.model_id == "llama-b"), judge="meta/Llama-3", second="llama-b")
    assert kin["favours its own family, Llama"].value == pytest.approx(0.5)


def both_orders(judge: Callable[[RatedPair, bool], float]) -> dict[str, CardRow]:
    """Return the rows of a judge by its verdict on the answer shown first: the first of the pair, then the second."""
    pairs = rated_pairs(made_answers())
    rows = pairwise_rows(pairs, [(judge(pair, True), judge(pair, False)) for pair in pairs], "j")
    return {row.measure: row for row in rows}


def test_pairs_in_both_orders_show_preference_and_effect_of_order() -> None:
    like = both_orders(lambda pair, is_first: float((pair.people["all"] > 0) == is_first))
    assert (like["pairs as people: all"].value, like["another verdict in the other order"].value) == (1, 0)
    assert like["prefers what is shown first"].value == 0.5
    order = both_orders(lambda *_: 1.0)
    assert order["prefers what is shown first"].value == 1
    assert order["another verdict in the other order"].value == 1
    assert order["pairs as people: all"].value == 0.5
    assert both_orders(lambda pair, is_first: 0.5)["another verdict in the other order"].value == 0
