from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ragtasks.cli import app
from ragtasks.errors import ConfigurationError
from ragtasks.synthesis.quality import quality_section
from tests._messages import raises
from tests.clients._server import Action, chat_server, completion
from tests.synthesis._documents import write_towns
from tests.synthesis._making import make
from tests.synthesis._scripted import script
from tests.synthesis._tiny import words_of, write_dialogues, write_encoder


def test_dialogues_are_counted_separately_and_in_total(tmp_path: Path) -> None:
    write_towns(tmp_path / "docs", 2, 8)
    with chat_server(script) as server:
        make(server.base_url, tmp_path, turns=6)
    total, each = quality_section(tmp_path / "out").tables
    rows = {str(row[0]): row[1] for row in total.rows}
    # Six pairs are written in each full dialogue and the fifth is rejected; the third and the sixth keep their form.
    assert each.rows[0][:2] == ("d1", 5)
    assert each.rows[0][5:] == ("0.40", "0.83", 3, 0)
    assert rows["turns"] == f"{sum(int(str(row[1])) for row in each.rows) / len(each.rows):.2f}"
    assert float(str(rows["alike"])) > 0.5, "the scripted model words all questions equally"
    assert rows["unanswerable"] == "0.00"
    assert next(row for row in total.rows if row[0] == "turns")[2:4] == ("7.7", "5.9")


def test_word_counts_are_listed_next_to_published_counts(tmp_path: Path) -> None:
    folder = write_dialogues(tmp_path / "b", 2)
    (folder / "synthesis").mkdir()
    removed: dict[str, list[int]] = {"c0": [], "c1": [1]}
    lines = [json.dumps({"dialogue_id": name, "removed": taken}) + "\n" for name, taken in removed.items()]
    (folder / "synthesis" / "dialogues.jsonl").write_text("".join(lines), "utf-8")
    section = quality_section(folder)
    total, each = section.tables
    assert section.provenance["dialogues"] == "2"
    assert each.columns == (
        *("dialogue", "turns", "unique passages", "question words", "answer words"),
        *("needs rewriting", "grounded", "alike", "unanswerable"),
    )
    # Questions of 7, 4 and 7 words, answers of 9, 7 and 8; the second question has a different standalone form.
    assert each.rows == (
        ("c0", 3, 3, "6.0", "8.0", "0.33", "1.00", 0, 0),
        ("c1", 3, 3, "6.0", "8.0", "0.33", "0.75", 0, 0),
    )
    assert total.columns == ("mean", "here", "MTRAG", "MTRAG-S", "OR-CONVQA paper")
    assert total.rows == (
        ("turns", "3.00", "7.7", "5.9", "14.58"),
        ("unique passages", "3.00", "16.9", "4.6", "-"),
        ("question words", "6.00", "8.6", "13.7", "-"),
        ("answer words", "8.00", "97.2", "72.4", "-"),
        ("passages a turn", "1.00", "2.8", "4.1", "1.99"),
        ("needs rewriting", "0.33", "-", "-", "0.27"),
        ("grounded", "0.86", "-", "-", "-"),
        ("alike", "0.00", "-", "-", "-"),
        ("unanswerable", "0.00", "-", "-", "-"),
    )


def test_retrieval_by_query_form_in_all_and_per_domain(tmp_path: Path) -> None:
    folder = write_dialogues(tmp_path / "b", 5)
    rows = [json.loads(line) for line in (folder / "conversations.jsonl").read_text("utf-8").splitlines()]
    domains = {f"{number}": "odd" if number % 2 else "even" for number in range(5)}
    passages = [json.loads(line) for line in (folder / "passages.jsonl").read_text("utf-8").splitlines()]
    for row in rows:
        row["domain"] = domains[row["conversation_id"][1:]]
    for row in passages:
        row["domain"] = domains[row["_id"].partition("-")[0]]
    for name, result in {"conversations.jsonl": rows, "passages.jsonl": passages}.items():
        (folder / name).write_text("".join(json.dumps(row) + "\n" for row in result), "utf-8")
    (folder / "synthesis").mkdir()
    (folder / "synthesis" / "dialogues.jsonl").write_bytes(b"")
    total, per_domain = quality_section(folder, retrievers=["bm25s"]).tables[1:3]
    values = {row[1]: float(str(row[3])) for row in total.rows if row[0] == "bm25s"}
    assert values["decontextualized"] == 1.0
    assert values["contextualized"] < values["decontextualized"], "a third of the questions name no town"
    assert total.columns == ("retriever", "query", "questions", "AP", "R@5", "R@10", "R@20")
    assert total.rows[3:] == tuple(
        (f"paper: RRF, {documents} documents", form, "-", *values.split())
        for documents, form, values in (
            ("proprietary", "context", "0.19 0.31 0.44 0.56"),
            ("proprietary", "contextualized", "0.46 0.55 0.63 0.69"),
            ("proprietary", "decontextualized", "0.50 0.60 0.67 0.73"),
            ("public", "context", "0.18 0.30 0.44 0.56"),
            ("public", "contextualized", "0.49 0.59 0.65 0.72"),
            ("public", "decontextualized", "0.54 0.63 0.71 0.77"),
        )
    )
    assert [(row[0], row[3]) for row in per_domain.rows] == [("even", 9)] * 3 + [("odd", 6)] * 3
    with pytest.raises(ConfigurationError, match="query form"):
        quality_section(folder, retrievers=["bm25s"], queries=["never"])


def standalone(text: str, _: int) -> Action:
    """Reply like a rewriter trained on these dialogues."""
    name = re.findall(r"the \w+ of \w+", text)[-1]
    words = {"how old": "how old is", "does it cost": "what costs"}
    question = next((f"{begin} {name}" for phrase, begin in words.items() if phrase in text), f"when is {name} open")
    return completion(json.dumps({"class": "non-standalone", "reworded version": question}))


def with_dialogues(folder: Path, n: int = 6) -> Path:
    write_dialogues(folder, n)
    (folder / "synthesis").mkdir()
    (folder / "synthesis" / "dialogues.jsonl").write_bytes(b"")
    return folder


def printed(*arguments: object) -> str:
    done = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert done.exit_code == 0, done.output
    return done.stdout


@pytest.mark.slow
def test_retrieval_by_fused_retrievers_and_forms_with_a_rewriter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAGTASKS_RUNS", str(tmp_path / "store"))
    folder = with_dialogues(tmp_path / "b")
    fused = f"hybrid(bm25s,dense:{write_encoder(tmp_path / 'encoder', words_of(folder))})"
    forms = ["contextualized", "llm_rewrite", "last_turn/rewrite"]
    options = [part for form in forms for part in ("--queries", form)]
    with chat_server(standalone) as server:
        asking = [
            "review",
            "quality",
            folder,
            "--format",
            "json",
            "--rewriter",
            f"small,base_url={server.base_url}",
            *options,
        ]
        (section,) = json.loads(printed(*asking, "--retriever", "bm25s", "--retriever", fused))
        n_asked = len(server.asked)
        (again,) = json.loads(printed(*asking, "--retriever", "bm25s"))
        assert len(server.asked) == n_asked, "replies are cached for all retrievers and later calls"
    table, second_table = (printed_section["tables"][1] for printed_section in (section, again))
    rows = {(row["retriever"], row["query"]): float(row["AP"]) for row in table["rows"] if row["questions"] != "-"}
    assert list(rows) == [(line, form) for line in ("bm25s", fused) for form in forms]
    assert rows["bm25s", "contextualized"] < rows["bm25s", "llm_rewrite"] == 1.0
    assert rows["bm25s", "contextualized"] < rows["bm25s", "last_turn/rewrite"]
    assert second_table["rows"][:3] == table["rows"][:3]
    published = [row["query"] for row in table["rows"] if row["questions"] == "-"]
    assert published == ["contextualized", "llm_rewrite (T5)"] * 2


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (("--queries", "context"), "add --retriever"),
        (("--retriever", "bm25", "--rewriter", "openai/x"), "add --queries llm_rewrite"),
        (("--retriever", "bm25s", "--queries", "llm_rewrite"), "needs a model: --rewriter"),
        (("--retriever", "fuse(bm25)"), "fuse"),
        (("--retriever", "hybrid(bm25s)"), "two or more"),
    ],
)
def test_an_impossible_search_is_one_clear_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], expected: str
) -> None:
    monkeypatch.setenv("RAGTASKS_RUNS", str(tmp_path / "store"))
    done = CliRunner().invoke(app, ["review", "quality", str(with_dialogues(tmp_path / "b")), *options])
    assert isinstance(done.exception, ConfigurationError)
    assert expected in str(done.exception)


def test_a_folder_without_a_synthesis_is_one_clear_error(tmp_path: Path) -> None:
    with raises(ConfigurationError):
        quality_section(write_dialogues(tmp_path / "b"))
