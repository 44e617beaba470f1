"""Verdicts by judge, and their agreement: by hand, and against the functions and scipy on the same columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import spearmanr

from perf.train_refusals import LABELLED, read_file
from ragtasks.metrics import EncoderIdk, Level, NgramIdk, krippendorff_alpha
from ragtasks.records import Answerability, IdkVerdict, Response, Task
from ragtasks.reports.tables._judging import detectors_table, judge_tables
from ragtasks.results import ScoredAnswer, read_evaluations
from ragtasks.tables import Cell, Table, Value
from tests.reports._rows import evaluation
from tests.reports._rows import row as row_of
from tests.reports._saved import TASKS, save

ANY_TASK = Task("c<::>1", "c", 1, "govt", (), "", Answerability.ANSWERABLE, (), "N/A", ())
Said = Mapping[tuple[str, str], float | None]


def row(verdicts: Said, setting: str = "reference") -> ScoredAnswer:
    return row_of(1, None, values={}, verdicts=verdicts, setting=setting)


def judged(rubric: str, **columns: Sequence[float | None]) -> list[ScoredAnswer]:
    """Return one row per item, with each judge's verdict on it."""
    items = zip(*columns.values(), strict=True)
    return [row({(rubric, judge): value for judge, value in zip(columns, item, strict=True)}) for item in items]


def agreements(table: Table) -> dict[tuple[Cell, ...], tuple[float | None, int, str]]:
    """Return model, rubric and measure -> score, items, reason."""
    found = {}
    for *names, score, n_items, reason in table.rows:
        assert isinstance(score, Value)
        assert isinstance(n_items, int)
        found[tuple(names)] = (score.value, n_items, str(reason))
    return found


def test_each_judge_has_a_column_with_its_coverage() -> None:
    first = [
        row({("rb_llm", "a"): 0.5, ("rb_llm", "b"): 0.25, ("idk", "a"): 1.0, ("idk", "b"): None}),
        row({("rb_llm", "a"): 1.0, ("rb_llm", "b"): None}),
        row({("rb_llm", "a"): 0.0, ("rb_llm", "b"): 1.0}, "full_rag"),
    ]
    means = judge_tables([evaluation(first), evaluation([row({("rb_llm", "c"): 0.75})], "other")])[0]
    assert means.columns == ("setting", "model", "rubric", "a", "b", "c")
    nobody = Value(None, 0, 0)
    assert means.rows == (
        ("reference", "m", "rb_llm", Value(0.75, 2, 2), Value(0.25, 1, 2), nobody),
        ("reference", "m", "idk", Value(1.0, 1, 1), Value(None, 0, 1), nobody),
        ("reference", "other", "rb_llm", nobody, nobody, Value(0.75, 1, 1)),
        ("full_rag", "m", "rb_llm", Value(0.0, 1, 1), Value(1.0, 1, 1), nobody),
    )


def test_one_judge_has_no_agreement_and_without_judges_there_is_no_table() -> None:
    assert [table.title for table in judge_tables([evaluation(judged("rl_f", a=[0.0, 1.0]))])] == ["Verdicts by judge"]
    assert judge_tables([evaluation([row({})])]) == judge_tables([]) == []


def test_only_evaluations_with_two_judges_have_agreement() -> None:
    both, one = evaluation(judged("rl_f", a=[0, 1], b=[0, 1])), evaluation(judged("rl_f", a=[0, 1]), "one")
    _, table = judge_tables([one, both, evaluation([row({})], "none")])
    assert {cells[0] for cells in table.rows} == {"m"}


@pytest.mark.parametrize(
    ("rubric", "level"),
    [("rb_llm", Level.INTERVAL), ("rl_f", Level.INTERVAL), ("idk", Level.ORDINAL), ("clarification", Level.NOMINAL)],
)
def test_alpha_uses_the_level_of_each_rubric(rubric: str, level: Level) -> None:
    columns: dict[str, list[float | None]] = {
        "a": [0, 0.5, 1, 1, None],
        "b": [0, 1, 1, 0.5, 1],
        "c": [0.5, 0, 1, None, 0],
    }
    by_level = {item: krippendorff_alpha(list(zip(*columns.values(), strict=True)), item).value for item in Level}
    assert len(set(by_level.values())) == len(Level)  # otherwise the test could not distinguish them
    _, table = judge_tables([evaluation(judged(rubric, **columns))])
    assert agreements(table)["m", rubric, f"Krippendorff's alpha ({level.value})"] == (by_level[level], 5, "")


def test_agreement_by_hand() -> None:
    _, table = judge_tables(
        [evaluation(judged("rb_llm", a=[0.0, 0.5, 1.0, None], b=[0.25, 0.5, 0.75, 1.0], c=[1, None, 0, None]))]
    )
    found = agreements(table)
    assert [names[2] for names in found] == [
        "Krippendorff's alpha (interval)",
        "Spearman: a, b",
        "Spearman: a, c",
        "Spearman: b, c",
    ]
    assert found["m", "rb_llm", "Krippendorff's alpha (interval)"][1] == 3
    assert found["m", "rb_llm", "Spearman: a, b"] == (pytest.approx(1.0), 3, "")
    assert found["m", "rb_llm", "Spearman: a, c"] == (pytest.approx(-1.0), 2, "")


def test_agreement_that_is_not_defined_is_a_dash_with_its_reason() -> None:
    flat = judged("rb_llm", a=[1.0, 1.0, 1.0], b=[1.0, 1.0, None])
    apart = judged("rl_f", a=[1.0, None], b=[None, 0.5])
    _, table = judge_tables([evaluation([*flat, *apart])])
    alike = "the ratings do not vary, so agreement is not defined"
    few = "fewer than two items that two raters have rated"
    assert list(agreements(table).values()) == [(None, 2, alike)] * 2 + [(None, 0, few)] * 2


VERDICTS = st.one_of(st.none(), st.sampled_from((0.0, 0.25, 0.5, 1.0)))


@given(st.lists(st.tuples(VERDICTS, VERDICTS), min_size=1, max_size=20))
def test_spearman_equals_scipy_on_common_scores(items: list[tuple[float | None, float | None]]) -> None:
    _, table = judge_tables(
        [evaluation([row({("rl_f", "a"): first, ("rl_f", "b"): second}) for first, second in items])]
    )
    value, n_items, reason = agreements(table)["m", "rl_f", "Spearman: a, b"]
    both = [(first, second) for first, second in items if first is not None and second is not None]
    assert n_items == len(both)
    columns = list(zip(*both, strict=True))
    if len(both) < 2 or any(len(set(column)) == 1 for column in columns):
        assert value is None
        assert reason
    else:
        assert value == pytest.approx(spearmanr(*columns).statistic)


def test_verdicts_that_were_not_requested_are_not_missing(tmp_path: Path) -> None:
    """Logged samples with verdicts of two judges, one of which fails, and a rubric that does not apply to the tasks."""
    reported = (("rl_f", "a", "given", 0.5), ("rl_f", "b", "failed", None), ("clarification", "a", "not asked", None))
    keys = ("rubric", "judge", "outcome", "value")

    def judge(sample: dict[str, Any]) -> None:
        sample["doc"]["scoring"]["verdicts"] = [dict(zip(keys, item, strict=True)) for item in reported]

    (found,) = read_evaluations([save(tmp_path, change_sample=judge)])
    means, _ = judge_tables([found])
    n = len(TASKS)
    assert means.rows == (("reference", "org/model", "rl_f", Value(0.5, n, n), Value(None, 0, n)),)


def test_disagreements_of_ngrams_and_encoder_are_counted_with_an_example(tmp_path: Path) -> None:
    every = [row.text for row in read_file(LABELLED / "blind.jsonl")[::3]]
    responses = [Response(ANY_TASK, (), text) for text in every]
    result = [[label.verdict for label in detector.detect(responses)] for detector in (NgramIdk(), EncoderIdk())]
    pairs = sorted(zip(every, *result, strict=True), key=lambda row: row[1] is row[2])[: len(TASKS)]
    n_unlike = sum(first is not second for _, first, second in pairs)
    assert n_unlike, "these texts no longer show a difference: read all of them"
    texts = dict(zip((f"{conversation}<::>{turn}" for conversation, turn in TASKS), pairs, strict=True))

    def answer(sample: dict[str, Any]) -> None:
        sample["filtered_resps"] = [texts[sample["doc"]["task_id"]][0]]

    save(tmp_path, change_sample=answer)
    (evaluation,) = read_evaluations([tmp_path])
    ((setting, model, n, differ, share, by_ngrams, by_encoder, example),) = detectors_table([evaluation]).rows
    assert (setting, model, n, differ) == ("reference", evaluation.model, len(TASKS), n_unlike)
    assert example == next(task for task, (_, first, second) in texts.items() if first is not second)
    assert share == f"{n_unlike / len(TASKS):.3f}"
    yes = IdkVerdict.YES
    assert by_ngrams == sum(first is yes and second is not yes for _, first, second in pairs)
    assert by_encoder == sum(second is yes and first is not yes for _, first, second in pairs)
