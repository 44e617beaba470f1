"""`ragtasks score`: own rows, distinguished from answers and results."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from openinference.instrumentation import TracerProvider
from opentelemetry.exporter.otlp.json.file import FileSpanExporter
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

from ragtasks.benchmarks import benchmark_folder
from ragtasks.results import read_evaluations
from tests._commands import run_command
from tests.clients._server import ChatServer, closed_port
from tests.judges._demo import QUICK, DemoServer

ROWS: list[dict[str, Any]] = [
    {
        "question": "How long may I keep a book?",
        "answer": "Books are lent for three weeks.",
        "contexts": ["Books are lent for three weeks."],
        "reference": "Three weeks.",
    },
    {
        "question": "May I renew it?",
        "answer": "Yes, twice.",
        "contexts": [{"id": "p2", "text": "You may renew twice."}],
    },
    {"question": "What does a card cost?", "answer": "I don't know.", "contexts": ["The library opens at nine."]},
    {"question": "Is there a laser cutter?", "answer": "Yes, on the second floor.", "contexts": []},
    {"question": "Who may use it?", "answer": "Every member over sixteen."},
]

Ask = Callable[..., tuple[int, str, str]]


@pytest.fixture
def ask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ask:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RAGTASKS_RUNS", str(tmp_path / "store"))

    def ended(*arguments: str) -> tuple[int, str, str]:
        done = run_command("score", *arguments)
        return done.status, done.out, done.err

    return ended


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    return write(tmp_path / "mine.jsonl", ROWS)


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    return path


def test_five_rows_are_scored_without_a_benchmark(ask: Ask, rows: Path, tmp_path: Path) -> None:
    status, out, _ = ask(rows.name, "--encoder", "none")
    assert status == 0
    lines = {line.split("|")[1].strip(): line.split("|")[2].strip() for line in out.splitlines() if line[:1] == "|"}
    assert lines["k_precision"] == "0.500 (3/5)"
    assert lines["rouge_l"] == "0.500 (1/5)"
    assert lines["idk_yes"] == "0.200"
    assert "Fewer than 10 conversations, so no intervals: 5 " in out
    assert "contexts: 1 of 5 answers have no passages" in out
    assert "contexts: 1 of 5 answers have no `contexts`" in out
    (evaluation,) = read_evaluations([tmp_path / "results"])
    assert (evaluation.model, evaluation.kind[0], evaluation.suite, len(evaluation.rows)) == ("mine", "rows", "rows", 5)


@pytest.mark.slow
def test_the_rows_of_the_documentation_have_the_scores_that_it_shows(ask: Ask, tmp_path: Path) -> None:
    text = (Path(__file__).resolve().parents[2] / "docs" / "score-your-system.md").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if line.startswith('{"question"')]
    assert len(lines) == 5
    (tmp_path / "rows.jsonl").write_text("\n".join(lines), encoding="utf-8")
    _, out, _ = ask("rows.jsonl")
    table = text.partition("The first command prints")[2].split("```")[1].strip()
    assert table in out


def test_commands_read_the_saved_results(
    ask: Ask, rows: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path / "other.jsonl", [{**row, "answer": "Twice."} for row in ROWS])
    assert ask("mine.jsonl", "other.jsonl", "--encoder", "none", "--metadata", "max_implausible=1")[0] == 0
    capsys.readouterr()
    for command, shown in ((["report", "results"], "| other |"), (["results", "list", "results"], "mine")):
        done = run_command(*command)
        assert done.status == 0
        assert shown in done.out
    done = run_command("compare", "results/mine", "results/other", "--metric", "k_precision")
    assert done.status == 0
    assert "k_precision" in done.out


def test_intervals_come_with_ten_conversations(ask: Ask, tmp_path: Path) -> None:
    found = [{**row, "id": f"{place}-{n}"} for n in range(2) for place, row in enumerate(ROWS)]
    write(tmp_path / "ten.jsonl", found)
    _, out, _ = ask("ten.jsonl", "--encoder", "none", "--metadata", "max_implausible=1")
    assert "so no intervals" not in out
    assert "| idk_yes " in out
    assert "0.200 [0." in out


def test_judges_score_rows_equally_now_or_later(ask: Ask, rows: Path, tmp_path: Path) -> None:
    with DemoServer() as server:
        judge = json.dumps(server.judge("steady"))
        assert ask("mine.jsonl", "--encoder", "none", "--judge", judge, "--output", "now")[0] == 0
        n_asked = len(server.asked)
        assert ask("mine.jsonl", "--encoder", "none", "--output", "plain")[0] == 0
        status, out, _ = ask("plain", "--judge", judge, "--output", "later")
        assert status == 0
        assert "next: ragtasks report later --html page.html" in out
        assert len(server.asked) == n_asked + 1  # the connection test; everything else is cached by equal text
    (now,), (later,) = (read_evaluations([tmp_path / name]) for name in ("now", "later"))
    assert [row.values for row in now.rows] == [row.values for row in later.rows]
    assert now.revision == later.revision
    assert [row.values["rl_f_raw"] for row in now.rows[:1]] == [1.0]
    assert [row.unscored.get("rl_f_raw", "") for row in now.rows[4:]] == ["steady: no contexts in the row"]


def test_the_same_command_continues_when_the_judges_server_runs(ask: Ask, rows: Path) -> None:
    port = closed_port()
    judge = json.dumps({"model": "steady", "base_url": f"http://127.0.0.1:{port}/v1", **QUICK})
    line = ("mine.jsonl", "--encoder", "none", "--judge", judge, "--no-probe", "--output", "now")
    status, _, err = ask(*line)
    assert (status, "next step: start the server" in err) == (1, True)
    with ChatServer(DemoServer()._script("steady"), port).running():
        assert ask(*line)[0] == 0
    assert "--force" in ask(*line)[2], "they are complete now"


def test_the_same_command_continues_with_saved_answers(ask: Ask, rows: Path) -> None:
    port = closed_port()
    judge = json.dumps({"model": "steady", "base_url": f"http://127.0.0.1:{port}/v1", **QUICK})
    assert ask("mine.jsonl", "--encoder", "none", "--output", "plain")[0] == 0
    line = ("plain", "--judge", judge, "--no-probe", "--output", "judged")
    assert ask(*line)[0] == 1
    with ChatServer(DemoServer()._script("steady"), port).running():
        assert ask(*line)[0] == 0


@pytest.mark.slow
def test_saved_answers_are_scored_again_with_their_own_data(
    ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tmp_path / "own"
    monkeypatch.setenv("RAGTASKS_DATA", str(own))
    shutil.copytree(benchmark_folder("custom", "sample", Path()), own)
    (own / "sample.json").unlink()
    for name, task, data in (("a", "custom_reference", []), ("b", "mtrag_reference_fiqa", ["--data", "sample"])):
        arguments = ["--model", "ragtasks-oracle", "--tasks", task, *data, "--encoder", "none"]
        done = run_command("run", *arguments, "--output", tmp_path / "saved" / name)
        assert done.status == 0
    with DemoServer() as server:
        status, _, err = ask("saved", "--judge", json.dumps(server.judge("steady")), "--output", "judged")
    assert status == 0, err
    assert len(read_evaluations([tmp_path / "judged"])) == 2


def test_unused_keys_are_named(ask: Ask, tmp_path: Path) -> None:
    write(tmp_path / "mine.jsonl", [{**row, "refrence": "x"} for row in ROWS])
    status, _, err = ask("mine.jsonl", "--encoder", "none")
    assert status == 0
    assert "not read: refrence (5 rows; did you mean 'reference'?)" in err


def test_named_keys_are_read_from_the_command_line_and_from_a_file(ask: Ask, rows: Path, tmp_path: Path) -> None:
    nested = [{"q": {"text": row["question"]}, "a": row["answer"], "contexts": row.get("contexts")} for row in ROWS]
    (tmp_path / "other.json").write_text(json.dumps({"results": nested}, indent=1), encoding="utf-8")
    status, _, err = ask("other.json", "--encoder", "none")
    assert status == 1
    (line,) = re.findall(r"`ragtasks score other.json (--keys [^ ]+)`", err)
    assert line == "--keys question=q.text,answer=a"
    assert ask("other.json", "--encoder", "none", *line.split())[0] == 0
    file = (
        "answers: {file: other.json, keys: {question: q.text, answer: a}}\noutput: by-file\noptions: {encoder: none}\n"
    )
    (tmp_path / "evaluation.yaml").write_text(file, encoding="utf-8")
    assert run_command("eval", "evaluation.yaml").status == 0
    assert ask("mine.jsonl", "--encoder", "none")[0] == 0
    found = [read_evaluations([tmp_path / name])[0] for name in ("results/other", "by-file", "results/mine")]
    first, *others = [[row.values["k_precision"] for row in one.rows] for one in found]
    assert others == [first, first]


def test_the_name_of_a_file_has_no_effect(ask: Ask, rows: Path, tmp_path: Path) -> None:
    name = "results_ag_2026.json"
    shutil.copy(rows, tmp_path / name)
    assert ask(name, "--encoder", "none", "--output", "first")[0] == 0
    (saved,) = (tmp_path / "first").rglob("results_*.json")
    (tmp_path / "mine.txt").write_bytes(saved.read_bytes())
    assert "keeps their names and requires another folder" in ask("mine.txt")[2]
    assert run_command("check", str(saved)).status == 0


def test_predictions_for_mtrag_need_no_benchmark(ask: Ask, tmp_path: Path) -> None:
    turns = [{"speaker": "user", "text": "How far is it?"}]
    row = {"task_id": "sample-clapnq-01<::>1", "input": turns, "contexts": [], "predictions": [{"text": "Two miles."}]}
    write(tmp_path / "p.jsonl", [row])
    status, out, _ = ask("p.jsonl", *("--data", "sample", "--setting", "full_rag", "--encoder", "none"))
    assert status == 0
    assert "results_p-mtrag-full-rag-sample.json" in out


def test_rows_without_question_answer_the_default_benchmark(ask: Ask, tmp_path: Path) -> None:
    write(tmp_path / "answers.jsonl", [{"id": "sample-clapnq-01<::>1", "answer": "Two miles."}])
    status, out, _ = ask(
        "answers.jsonl",
        "--data",
        "sample",
        "--setting",
        "reference",
        "--encoder",
        "none",
        "--metadata",
        "max_implausible=1",
    )
    assert status == 0
    assert "mtrag (sample)" in out
    assert "results_answers-mtrag-reference-sample.json" in out, "scores of the real data have a file of their own"


def test_an_unknown_file_gets_both_hints(ask: Ask, tmp_path: Path) -> None:
    write(tmp_path / "answers.jsonl", [{"answer": "Two miles."}])
    status, _, err = ask("answers.jsonl", "--data", "sample")
    assert status == 1
    assert "or `id` and `answer` (to the tasks of a benchmark), found" in err
    assert '"question"' in err


def test_traces_are_rows(ask: Ask, tmp_path: Path) -> None:
    provider = TracerProvider()
    with (tmp_path / "spans.jsonl").open("w", encoding="utf-8", buffering=1) as stream:
        provider.add_span_processor(SimpleSpanProcessor(FileSpanExporter(stream=stream)))
        tracer = provider.get_tracer("test")
        for place, row in enumerate(ROWS[:3] * 8):
            with tracer.start_as_current_span("rag", openinference_span_kind="chain") as chain:
                chain.set_input(row["question"])
                chain.set_attribute("session.id", f"session-{place // 2}")
                with tracer.start_as_current_span("find", openinference_span_kind="retriever") as retriever:
                    for number, item in enumerate(row["contexts"]):
                        text = item if isinstance(item, str) else item["text"]
                        retriever.set_attribute(f"retrieval.documents.{number}.document.content", text)
                with tracer.start_as_current_span("model", openinference_span_kind="llm") as model:
                    model.set_attribute("llm.token_count.completion", 10 * (place % 3 + 1))
                chain.set_output(row["answer"])
        with tracer.start_as_current_span("rag", openinference_span_kind="chain") as chain:
            chain.set_input("what failed")
    options = ("--encoder", "none", "--metadata", "max_implausible=1")
    status, out, err = ask("spans.jsonl", *options)
    assert status == 0
    assert "1 traces without an answer: " in err
    (written_rows,) = (tmp_path / "results" / "spans").rglob("rows.jsonl")
    assert f"wrote {written_rows.relative_to(tmp_path)} (24 rows)" in out
    written_rows.rename(tmp_path / "rows.jsonl")
    scores = {line.split("|")[1].strip(): line.split("|")[2].strip() for line in out.splitlines() if line[:1] == "|"}
    assert scores["k_precision"].startswith("0.500 [")  # twelve conversations suffice for an interval
    assert scores["output_tokens"].startswith("20.000 [")
    assert float(scores["seconds"].split()[0]) < 1
    assert "input_tokens" not in scores
    assert ask("rows.jsonl", *options)[0] == 0
    (traced,), (written,) = (read_evaluations([tmp_path / "results" / name]) for name in ("spans", "rows"))
    assert [row.values for row in traced.rows] == [row.values for row in written.rows]
    assert {row.task.turn for row in traced.rows} == {1, 2}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["mine.jsonl", "http://127.0.0.1:1"], "an address must be the only argument"),
        (["mine.jsonl", "--setting", "reference"], "--setting: your own rows contain their contexts"),
        (["mine.jsonl", "--data", "sample"], "--data: your own rows"),
        (["mine.jsonl", "mine.jsonl", "--name", "x"], "--name: requires a single file"),
        (["."], "Next step: ragtasks score . --output again"),
        ([".", "--output", "again", "--keys", "answer=a"], "Next step: ragtasks score . --output again"),
        (["http://127.0.0.1:1", "--keys", "answer=a"], "--keys: applies to files only"),
        (["mine.jsonl", "--keys", "anwser=a"], "did you mean 'answer'?"),
        (["mine.jsonl", "--metadata", "nuggets=x"], "unknown option: 'nuggets'"),
        (["nowhere.jsonl"], "nowhere.jsonl"),
    ],
)
def test_contradictory_arguments_are_refused(ask: Ask, rows: Path, arguments: list[str], said: str) -> None:
    status, _, err = ask(*arguments)
    assert status == 1
    assert said in err
