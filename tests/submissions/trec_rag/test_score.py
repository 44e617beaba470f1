"""Scoring of answer files and creation of nuggets, with a judge that counts words."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from ragtasks.benchmarks import Benchmark, benchmark_folder, open_benchmark, retrieval_side
from ragtasks.benchmarks.trec_rag import load_segments, read_assignments, read_nuggets
from ragtasks.errors import JudgeError
from ragtasks.judges import Rubric, Verdicts
from ragtasks.metrics import CitedSentence, nugget_scores
from ragtasks.records import Grade, Importance, Passage, Qrel, Response, Setting
from ragtasks.submissions.trec_rag import (
    CitedAnswer,
    create_nuggets,
    first_cited,
    pool,
    score_answers,
    with_nuggets,
    write_nuggets,
    write_scores,
)
from ragtasks.submissions.trec_rag._score import Judge
from tests.judges._scripted import ScriptedClient, response, verdicts_of
from tests.submissions.trec_rag._judge import overlap, verdict

SAMPLE = benchmark_folder("trec_rag24", "sample", Path())


@pytest.fixture(scope="module")
def sample() -> Benchmark:
    return open_benchmark("trec_rag24", SAMPLE)


def judging(*clients: ScriptedClient) -> Judge:
    def ask(responses: Sequence[Response], rubrics: Sequence[Rubric]) -> Verdicts:
        return verdicts_of(responses, rubrics, clients or [ScriptedClient(lambda prompt, _: verdict(prompt))])

    return ask


def answers_to(sample: Benchmark) -> list[CitedAnswer]:
    """Answers with every other nugget, citing the first segment of the run, followed by a sentence without citation."""
    contexts = sample.read_contexts(Setting.FULL_RAG)
    answers = []
    for task in sample.tasks:
        ids = tuple(passage.passage_id for passage in contexts.passages[task.task_id])
        stated = [CitedSentence(f"{nugget['text']}.", (0, 3)) for nugget in task.extra["nuggets"][::2]]
        answers.append(
            CitedAnswer("demo", task.task_id, task.question, ids, (*stated, CitedSentence("Much more is known.")))
        )
    return answers


def rows_in(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_the_files_contain_verdicts_and_scores(sample: Benchmark, tmp_path: Path) -> None:
    tasks = {task.task_id: task for task in sample.tasks}
    answers = answers_to(sample)
    segments = load_segments(SAMPLE, first_cited(answers))
    assert len(segments) == 8  # one per topic with nuggets: other answers cite nothing
    scored = score_answers(answers, tasks, segments, judging())
    paths = write_scores(tmp_path, scored)
    assert [path.name for path in paths] == ["assignments.jsonl", "metrics.jsonl", "metrics_official.jsonl"]

    assigned = read_assignments(tmp_path / "assignments.jsonl")
    assert [item.nuggets.topic_id for item in assigned] == [task.task_id for task in sample.tasks[:8]]
    *rows, mean = rows_in(tmp_path / "metrics.jsonl")
    for answer, assignment, row in zip(answers, assigned, rows, strict=False):
        shares = [overlap(nugget.text, answer.text) for nugget in assignment.nuggets.nuggets]
        expected = [
            Grade.SUPPORT if share > 0.8 else Grade.PARTIAL_SUPPORT if share > 0.4 else Grade.NOT_SUPPORT
            for share in shares
        ]
        assert list(assignment.grades) == expected
        scores = nugget_scores([nugget.importance for nugget in assignment.nuggets.nuggets], expected)
        assert {name: row[name] for name in scores} == {name: score.value for name, score in scores.items()}
        levels = [overlap(item.text, segments[answer.references[0]].text) for item in answer.sentences[:-1]]
        weights = [1.0 if share > 0.8 else 0.5 if share > 0.4 else 0.0 for share in levels]
        assert row["support_precision"] == pytest.approx(fmean(weights))
        assert row["support_recall"] == pytest.approx(sum(weights) / (len(weights) + 1))
    assert mean["qid"] == "all"
    assert mean["all_score"] == pytest.approx(fmean(row["all_score"] for row in rows))
    official = rows_in(tmp_path / "metrics_official.jsonl")
    assert list(official[0]) == ["qid", "strict_vital_score", "strict_all_score", "vital_score", "all_score"]
    assert [row["all_score"] for row in official] == pytest.approx([row["all_score"] for row in [*rows, mean]])


def test_failed_answers_are_unscored_and_count_0_in_the_official_file(sample: Benchmark, tmp_path: Path) -> None:
    def fails_on_boats(prompt: str, _: int) -> str:
        return "Sorry." if "answer to be searched" in prompt and "rowing boat" in prompt else verdict(prompt)

    tasks = {task.task_id: task for task in sample.tasks}
    chosen = [answer for answer in answers_to(sample) if answer.topic_id in {"900101", "900102"}]
    segments = load_segments(SAMPLE, first_cited(chosen))
    scored = score_answers(chosen, tasks, segments, judging(ScriptedClient(fails_on_boats)))
    write_scores(tmp_path, scored)
    boats, trams, mean = rows_in(tmp_path / "metrics.jsonl")
    assert (boats["qid"], boats["all_score"], boats["support_precision"] is None) == ("900101", None, False)
    assert mean["all_score"] == trams["all_score"]
    assert scored.means()["all_score"] == (trams["all_score"], 1)
    assert "rowing" not in str(scored.scores[0]["all_score"].reason)
    official = rows_in(tmp_path / "metrics_official.jsonl")
    assert [row["all_score"] for row in official] == [0, trams["all_score"], trams["all_score"] / 2]
    failed = read_assignments(tmp_path / "assignments.jsonl")[0]
    assert set(failed.grades) == {None}


def test_several_judges_give_the_median_and_a_file_each(sample: Benchmark, tmp_path: Path) -> None:
    def always(label: str, name: str) -> ScriptedClient:
        def script(prompt: str, _: int) -> str:
            reply = json.loads(verdict(prompt)) if "answer to be searched" in prompt else None
            if reply is None:
                return verdict(prompt)
            return json.dumps({"id": reply["id"], "grades": dict.fromkeys(reply["grades"], label)})

        return ScriptedClient(script, name)

    clients = [always("support", "a"), always("not_support", "b"), always("partial_support", "c")]
    tasks = {task.task_id: task for task in sample.tasks}
    chosen = answers_to(sample)[:2]
    scored = score_answers(chosen, tasks, load_segments(SAMPLE, first_cited(chosen)), judging(*clients))
    paths = write_scores(tmp_path, scored)
    assert [path.name for path in paths[:3]] == [f"assignments_{n}.jsonl" for n in (1, 2, 3)]
    assert {row["all_score"] for row in rows_in(tmp_path / "metrics.jsonl")} == {0.5}
    assert {row["strict_all_score"] for row in rows_in(tmp_path / "metrics.jsonl")} == {0}


def test_nuggets_are_created_for_topics_without_any_and_read_back(sample: Benchmark, tmp_path: Path) -> None:
    bare = [task for task in sample.tasks if not task.extra["nuggets"]]
    contexts = sample.read_contexts(Setting.FULL_RAG)
    made, unanswered = create_nuggets(
        pool(bare, contexts.passages, retrieval_side("trec_rag24").load_qrels(SAMPLE, "researchy")), judging()
    )
    write_nuggets(tmp_path / "n.jsonl", made)
    nuggets = read_nuggets(tmp_path / "n.jsonl")
    assert (list(nuggets), unanswered) == (["900201", "900202"], [])
    assert list(nuggets.values()) == made
    for task, topic in zip(bare, made, strict=True):
        heads = {
            (passage.title + "\n" + passage.text).split(". ")[0].replace("\n", " ")
            for passage in contexts.passages[task.task_id]
        }
        assert {nugget.text for nugget in topic.nuggets} == heads
        assert topic.nuggets[0].importance is Importance.VITAL
        assert with_nuggets(task, topic).extra["nuggets"][0]["text"] == topic.nuggets[0].text
        assert with_nuggets(task, None) is task


def test_segments_judged_irrelevant_are_excluded_and_unjudged_segments_included() -> None:
    task = response(task_id="1").task
    passages = {"1": tuple(Passage(name, name) for name in "abcd")}
    qrels = [Qrel("1", "a", 1), Qrel("1", "b", 2), Qrel("2", "c", 0), Qrel("1", "d", 0)]
    (pooled,) = pool([task], passages, qrels)
    assert [passage.passage_id for passage in pooled.passages] == ["b", "c"]
    (empty,) = pool([task], {}, [])
    assert create_nuggets([empty], judging()) == ([], ["1"])


def test_a_topic_without_a_reply_stops_nugget_creation(sample: Benchmark) -> None:
    bare = [task for task in sample.tasks if not task.extra["nuggets"]]
    pooled = pool(bare, sample.read_contexts(Setting.FULL_RAG).passages, [])
    client = ScriptedClient(lambda prompt, _: "no idea" if "free buses" in prompt else verdict(prompt))
    with pytest.raises(JudgeError, match="none for 1: 900201"):
        create_nuggets(pooled, judging(client))
