"""A custom benchmark from an empty folder: the complete tutorial, and the tasks on the sample."""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ragtasks.benchmarks import BUILT_IN_RUN, benchmark_folder, custom, open_benchmark
from ragtasks.harness.conversation_task import ConversationTask
from ragtasks.records import Setting
from tests._commands import run_command
from tests.judges._demo import DemoServer

TUTORIAL = Path(__file__).resolve().parents[2] / "docs" / "bring-your-own.md"
TASKS = ("custom_reference", "custom_full_rag")
ROUNDING = 0.002
"""Encoder-based scores differ in the last digits between machines."""

_BLOCK = re.compile(r"```(sh|text)\n(.*?)\n```", re.DOTALL)
_PIECE = re.compile(r"(\d+\.\d{3,4})|\s+")


@dataclass(frozen=True)
class Step:
    """Some commands of the tutorial, with their documented output."""

    commands: str
    printed: str


def steps() -> Iterator[Step]:
    blocks = [match.groups() for match in _BLOCK.finditer(TUTORIAL.read_text(encoding="utf-8"))]
    for index, (kind, content) in enumerate(blocks):
        if kind == "sh":
            after = blocks[index + 1] if index + 1 < len(blocks) else ("sh", "")
            yield Step(content.replace("\\\n", " "), after[1] if after[0] == "text" else "")


def agrees(printed: str, found: str) -> bool:
    """Return whether a text matches the documented output. A cut (`[...]`) matches any text.

    The last digit of a score may differ.
    """
    *parts, last = printed.split("[...]")
    position = 0
    for part, end in [*((part, "") for part in parts), (last, r"\s*\Z")]:
        pattern, scores = _pattern(part)
        match = re.compile(pattern + end).search(found, position)
        if match is None or [float(text) for text in match.groups()] != pytest.approx(scores, abs=ROUNDING):
            return False
        position = match.end()
    return True


def _pattern(part: str) -> tuple[str, list[float]]:
    """Return the regular expression for a text without cuts, and the scores in the text."""
    pattern, scores, end = "", [], 0
    for match in _PIECE.finditer(part):
        pattern += re.escape(part[end : match.start()]) + (r"(\d+\.\d+)" if match[1] else r"\s+")
        scores += [float(match[1])] if match[1] else []
        end = match.end()
    return pattern + re.escape(part[end:]), scores


def test_the_output_comparison_detects_differences() -> None:
    assert agrees("a 0.7403 [...] b [...]", "more\na 0.7404 x y  b and more")
    assert agrees("a b", "a  b\n")
    for printed, found in (("a 0.740 [...] b", "a 0.750 c b"), ("a b", "a"), ("a b", "a b c"), ("a [...] b", "a c")):
        assert not agrees(printed, found)


@pytest.mark.slow
def test_every_command_of_the_tutorial_prints_the_documented_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RAGTASKS_RUNS", str(tmp_path / "runs"))  # effect of its `export`
    walked = []
    for step in steps():
        if not step.commands.startswith("ragtasks"):
            custom._benchmark._valid_folder.cache_clear()  # a shell would start a new process
            open_benchmark.cache_clear()
            subprocess.run(["bash", "-ec", step.commands], check=True)
            continue
        done = run_command(*shlex.split(step.commands)[1:])
        failed = step.printed.startswith(("ragtasks: ", "handbook: 3 errors"))
        assert done.status == int(failed), done.err
        shown = done.err if step.printed.startswith("ragtasks: ") else done.out
        assert agrees(step.printed, shown), f"{step.commands}\n{shown}"
        walked.append(step.commands.split()[1])
    assert walked == ["check", "check", "run", "run", "retrieve", "evaluate-run", "run", "report", "run"]


def test_the_sample_runs_unchanged(evaluate: Callable[..., dict[str, Any]]) -> None:
    results = evaluate("ragtasks-oracle", *TASKS, limit=None)
    for task in TASKS:
        assert results["results"][task]["rouge_l,sample"] == 1
        assert results["results"][task]["ans_acc,sample"] == 1
        assert results["n-samples"][task]["effective"] == 9  # the conversational turn is left out
    refused = evaluate("ragtasks-refuse", "custom_full_rag", limit=None)["results"]["custom_full_rag"]
    assert refused["idk_yes,sample"] == 1
    assert refused["ans_acc,sample"] == pytest.approx(1 / 9)


def test_judges_work_as_for_any_benchmark(
    evaluate: Callable[..., dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAGTASKS_RUNS", str(tmp_path))
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    with DemoServer() as server:
        metadata = {"judges": [server.judge("steady")]}
        scores = evaluate("ragtasks-oracle", "custom_full_rag", metadata=metadata, limit=None)["results"]
        assert server.asked
    assert scores["custom_full_rag"]["judge_coverage,sample"] > 0.9
    assert 0 < scores["custom_full_rag"]["rb_llm,sample"] <= 1


def test_docs_name_the_source_of_their_passages(load_task: Callable[..., ConversationTask]) -> None:
    reference, full_rag = (list(load_task(name).dataset["test"]) for name in TASKS)
    assert {doc["run"] for doc in reference} == {"references"}
    assert {doc["run"] for doc in full_rag} == {BUILT_IN_RUN}
    assert {doc["domain"] for doc in full_rag} == {"lending", "workshop"}
    assert all([passage["passage_id"] for passage in doc["passages"]] == doc["references"] for doc in reference)
    assert all(len(doc["passages"]) == 5 for doc in full_rag)


def test_conversational_questions_are_included_on_request(load_task: Callable[..., ConversationTask]) -> None:
    assert len(load_task("custom_reference", conversational=True).dataset["test"]) == 10


def test_the_sample_is_marked_and_parses_its_own_words() -> None:
    benchmark = open_benchmark("custom", benchmark_folder("custom", "sample", Path()).resolve())
    assert benchmark.label == "custom (sample)"
    by_id = {task.task_id: task for task in benchmark.tasks}
    third = by_id["loans-1<::>3"]
    assert [message.text for message in third.messages][::2] == [
        by_id["loans-1<::>1"].question,
        by_id["loans-1<::>2"].question,
        "Do you sell used drills too?",
    ]
    assert [message.text for message in third.messages][1::2] == [
        by_id["loans-1<::>1"].target,
        by_id["loans-1<::>2"].target,
    ]
    assert benchmark.read_contexts(Setting.REFERENCE).passages["loans-1<::>3"] == ()
