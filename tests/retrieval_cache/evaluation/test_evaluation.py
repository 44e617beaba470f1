from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragtasks.benchmarks import open_benchmark, retrieval_side
from ragtasks.benchmarks.mtrag import StandaloneLabels, read_standalone_labels
from ragtasks.errors import BenchmarkFileError, CacheError, ConfigurationError
from ragtasks.files import Ranked, Run
from ragtasks.metrics import RETRIEVAL_METRICS, retrieval_metric
from ragtasks.records import Answerability, Message, Qrel, Role, Task
from ragtasks.statistics import Comparison, compare_columns
from ragtasks.tables import Difference, slices_of
from retrieval_cache.evaluation import DIMENSIONS, JudgedRun, columns_of, judge, mean, retrieval_section
from retrieval_cache.rankings import Ranking
from tests._messages import raises

MTRAG = retrieval_side("mtrag")


def task(conversation: str, turn: int, domain: str) -> Task:
    message = Message(Role.USER, "a question")
    return Task(
        task_id=f"{conversation}<::>{turn}",
        conversation_id=conversation,
        turn=turn,
        domain=domain,
        messages=(message,),
        target="an answer",
        answerability=Answerability.ANSWERABLE,
        question_types=(),
        multi_turn="N/A",
        references=(),
    )


TASKS = (task("c", 1, "govt"), task("c", 2, "govt"), task("d", 1, "fiqa"), task("d", 2, "fiqa"), task("d", 3, "fiqa"))
QRELS = tuple(Qrel(item.task_id, "right", 1) for item in TASKS[:4])


def run_at(ranks: Mapping[str, int]) -> dict[str, tuple[Ranked, ...]]:
    """A run with its relevant passage at a rank (from 1); 0 if missing."""
    return {
        query_id: tuple(
            Ranked("right" if position == rank else f"wrong{position}", -float(position)) for position in range(1, 6)
        )
        for query_id, rank in ranks.items()
    }


def judged(ranks: Mapping[str, int], name: str = "mine", qrels: tuple[Qrel, ...] = QRELS) -> JudgedRun:
    return judge(Ranking(name, run_at(ranks)), qrels, TASKS)


ranks_strategy = st.fixed_dictionaries({item.task_id: st.integers(0, 5) for item in TASKS})


def test_every_judged_query_has_its_domain_turn_and_values() -> None:
    evaluation = judged({"c<::>1": 1, "c<::>2": 2, "d<::>1": 0, "d<::>3": 1})
    assert [(r.query_id, r.domain, r.turn, r.standalone, r.values["RR"]) for r in evaluation.results] == [
        ("c<::>1", "govt", 1, None, 1.0),
        ("c<::>2", "govt", 2, None, 0.5),
        ("d<::>1", "fiqa", 1, None, 0.0),
        ("d<::>2", "fiqa", 2, None, 0.0),
    ]
    assert evaluation.coverage.omitted == ("d<::>2",)
    assert len(evaluation.coverage.unjudged) == 1
    assert mean(evaluation.results, "RR").value == 0.375


def test_slices_are_all_queries_turns_and_domains() -> None:
    evaluation = judged({task.task_id: 1 for task in TASKS})
    query_ids = {
        (part.dimension, part.value): [r.query_id for r in part.of(evaluation.results)]
        for part in slices_of(evaluation.results, DIMENSIONS, n_least=1)
    }
    assert query_ids == {
        ("all", ""): ["c<::>1", "c<::>2", "d<::>1", "d<::>2"],
        ("turn", "first"): ["c<::>1", "d<::>1"],
        ("turn", "later"): ["c<::>2", "d<::>2"],
        ("domain", "govt"): ["c<::>1", "c<::>2"],
        ("domain", "fiqa"): ["d<::>1", "d<::>2"],
    }


def test_standalone_slices_only_contain_labelled_later_turns() -> None:
    labels = StandaloneLabels("a rewriter", {"c<::>1": True, "c<::>2": False})
    evaluation = judge(Ranking("mine", run_at({"c<::>1": 1})), QRELS, TASKS, standalone=labels)
    results = {
        part.value: part.of(evaluation.results)
        for part in slices_of(evaluation.results, DIMENSIONS, n_least=1)
        if part.dimension == "later turns"
    }
    assert [r.query_id for r in results["non-standalone"]] == ["c<::>2"]
    assert "standalone" not in results
    assert evaluation.standalone_source == "a rewriter"
    assert [r.standalone for r in evaluation.results] == [True, False, None, None]


@given(ranks_strategy, st.sets(st.sampled_from([item.task_id for item in TASKS])))
def test_leaving_queries_out_never_raises_a_mean(ranks: dict[str, int], left_out: set[str]) -> None:
    fewer = {query_id: rank for query_id, rank in ranks.items() if query_id not in left_out}
    complete, reduced = judged(ranks), judged(fewer if set(fewer) - {"d<::>3"} else {})
    for part in slices_of(complete.results, DIMENSIONS, n_least=1):
        for metric in RETRIEVAL_METRICS:
            more = mean(part.of(complete.results), metric.name).value
            less = mean(part.of(reduced.results), metric.name).value
            assert less <= more


def test_without_judged_queries_there_is_no_mean() -> None:
    evaluation = judged({}, qrels=())
    assert evaluation.results == ()
    assert mean(evaluation.results, "R@5").value is None


def test_an_empty_run_scores_0_in_every_metric() -> None:
    evaluation = judged({})
    assert {mean(evaluation.results, metric.name).value for metric in RETRIEVAL_METRICS} == {0.0}
    assert len(evaluation.coverage.omitted) == 4
    assert {score.value for score in evaluation.ibm.values()} == {None}


def test_the_ibm_profile_is_weighted_by_predictions_per_domain() -> None:
    evaluation = judged({"c<::>1": 1, "d<::>1": 0, "d<::>3": 1})
    assert evaluation.ibm["R@5"].value == pytest.approx(1 / 3, abs=1e-9)
    assert mean(evaluation.results, "R@5").value == 0.25


def compared(first: JudgedRun, second: JudgedRun, metric: str) -> Comparison:
    (pair,) = compare_columns(
        [column for run in (first, second) for column in columns_of(run, [retrieval_metric(metric)])]
    ).pairs
    return pair


def test_pairs_are_counted_query_by_query() -> None:
    first = judged({"c<::>1": 1, "c<::>2": 2, "d<::>1": 0}, "first")
    second = judged({"c<::>1": 2, "c<::>2": 1, "d<::>1": 3}, "second")
    pair = compared(first, second, "RR")
    assert (pair.difference.n_values, pair.signs) == (4, (2, 1, 1))
    assert pair.difference.value == pytest.approx((0.5 - 0.5 + 1 / 3) / 4)
    table = retrieval_section([first, second]).tables[-1]
    difference = Difference(pytest.approx(pair.difference.value), 4, 4)
    assert table.rows[-1] == ("second", "RR", 4, difference, 2, 1, 1)


@given(ranks_strategy, ranks_strategy)
def test_swapping_two_runs_mirrors_their_comparison(one: dict[str, int], other: dict[str, int]) -> None:
    first, second = judged(one), judged(other, "other")
    forward, back = compared(first, second, "nDCG@5"), compared(second, first, "nDCG@5")
    assert forward.signs == (back.signs[1], back.signs[0], back.signs[2])
    assert sum(forward.signs) == forward.difference.n_values == 4
    means = [mean(run.results, "nDCG@5").value for run in (first, second)]
    assert forward.difference.value == pytest.approx((means[1] or 0.0) - (means[0] or 0.0), abs=1e-12)


def test_runs_with_different_judged_queries_are_not_compared() -> None:
    first, second = judged({"c<::>1": 1}), judged({"c<::>1": 1}, "less", QRELS[:2])
    with raises(ConfigurationError):
        retrieval_section([first, second])


def test_judgements_of_unknown_tasks_are_refused() -> None:
    with raises(BenchmarkFileError):
        judge(Ranking("mine", {}), [*QRELS, Qrel("other<::>1", "right", 1)], TASKS)


def test_a_run_of_other_data_is_refused() -> None:
    foreign: Run = {"c::1": (Ranked("right", 1.0),)}
    with raises(CacheError):
        judge(Ranking("mine", foreign), QRELS, TASKS)


def test_slices_of_the_real_data_have_the_sizes_of_table_4(mtrag_root: Path) -> None:
    tasks = open_benchmark("mtrag", mtrag_root).tasks
    qrels = [qrel for domain in MTRAG.domains for qrel in MTRAG.load_qrels(mtrag_root, domain)]
    chance = random.Random(3)
    run = {task.task_id: tuple(Ranked(p.passage_id, chance.random()) for p in task.references) for task in tasks}
    evaluation = judge(Ranking("references", run), qrels, tasks, standalone=read_standalone_labels(mtrag_root))
    sizes = {
        (part.dimension, part.value): len(part.of(evaluation.results))
        for part in slices_of(evaluation.results, DIMENSIONS, n_least=1)
    }
    assert sizes == {
        ("all", ""): 777,
        ("turn", "first"): 102,
        ("turn", "later"): 675,
        ("later turns", "standalone"): 2,
        ("later turns", "non-standalone"): 3,
        ("domain", "clapnq"): 208,
        ("domain", "fiqa"): 180,
        ("domain", "govt"): 201,
        ("domain", "cloud"): 188,
    }
    assert len(evaluation.coverage.unjudged) == 65
    assert evaluation.coverage.without_relevant == ()
    # In any order, the references are all relevant passages, except the task without feedback, which has no qrel.
    assert mean(evaluation.results, "AP").value == pytest.approx(1.0, abs=1e-3)
    assert min(result.values["RR"] for result in evaluation.results) >= 0.5


def test_the_task_file_labels_seven_tasks(mtrag_root: Path) -> None:
    labels = read_standalone_labels(mtrag_root)
    assert sorted(labels.labels.values()) == [False] * 4 + [True] * 3
    assert labels.labels["1534a095279f2cb888fb0bea17bd70da<::>3"] is False


def test_an_unknown_standalone_label_is_refused_by_line(tmp_path: Path) -> None:
    path = tmp_path / "mtrag-human/generation_tasks/reference.jsonl"
    path.parent.mkdir(parents=True)
    path.write_text('{"task_id": "c<::>1"}\n{"task_id": "c<::>2", "Standalone Type": ["Perhaps"]}\n')
    with pytest.raises(BenchmarkFileError, match=r"line 2: .*Perhaps"):
        read_standalone_labels(tmp_path)
