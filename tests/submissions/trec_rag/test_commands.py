"""TREC RAG's commands as users call them, and the preceding harness task. A real server judges over HTTP."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from lm_eval import simple_evaluate
from lm_eval.tasks import TaskManager

from ragtasks.benchmarks import benchmark_folder
from ragtasks.harness.models import Extractive, Oracle, Refuse
from ragtasks.harness.tasks import task_folder
from tests._commands import run_command
from tests.clients._server import ChatServer, completion
from tests.submissions.trec_rag._judge import verdict

SAMPLE = benchmark_folder("trec_rag24", "sample", Path())
Command = Callable[..., tuple[int, str]]
TASKS = ["trec_rag24", "trec_rag24_raggy", "trec_rag24_researchy"]


class Cited(Extractive):
    """Returns the first sentence of the first two passages with citations, and an unsupported sentence."""

    def generate_until(self, requests: list[Any], disable_tqdm: bool = False) -> list[str]:
        firsts = [[row["text"].split(". ")[0] for row in request.doc["passages"][:2]] for request in requests]
        return [f"{first} [1]. {second} [2]. Moons sing [77]." for first, second in firsts]


@pytest.fixture
def judge(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[dict[str, Any]]:
    monkeypatch.setenv("RAGTASKS_RUNS", str(tmp_path / "store"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("TOKENIZERS_PARALLELISM", "false")
    with ChatServer(lambda prompt, _: completion(verdict(prompt))).running() as server:
        yield {"model": "words", "base_url": server.base_url}


@pytest.fixture
def command() -> Command:
    def run(*arguments: str) -> tuple[int, str]:
        done = run_command(*arguments, "--data", "sample")
        return done.status, done.out + done.err

    return run


def evaluated(model: Any, tasks: list[str] = TASKS, **metadata: Any) -> dict[str, Any]:
    manager = TaskManager(include_path=task_folder(), include_defaults=False, metadata={"data": "sample", **metadata})
    return dict(simple_evaluate(model, tasks=tasks, task_manager=manager, bootstrap_iters=0))


def scores(results: dict[str, Any], task: str) -> dict[str, float]:
    rows = results["results"][task].items()
    return {key.partition(",")[0]: value for key, value in rows if "," in key and "_stderr" not in key}


@pytest.mark.slow
def test_without_judges_only_counted_scores_exist() -> None:
    counted = ["citation_validity", "cited_sentences", "within_length", "response_length", "idk_yes", "empty"]
    counted += ["grounded", "copied", "cited_precision", "cited_recall", "n_citations", "n_statements"]
    counted += [f"cited_{kind}" for kind in ("right", "other_passage", "unsupported", "never_shown", "missing")]
    for model, idk in ((Oracle(), 0), (Refuse(), 1)):
        values = scores(evaluated(model), "trec_rag24")
        assert set(values) == set(counted)
        assert (values["idk_yes"], values["empty"], values["within_length"]) == (idk, 0, 1)


def test_the_oracle_contains_every_nugget_and_a_refusal_none(judge: dict[str, Any]) -> None:
    oracle, refuse = (evaluated(model, judges=[judge]) for model in (Oracle(), Refuse()))
    for name in ("strict_vital_score", "all_score", "weighted_score"):
        assert scores(oracle, "trec_rag24")[name] == 1
        assert scores(refuse, "trec_rag24")[name] == 0
        assert scores(refuse, "trec_rag24_raggy")[name] == 0
    unasked = scores(oracle, "trec_rag24_researchy")
    assert unasked["all_score"] != unasked["all_score"]  # topics without nuggets have no score
    assert unasked["judge_coverage"] == 1
    sample = oracle["samples"]["trec_rag24_researchy"][0]["doc"]["scoring"]
    assert "the topic has no nuggets" in sample["unscored"]["all_score"]
    assert scores(oracle, "trec_rag24")["support_recall"] == 0  # no citations


def test_citations_are_judged_and_invalid_ones_counted(judge: dict[str, Any]) -> None:
    values = scores(evaluated(Cited(), ["trec_rag24"], judges=[judge]), "trec_rag24")
    assert values["citation_validity"] == pytest.approx(2 / 3)
    assert values["cited_sentences"] == pytest.approx(2 / 3)
    assert values["support_precision"] == 1
    assert values["support_recall"] == pytest.approx(2 / 3)


def test_the_prompt_contains_numbered_passages_and_requests_citations() -> None:
    results = evaluated(Oracle(), ["trec_rag24"])
    prompt = results["samples"]["trec_rag24"][0]["arguments"][0][0]
    assert "fewer than 400 words" in prompt
    assert "\nPassage 20:\n" in prompt
    assert "Passage 1:\nDrinking water in the Orsa valley\n" in prompt


def test_from_logged_answers_to_scores(judge: dict[str, Any], command: Command, tmp_path: Path) -> None:
    main_run(Cited(), tmp_path / "out")
    answers, named = tmp_path / "answers.jsonl", json.dumps(judge)
    status, message = command(
        "submit",
        "--track",
        "trec-rag",
        "--results",
        str(tmp_path / "out"),
        "--run-id",
        "demo",
        "--output",
        str(answers),
    )
    assert (status, "6 citations of unknown passages" in message) == (0, True)
    assert command("check", str(answers), "--fixed", str(tmp_path / "fixed"))[0] == 0
    written = [[json.loads(line) for line in path.read_text().splitlines()] for path in (answers, tmp_path / "fixed")]
    assert written[0] == written[1]
    assert (tmp_path / "fixed").read_text().isascii()

    status, message = command("score", str(answers), "--judge", named, "--output", str(tmp_path / "scores"))
    assert status == 0
    assert "6 of 6 answers are to topics with nuggets" in message
    mean = json.loads((tmp_path / "scores/metrics.jsonl").read_text().splitlines()[-1])
    harness = scores(evaluated(Cited(), ["trec_rag24"], judges=[judge]), "trec_rag24")
    assert {name: harness[name] for name in mean if name != "qid"} == pytest.approx(
        {name: value for name, value in mean.items() if name != "qid"}
    )

    answers.write_text(answers.read_text().replace('"citations": [0]', '"citations": [20]'))
    status, message = command("check", str(answers))
    assert (status, "problem citation: 6 times" in message) == (1, True)
    status, message = command("score", str(answers), "--judge", named, "--output", str(tmp_path / "none"))
    assert (status, (tmp_path / "none").exists()) == (1, False)

    options = ("--judge", named, "--output", str(tmp_path / "recall"))
    answers.write_text(answers.read_text().replace('"citations": [20]', '"citations": [0]'))
    assert command("score", str(answers), *options, "--metadata", "segments=none")[0] == 0
    alone = json.loads((tmp_path / "recall/metrics.jsonl").read_text().splitlines()[-1])
    assert alone == {**mean, "support_precision": None, "support_recall": None}

    few = tmp_path / "segments.jsonl"
    few.write_text("".join((SAMPLE / "segments/segments.jsonl").read_text().splitlines(keepends=True)[:3]))
    options = ("--metadata", f"segments={few}", "--output", str(tmp_path / "none"))
    status, message = command("score", str(answers), "--judge", named, *options)
    assert (status, "which is cited or retrieved" in message, (tmp_path / "none").exists()) == (1, True, False)


@pytest.mark.slow
def test_narratives_go_from_logged_answers_to_scores_by_part(
    judge: dict[str, Any], command: Command, tmp_path: Path
) -> None:
    main_run(Cited(), tmp_path / "out", "trec_rag25")
    answers, named = tmp_path / "answers.jsonl", json.dumps(judge)
    arguments_2025 = (
        "submit",
        "--track",
        "trec-rag",
        "--results",
        str(tmp_path / "out"),
        "--run-id",
        "demo",
        "--output",
        str(answers),
        "--set",
        "narratives",
    )
    status, message = command(*arguments_2025)
    assert (status, "--team-id" in message, answers.exists()) == (1, True, False)
    assert command(*arguments_2025, "--team-id", "mine")[0] == 0
    row = json.loads(answers.read_text().splitlines()[0])
    assert (row["metadata"]["team_id"], row["metadata"]["narrative_id"]) == ("mine", "301")
    assert command("check", str(answers), "--set", "narratives")[0] == 0

    options = ("--judge", named, "--output", str(tmp_path / "scores"), "--metadata", "topics=narratives")
    status, message = command("score", str(answers), *options)
    assert (status, "3 of 4 answers are to topics with nuggets" in message) == (0, True)
    mean = json.loads((tmp_path / "scores/metrics.jsonl").read_text().splitlines()[-1])
    harness = scores(evaluated(Cited(), ["trec_rag25"], judges=[judge]), "trec_rag25")
    assert 0 < mean["sub_narrative_score"] < mean["sub_narratives_answered"] + 0.5
    assert {name: harness[name] for name in mean if name != "qid"} == pytest.approx(
        {name: value for name, value in mean.items() if name != "qid"}
    )
    rows = [json.loads(line) for line in (tmp_path / "scores/sub_narratives.jsonl").read_text().splitlines()]
    assert [row["n_nuggets"] for row in rows if row["qid"] == "301"] == [3, 2, 2, 1]
    oracle = scores(evaluated(Oracle(), ["trec_rag25"], judges=[judge]), "trec_rag25")
    assert (oracle["sub_narrative_score"], oracle["sub_narratives_answered"]) == (1, 1)


def test_nugget_recall_needs_no_texts_of_segments(judge: dict[str, Any], tmp_path: Path, capsys: Any) -> None:
    for name in ("topics", "nuggets"):
        shutil.copytree(SAMPLE / name, tmp_path / "data" / name)
    shutil.copy(SAMPLE / "sample.json", tmp_path / "data")
    topic, text = (SAMPLE / "topics/topics.rag24.test.txt").read_text().splitlines()[0].split("\t")
    sentences = [{"text": "Rain fell.", "citations": [0]}]
    row = {"run_id": "r", "topic_id": topic, "topic": text, "references": ["msmarco_v2.1_doc_00_0#0_0"]}
    answers = tmp_path / "answers.jsonl"
    answers.write_text(json.dumps({**row, "response_length": 2, "answer": sentences}))
    options = ["--judge", json.dumps(judge), "--output", str(tmp_path / "out"), "--data", str(tmp_path / "data")]
    done = run_command("score", answers, *options)
    assert done.status == 0
    assert "support is not judged: no segment texts" in done.out
    mean = json.loads((tmp_path / "out/metrics.jsonl").read_text().splitlines()[-1])
    assert (mean["all_score"] is None, mean["support_recall"]) == (False, None)


def main_run(model: Any, output: Path, task: str = "trec_rag24") -> None:
    """Evaluate and log like the harness with --output_path."""
    from lm_eval.loggers import EvaluationTracker

    tracker = EvaluationTracker(output_path=str(output))
    manager = TaskManager(include_path=task_folder(), include_defaults=False, metadata={"data": "sample"})
    results = simple_evaluate(model, tasks=[task], task_manager=manager, evaluation_tracker=tracker)
    samples = results.pop("samples")
    tracker.save_results_aggregated(results=results, samples=samples)
    for name in samples:
        tracker.save_results_samples(task_name=name, samples=samples[name])


def test_nuggets_are_created_by_command_and_used_for_scoring(
    judge: dict[str, Any], command: Command, tmp_path: Path
) -> None:
    target, named = tmp_path / "nuggets.jsonl", json.dumps(judge)
    status, message = command("judges", "nuggets", "--judge", named, "--output", str(target), "--set", "researchy")
    assert (status, "for 2 topics" in message) == (0, True)
    assert {json.loads(line)["qid"] for line in target.read_text().splitlines()} == {"900201", "900202"}
    status, message = command("judges", "nuggets", "--judge", named, "--output", str(tmp_path / "none"))
    assert (status, "nothing was written" in message) == (1, True)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["judges", "nuggets", "--judge", "x,base_url=http://127.0.0.1:9/v1", "--output", "OUT", "--set", "other"],
            "no such topics",
        ),
        (["score", "FILE", "--judge", "{broken", "--output", "OUT"], "broken JSON"),
        (["check", "FILE"], "check the path"),
        (["submit", "--track", "trec-rag", "--results", "FILE", "--run-id", "x", "--output", "OUT"], "saved answers"),
    ],
)
def test_bad_input_is_one_clear_error(command: Command, tmp_path: Path, arguments: list[str], message: str) -> None:
    paths = {"FILE": str(tmp_path / "file.jsonl"), "OUT": str(tmp_path / "out")}
    status, text = command(*(paths.get(word, word) for word in arguments))
    assert status == 1
    assert message in text
    assert "Traceback" not in text
