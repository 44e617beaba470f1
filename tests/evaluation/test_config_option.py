"""`--config FILE`: the section of a command gives defaults of its options, and the command line wins."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import typer.main

from ragtasks.cli import app
from ragtasks.cli.configured import is_evaluation_file
from tests.evaluation.conftest import Command


def write(text: str) -> str:
    Path("e.yaml").write_text(text, encoding="utf-8")
    return "e.yaml"


def test_every_command_takes_it() -> None:
    def leaves(group: Any) -> list[Any]:
        found = group.commands.values()
        return [leaf for item in found for leaf in (leaves(item) if hasattr(item, "commands") else [item])]

    commands = leaves(typer.main.get_command(app))
    assert len(commands) > 40
    assert not [item.name for item in commands if sum("--config" in param.opts for param in item.params) != 1]


def test_a_section_gives_defaults_and_the_command_line_wins(command: Command) -> None:
    file = write("data: sample\nretrieve: {retriever: bm25, queries: rewrite, depth: 3, name: mine}\n")
    assert command("retrieve", "--config", file).out.startswith("run mine in ")
    assert command("retrieve", "--config", file, "--name", "other").out.startswith("run other in ")
    table = command("evaluate-run", "mine", "--config", file)
    assert table.status == 0, table.err
    assert "Retrieval on mtrag (sample)" in table.out


def test_groups_have_a_section_a_command_lists_and_flags(command: Command) -> None:
    run = ("run", "--model", "ragtasks-oracle", "--tasks", "mtrag_full_rag_govt", "--output", "out")
    assert command(*run, "--config", write("data: sample\noptions: {encoder: none}\n")).status == 0
    file = write("results: {list: {model: nobody}}\nreport: {metric: [rouge_l, ans_acc], full: true, format: csv}\n")
    assert "evaluations: 0" in command("results", "list", "out", "--config", file).out
    done = command("report", "out", "--config", file)
    assert "rouge_l in setting full_rag" in done.out
    assert "ans_acc in setting full_rag" in done.out
    assert command("report", "out", "--config", file, "--format", "markdown").out.startswith("# mtrag (sample)")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("retrieve: {qeries: rewrite}\n", "retrieve.qeries: did you mean 'queries'?"),
        ("retreive: {queries: rewrite}\n", "retreive: no such key; did you mean 'retrieve' or 'retriever'?"),
        ("retrieve: bm25\n", "retrieve: expected the command's options with values"),
    ],
)
def test_what_is_unknown_is_named_with_the_nearest(command: Command, text: str, message: str) -> None:
    done = command("retrieve", "--config", write(text))
    assert done.status == 1
    assert message in done.err


def test_run_takes_the_harness_s_arguments_from_its_section(command: Command) -> None:
    head = "data: sample\noptions: {encoder: none}\n"
    file = write(head + "run: {model: ragtasks-refuse, tasks: [mtrag_full_rag_govt], limit: 2, output_path: out}\n")
    done = command("run", "--config", file)
    assert done.status == 0, done.err
    assert "| full_rag | ragtasks-refuse | 2 |" in done.out
    assert "| ragtasks-oracle " in command("run", "--config", file, "--model", "ragtasks-oracle").out
    assert "run.limt: did you mean 'limit'?" in command("run", "--config", write("run: {limt: 2}\n")).err


def test_a_configuration_of_the_harness_stays_the_harness_s(command: Command) -> None:
    text = "model: ragtasks-oracle\ntasks: [mtrag_full_rag_govt]\nmetadata: {data: sample, encoder: none}\nlimit: 1\n"
    assert not is_evaluation_file(Path(write(text)))
    done = command("run", "--config", "e.yaml")
    assert done.status == 0, done.err
    assert "| full_rag | ragtasks-oracle | 1 |" in done.out
    assert is_evaluation_file(Path(write("model: {name: m}\ntasks: [a]\n")))
