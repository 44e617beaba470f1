"""Users' own folders: contents, every type of error by line, and the built-in search."""

from __future__ import annotations

import codecs
import json
import re
import shlex
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ragtasks.benchmarks import benchmark_folder, bm25_rankings, custom
from ragtasks.benchmarks.custom import check_folder
from ragtasks.benchmarks.download import fetch
from ragtasks.errors import BenchmarkFileError, CacheError, ConfigurationError
from ragtasks.files import read_run
from ragtasks.records import Answerability, Contexts, Passage, Qrel, Role, Setting
from ragtasks.tables import Format, render
from tests._commands import run_command
from tests._messages import same_message

SAMPLE = benchmark_folder("custom", "sample", Path())
IN_A_FOLDER = settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])

Row = dict[str, Any]


def passage(passage_id: str, text: str = "some words", **more: Any) -> Row:
    return {"_id": passage_id, "text": text, **more}


def turn(question: str = "What?", answer: str = "That.", **more: Any) -> Row:
    return {"question": question, "answer": answer, **more}


def conversation(conversation_id: str, *turns: Row, **more: Any) -> Row:
    return {"conversation_id": conversation_id, "turns": list(turns), **more}


@dataclass
class Files:
    """A folder under construction: two conversations about three passages, without errors."""

    conversations: list[Row | bytes] = field(
        default_factory=lambda: [
            conversation("c1", turn(references=["p1"]), turn("And then?", "Nothing.", answerability="unanswerable")),
            conversation("c2", turn("Why?", "Because.", references=["p2", "p3"])),
        ]
    )
    passages: list[Row | bytes] = field(default_factory=lambda: [passage("p1"), passage("p2"), passage("p3")])
    further: dict[str, bytes] = field(default_factory=dict)

    def write(self, root: Path) -> Path:
        root.mkdir(exist_ok=True)
        for name, rows in (("conversations.jsonl", self.conversations), ("passages.jsonl", self.passages)):
            lines = [row if isinstance(row, bytes) else json.dumps(row).encode() + b"\n" for row in rows]
            (root / name).write_bytes(b"".join(lines))
        for name, content in self.further.items():
            (root / name).write_bytes(content)
        return root


def problems_of(root: Path) -> list[str]:
    return custom.read_folder(root)[1]


def with_turn(**more: Any) -> Files:
    """Return a folder whose second conversation, in line 2, has a single turn with these keys."""
    files = Files()
    row = {key: value for key, value in (turn() | more).items() if value is not ...}
    files.conversations[1] = conversation("c2", row)
    return files


def with_conversation(**more: Any) -> Files:
    files = Files()
    row = {key: value for key, value in (conversation("c2", turn()) | more).items() if value is not ...}
    files.conversations[1] = row
    return files


def with_passage(**more: Any) -> Files:
    """Return a folder whose fourth passage has these keys."""
    files = Files()
    files.passages.append({key: value for key, value in (passage("p4") | more).items() if value is not ...})
    return files


def with_line(content: bytes, name: str = "conversations") -> Files:
    files = Files()
    getattr(files, name).append(content)
    return files


def with_file(name: str, content: bytes) -> Files:
    return Files(further={name: content})


PROBLEMS = {
    "not JSON": with_line(b"{broken\n"),
    "corrupt": with_line(b'{"conversation_id": "c3", "tur'),
    "no object": with_line(b"[1]\n"),
    "key twice": with_line(b'{"conversation_id": "c3", "conversation_id": "c4"}\n'),
    "NaN": with_line(b'{"turns": NaN}\n'),
    "deep": with_line(b'{"a":' * 200_000 + b"\n"),
    "half a pair": with_line(b'{"conversation_id": "\\ud800"}\n'),
    "not UTF-8": with_line(b'{"conversation_id": "\xe9"}\n'),
    "unknown key": with_conversation(turn=[]),
    "no id": with_conversation(conversation_id=...),
    "id no text": with_conversation(conversation_id=7),
    "id blank": with_conversation(conversation_id=" "),
    "id with a gap": with_conversation(conversation_id="c 2"),
    "id twice": with_conversation(conversation_id="c1"),
    "no turns": with_conversation(turns=...),
    "empty turns": with_conversation(turns=[]),
    "turn no object": with_conversation(turns=["Why?"]),
    "bad domain": with_conversation(domain="My corpus"),
    "domain without passages": with_conversation(domain="custon"),
    "turn's unknown key": with_turn(anwser="x"),
    "no question": with_turn(question=...),
    "blank question": with_turn(question="\t"),
    "no answer": with_turn(answer=...),
    "null answer": with_turn(answer=None),
    "answerability": with_turn(answerability="answerble"),
    "references no list": with_turn(references={"p1": 1}),
    "reference no text": with_turn(references=[1]),
    "reference twice": with_turn(references=["p1", "p1"]),
    "unknown reference": with_turn(references=["p-1"]),
    "references without an answer": with_turn(references=["p1"], answerability="UNANSWERABLE"),
    "question types": with_turn(question_types=5),
    "multi-turn": with_turn(multi_turn=""),
    "rewrite": with_turn(rewrite=" "),
    "passage, not JSON": with_line(b"{,}\n", "passages"),
    "passage, no id": with_passage(_id=...),
    "passage, two ids": with_passage(passage_id="p5"),
    "passage, another id": with_passage(id="p5"),
    "passage, ids of two types": with_passage(id=["p4"]),
    "passage, id with a gap": with_passage(_id="p\u00a04"),
    "passage, id twice": with_passage(_id="p2"),
    "passage, no text": with_passage(text=...),
    "passage, title": with_passage(title=["x"]),
    "passage, url": with_passage(url=3),
    "passage, domain": with_passage(domain="../x"),
    "qrels, cells": with_file("qrels.tsv", b"c1<::>1 p1\n"),
    "qrels, late header": with_file("qrels.tsv", b"c1<::>1\tp1\t1\nquery-id\tcorpus-id\tscore\n"),
    "qrels, grade": with_file("qrels.tsv", b"c1<::>1\tp1\t0.5\n"),
    "qrels, negative": with_file("qrels.tsv", b"c1::1 0 p1 -1\n"),
    "qrels, task": with_file("qrels.tsv", b"\nc1<::>9\tp1\t1\n"),
    "qrels, no task id": with_file("qrels.tsv", b"c1\tp1\t1\n"),
    "qrels, passage": with_file("qrels.tsv", b"c1::1\tp9\t1\n"),
    "qrels, twice": with_file("qrels.tsv", b"c1<::>1\tp1\t1\nc1::1\tp1\t0\n"),
    "qrels, empty": with_file("qrels.tsv", b"\n"),
    "run, cells": with_file("retrieved.trec", b"c1::1 Q0 p1 1 2.0\n"),
    "run, score": with_file("retrieved.trec", b"c1::1 Q0 p1 1 nan t\n"),
    "run, task": with_file("retrieved.trec", b"c3::1 Q0 p1 1 2 t\n"),
    "run, passage": with_file("retrieved.trec", b"c1::1 Q0 q1 1 2 t\n"),
    "run, twice": with_file("retrieved.trec", b"c1::1 Q0 p1 1 2 t\nc1::1 Q0 p1 2 1 t\n"),
    "run, a folder": Files(),
}


@pytest.mark.parametrize("name", PROBLEMS)
def test_every_type_of_problem_is_found_alone_and_by_line(name: str, tmp_path: Path) -> None:
    root = PROBLEMS[name].write(tmp_path)
    if name.endswith("a folder"):
        (root / "retrieved.trec").mkdir()
    (problem,) = problems_of(root)
    same_message(problem)
    with pytest.raises(BenchmarkFileError, match="next step: run `ragtasks check"):
        custom.load(root)


def test_the_command_for_listing_every_problem_can_be_pasted(tmp_path: Path) -> None:
    root = with_turn(answer=...).write(tmp_path / "it's mine")
    with pytest.raises(BenchmarkFileError) as caught:
        custom.load(root)
    command = str(caught.value).split("run `")[1].split("`")[0]
    assert shlex.split(command) == ["ragtasks", "check", str(root)]


def test_a_valid_folder_has_no_problem(tmp_path: Path) -> None:
    assert problems_of(Files().write(tmp_path)) == []
    assert problems_of(SAMPLE) == []


def test_a_corpus_of_beir_or_mtrag_is_read_and_unread_keys_are_named_once(tmp_path: Path) -> None:
    files = Files()
    files.passages += [
        {"_id": "p4", "title": "Tides", "text": "High at noon.", "metadata": {"url": "x"}},
        {"_id": "p5", "id": "p5", "url": "", "text": "\n", "title": ""},
        {"id": "p6", "text": "", "title": "Only a title", "titel": "x", "lang": "en"},
        {"id": "p7", "text": "The ferry is blue.", "titel": "y"},
    ]
    root = files.write(tmp_path)
    folder, problems = custom.read_folder(root)
    assert problems == []
    assert list(folder.corpus.passages) == ["p1", "p2", "p3", "p4", "p6", "p7"]
    assert folder.corpus.passages["p6"].text.strip() == "Only a title"
    report = check_folder(root)
    assert report.passes
    assert [line for line in report.lines if line.startswith("passages.jsonl: ")] == [
        "passages.jsonl: 1 left out, without text: p5",
        "passages.jsonl: keys that are not read: titel (did you mean 'title'?), lang",
    ]


def test_a_check_notes_the_order_that_contradicts_the_scores_as_an_evaluation_does(tmp_path: Path) -> None:
    content = b"c1::1 Q0 p1 1 1.0 t\nc1::1 Q0 p2 1 2.0 t\nc2::1 Q0 p1 7 2.0 t\nc2::1 Q0 p2 9 1.0 t\n"
    root = with_file("retrieved.trec", content).write(tmp_path)
    note = "in 1 of 2 queries the order of the file contradicts the scores; scores rank"
    assert f"retrieved.trec: {note}" in check_folder(root).lines
    run = read_run(root / "retrieved.trec")
    assert run.order_note(run) == note


def test_common_problems_are_reported_for_each_file(tmp_path: Path) -> None:
    assert problems_of(tmp_path / "nowhere") == [
        f"{name}: file: expected a readable file, found 'No such file or directory' next step: check the path"
        for name in ("conversations.jsonl", "passages.jsonl")
    ]
    (tmp_path / "conversation.jsonl").write_text("{}\n")
    assert check_folder(tmp_path).lines[-1] == "not read: conversation.jsonl (did you mean 'conversations.jsonl'?)"
    Files(conversations=[b" \n"], passages=[]).write(tmp_path)
    assert problems_of(tmp_path) == [
        f"{name}: file: expected at least one line, found no line" for name in ("conversations.jsonl", "passages.jsonl")
    ]


def test_a_utf_8_byte_order_mark_is_skipped_and_other_encodings_are_named(tmp_path: Path) -> None:
    further = {"qrels.tsv": b"query-id\tcorpus-id\tscore\nc1::1\tp1\t1\n", "retrieved.trec": b"c1::1 Q0 p1 1 2.0 t\n"}
    plain, marked = Files(further=further).write(tmp_path / "plain"), Files(further=further).write(tmp_path / "marked")
    files = sorted(path.name for path in marked.iterdir())
    assert len(files) == 4
    for name in files:
        (marked / name).write_bytes(codecs.BOM_UTF8 + (plain / name).read_bytes())
    assert problems_of(plain) == problems_of(marked) == []
    assert custom.read_folder(plain)[0] == replace(custom.read_folder(marked)[0], root=plain)
    content = (plain / "passages.jsonl").read_bytes()
    (marked / "passages.jsonl").write_bytes(content + codecs.BOM_UTF8 + content)
    assert problems_of(marked)[0].startswith("passages.jsonl: line 4: expected one JSON object"), "not in the middle"
    (marked / "passages.jsonl").write_bytes(content.decode().encode("utf-16"))
    assert "found: text in UTF-16 next step: save it in UTF-8" in problems_of(marked)[0]


def test_all_problems_of_all_files_are_reported_together_in_order(tmp_path: Path) -> None:
    files = Files(further={"qrels.tsv": b"c1::1 p1\nc1::1 p1 x\n", "retrieved.trec": b"x\n"})
    files.conversations[0] = conversation("c1", {"question": "What?"}, {"answer": "That."})
    files.passages[1] = {"_id": "p2"}
    positions = [re.match(r"[^ ]*: line \d+", text) for text in problems_of(files.write(tmp_path))]
    assert [match[0] for match in positions if match] == [
        "conversations.jsonl: line 1",
        "conversations.jsonl: line 1",
        "passages.jsonl: line 2",
        "qrels.tsv: line 1",
        "qrels.tsv: line 2",
        "retrieved.trec: line 1",
    ]


def test_loading_lists_the_first_problems_and_checking_lists_all(tmp_path: Path) -> None:
    files = Files(conversations=[conversation(f"c{n}", turn(answer="")) for n in range(30)])
    root = files.write(tmp_path)
    with pytest.raises(BenchmarkFileError) as caught:
        custom.load(root)
    assert "30 errors" in str(caught.value)
    assert "and 10 more" in str(caught.value)
    report = check_folder(root)
    assert not report.passes
    assert report.lines[0] == f"{root}: 30 errors in 1 file"
    assert len(report.lines) == 31


@IN_A_FOLDER
@given(st.data())
def test_breaking_any_line_is_one_problem_in_that_line(tmp_path: Path, data: st.DataObject) -> None:
    files = Files()
    rows = data.draw(st.sampled_from([files.conversations, files.passages]))
    # No reference points to this passage, so that its loss has no other effect.
    files.conversations = [conversation(f"c{n}", turn()) for n in range(4)] if rows is files.passages else rows
    index = data.draw(st.integers(0, len(rows) - 1))
    line = json.dumps(rows[index]).encode()
    rows[index] = line[: data.draw(st.integers(1, len(line) - 1))] + b"\n"
    name = "passages.jsonl" if rows is files.passages else "conversations.jsonl"
    (problem,) = problems_of(files.write(tmp_path))
    assert problem.startswith(f"{name}: line {index + 1}: expected one JSON object, found ")


TEXT = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=12).filter(str.strip)
IDS = st.lists(
    st.text(st.characters(exclude_categories=["Cs", "Cc", "Z"]), min_size=1, max_size=6).filter(
        lambda t: t.split() == [t]
    ),
    min_size=1,
    max_size=4,
    unique=True,
)


@IN_A_FOLDER
@given(IDS, IDS, st.data())
def test_written_values_are_read_back(
    tmp_path: Path, names: list[str], passage_ids: list[str], data: st.DataObject
) -> None:
    turns = st.fixed_dictionaries(
        {"question": TEXT, "answer": TEXT},
        optional={
            "references": st.lists(st.sampled_from(passage_ids), unique=True),
            "answerability": st.sampled_from(["partial", "ANSWERABLE", "Underspecified"]),
            "question_types": st.lists(TEXT, unique=True, max_size=2),
            "rewrite": TEXT,
        },
    )
    rows = [conversation(name, *data.draw(st.lists(turns, min_size=1, max_size=3))) for name in names]
    texts = {passage_id: data.draw(TEXT) for passage_id in passage_ids}
    files = Files([*rows], [passage(key, text) for key, text in texts.items()])
    folder, problems = custom.read_folder(files.write(tmp_path))
    assert problems == []
    written = [
        (row["conversation_id"], n, turn_row) for row in rows for n, turn_row in enumerate(row["turns"], start=1)
    ]
    for task, (name, number, turn_row) in zip(folder.tasks, written, strict=True):
        assert (task.conversation_id, task.turn, task.task_id) == (name, number, f"{name}<::>{number}")
        assert (task.question, task.target) == (turn_row["question"], turn_row["answer"])
        assert [(p.passage_id, p.text) for p in task.references] == [
            (k, texts[k]) for k in turn_row.get("references", [])
        ]
        assert task.answerability.value == turn_row.get("answerability", "ANSWERABLE").upper()
        assert task.question_types == tuple(turn_row.get("question_types", ()))
        written_extra = {key: value for key, value in task.extra.items() if key != "language"}  # detected in any text
        assert written_extra == ({"rewrite": turn_row["rewrite"]} if "rewrite" in turn_row else {})
        assert [message.role for message in task.messages] == [Role.USER, Role.ASSISTANT] * (number - 1) + [Role.USER]


def load(files: Files, root: Path) -> Any:
    return custom.load(files.write(root))


def test_a_benchmark_is_named_after_its_folder_and_its_revision_changes_with_the_data(tmp_path: Path) -> None:
    first = load(Files(), tmp_path / "my data")
    assert (first.label, first.is_sample, first.suite) == ("custom: my-data", False, "mtrag")
    assert load(Files(), tmp_path / "again").revision == first.revision
    assert load(with_file("qrels.tsv", b"c1::1 p1 1\n"), tmp_path / "judged").revision == first.revision
    assert load(with_turn(answer="Else."), tmp_path / "other").revision != first.revision
    assert load(with_passage(), tmp_path / "more").revision != first.revision


def test_a_title_is_part_of_the_text_once(tmp_path: Path) -> None:
    files = Files(
        passages=[
            passage("p1", "Text.", title="Head"),
            passage("p2", "Two: text", title="Two"),
            passage("p3", title=""),
        ]
    )
    folder, _ = custom.read_folder(files.write(tmp_path))
    assert [passage_record.text for passage_record in folder.corpus.passages.values()] == [
        "Head\nText.",
        "Two: text",
        "some words",
    ]


def test_reference_omits_answered_questions_without_references(tmp_path: Path) -> None:
    labels = [None, *(label.value for label in Answerability)]
    files = Files(conversations=[conversation("c", *(turn(answerability=label) for label in labels))])
    benchmark = load(files, tmp_path)
    passages = benchmark.read_contexts(Setting.REFERENCE).passages
    kept = [task.answerability.value for task in benchmark.tasks if task.task_id in passages]
    assert kept == ["UNANSWERABLE", "CONVERSATIONAL", "UNDERSPECIFIED"]
    assert len(benchmark.read_contexts(Setting.FULL_RAG).passages) == len(labels)
    with pytest.raises(ConfigurationError, match="no setting reference_rag"):
        benchmark.read_contexts(Setting.REFERENCE_RAG)


def test_a_run_in_the_folder_takes_precedence_over_the_search(tmp_path: Path) -> None:
    lines = b"c1::1 Q0 p2 1 0.5 me\nc1::1 Q0 p3 2 9.5 me\nc2<::>1 Q0 p1 1 1 me\n"
    benchmark = load(with_file("retrieved.trec", lines), tmp_path)
    contexts: Contexts = benchmark.read_contexts(Setting.FULL_RAG)
    assert contexts.run == "retrieved.trec"
    ids = {key: [passage_record.passage_id for passage_record in items] for key, items in contexts.passages.items()}
    assert ids == {"c1<::>1": ["p3", "p2"], "c1<::>2": [], "c2<::>1": ["p1"]}  # by score, not by rank
    assert custom.load_rankings(tmp_path) == contexts.passages


def test_tables_name_the_source_of_a_folder_s_ranking(tmp_path: Path) -> None:
    from retrieval_cache import Workspace, evaluate_runs

    run_lines = b"c1::1 Q0 p1 1 1 me\nc2::1 Q0 p3 1 1 me\n"
    for name, files in {"retrieved.trec": with_file("retrieved.trec", run_lines), "bm25 (built in)": Files()}.items():
        workspace = Workspace("custom", str(files.write(tmp_path / name[:4])), tmp_path, tmp_path / "store")
        first = next(table for table in evaluate_runs(workspace, ["official"]).tables if table.rows)
        assert {row[0] for row in first.rows} == {name}


def test_relevance_comes_from_judgements_or_else_references(tmp_path: Path) -> None:
    expected = (Qrel("c1<::>1", "p1", 1), Qrel("c2<::>1", "p2", 1), Qrel("c2<::>1", "p3", 1))
    assert custom.load_qrels(Files().write(tmp_path / "a"), "custom") == expected
    for name, content in (
        ("beir", b"query-id\tcorpus-id\tscore\nc1::1\tp3\t2\nc2<::>1\tp1\t0\n"),
        ("trec", b"c1<::>1 0 p3 2\r\nc2<::>1 0 p1 0\r\n"),
    ):
        root = with_file("qrels.tsv", content).write(tmp_path / name)
        assert custom.load_qrels(root, "custom") == (Qrel("c1<::>1", "p3", 2), Qrel("c2<::>1", "p1", 0))


def two_domains() -> Files:
    return Files(
        [
            conversation("c1", turn(references=["a1"], rewrite="words?"), domain="a"),
            conversation("c2", turn("some words"), domain="b"),
        ],
        [passage("a1", domain="a"), passage("b1", domain="b"), passage("b2", "other", domain="b")],
    )


def test_domains_are_separate(tmp_path: Path) -> None:
    benchmark = load(two_domains(), tmp_path)
    contexts = benchmark.read_contexts(Setting.FULL_RAG).passages
    assert {key: [passage_record.passage_id for passage_record in items] for key, items in contexts.items()} == {
        "c1<::>1": ["a1"],
        "c2<::>1": ["b1"],
    }
    assert custom.RETRIEVAL.domains_of(benchmark.tasks) == ("a", "b")
    assert [len(custom.load_qrels(tmp_path, domain)) for domain in "ab"] == [1, 0]
    assert [custom.load_rewrites(tmp_path, domain) for domain in "ab"] == [{"c1<::>1": "words?"}, {}]
    rows = [json.loads(line) for line in custom.corpus_file(tmp_path, "b").read_text().splitlines()]
    assert rows == [
        {"_id": key, "title": "", "text": text, "url": ""} for key, text in (("b1", "some words"), ("b2", "other"))
    ]


@pytest.mark.parametrize(("name", "content", "expected"), [
    ("qrels.tsv", b"c1::1 a1 1\nc1::1 b1 1\n", "line 2 (c1<::>1): expected a passage of the question's domain 'a'"),
    ("retrieved.trec", b"c2::1 Q0 a1 1 1 t\n", "line 1 (c2<::>1): expected a passage of the question's domain 'b'"),
])  # fmt: skip
def test_a_passage_of_another_domain_is_a_problem(tmp_path: Path, name: str, content: bytes, expected: str) -> None:
    files = two_domains()
    files.further[name] = content
    (problem,) = problems_of(files.write(tmp_path))
    assert problem.startswith(f"{name}: {expected}")
    files = two_domains()
    files.conversations[1] = conversation("c2", turn(references=["a1"]), domain="b")
    (problem,) = problems_of(files.write(tmp_path / "reference"))
    assert problem.endswith("expected a passage of the question's domain 'b', found \"'a1' of 'a'\"")


def test_the_derived_files_of_the_sample_follow_from_it(tmp_path: Path) -> None:
    copy = tmp_path / "custom"
    shutil.copytree(SAMPLE, copy)
    shipped = {path.name: path.read_bytes() for path in (copy / "derived").iterdir()}
    shutil.rmtree(copy / "derived")
    for domain in ("lending", "workshop"):
        custom.corpus_file(copy, domain)
    assert {path.name: path.read_bytes() for path in (copy / "derived").iterdir()} == shipped
    assert len(shipped) == 2


def test_the_sample_has_its_documented_contents() -> None:
    benchmark = custom.load(SAMPLE)
    assert [task.task_id for task in benchmark.tasks][::9] == ["loans-1<::>1", "family-1<::>2"]
    counts = {label: sum(task.answerability is label for task in benchmark.tasks) for label in Answerability}
    assert list(counts.values()) == [7, 1, 1, 1, 0]
    assert len(custom.load_qrels(SAMPLE, "lending")) + len(custom.load_qrels(SAMPLE, "workshop")) == 11
    # An answer is not a copy of its passages.
    assert not [task for task in benchmark.tasks if any(task.target in reference.text for reference in task.references)]


WORDS = st.lists(st.sampled_from(["ant", "bee", "Cat", "dog", "eel", "the", "42"]), min_size=1, max_size=30)


@settings(max_examples=25)
@given(st.lists(WORDS, min_size=1, max_size=8), st.lists(WORDS, min_size=1, max_size=3))
def test_the_search_is_that_of_the_retriever_bm25_standard(passages: list[list[str]], queries: list[list[str]]) -> None:
    """Passages have at most 30 terms, which the index stores exactly."""
    pytest.importorskip("tantivy", reason="the oracle needs tantivy (extra: retrieval)")
    import tempfile

    from retrieval_cache.retrievers.bm25 import Bm25Retriever

    corpus = [Passage(f"p{n}", " ".join(words)) for n, words in enumerate(passages)]
    texts = {f"q{n}": ", ".join(words) for n, words in enumerate(queries)}
    oracle = Bm25Retriever("bm25-standard")
    # Threads of the index may still write when the folder is removed.
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        oracle.index(corpus, Path(folder))
        expected = oracle.search(texts, 5)
    rankings = bm25_rankings(texts, corpus, 5)
    for query_id, ranking in expected.items():
        scores = {ranked.passage_id: ranked.score for ranked in ranking}
        assert len(rankings[query_id]) == len(ranking)
        # Only scores that differ in the last digits of 32 bits may change their order.
        for own, theirs in zip(rankings[query_id], ranking, strict=True):
            assert scores.get(own, ranking[-1].score) == pytest.approx(theirs.score, rel=1e-5)


def test_the_search_by_hand() -> None:
    corpus = [Passage("a", "red fish"), Passage("b", "Red, red: a bird"), Passage("c", "")]
    assert bm25_rankings({"q": "RED?", "none": "green", "blank": ""}, corpus, 9) == {
        "q": ("b", "a"),
        "none": (),
        "blank": (),
    }
    assert bm25_rankings({"q": "red"}, corpus, 1) == {"q": ("b",)}
    assert bm25_rankings({"q": "red"}, [Passage("c", "")], 1) == {"q": ()}


def test_users_folders_are_not_downloaded_and_used_directly(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="custom: its files are your own"):
        fetch(custom.SOURCE, tmp_path)
    assert benchmark_folder("custom", str(tmp_path), Path()) == tmp_path
    with pytest.raises(BenchmarkFileError, match="name your folder as `data`"):
        benchmark_folder("custom", str(tmp_path / "nowhere"), Path())


@pytest.fixture
def validated() -> Callable[[Path], tuple[int, list[str]]]:
    def run(root: Path) -> tuple[int, list[str]]:
        done = run_command("check", root)
        return done.status, done.out.splitlines()

    return run


def test_the_command_prints_counts_and_next_commands(
    tmp_path: Path, validated: Callable[[Path], tuple[int, list[str]]]
) -> None:
    files = two_domains()
    files.further = {
        "qrels.tsv": b"c1::1 a1 1\n",
        "retrieved.trec": b"c1::1 Q0 a1 1 1 t\n",
        "qrel.tsv": b"",
        "notes": b"",
    }
    root = files.write(tmp_path / "my data")
    status, lines = validated(root)
    assert status == 0
    assert lines == [
        f"{root}: no error",
        "2 conversations, 2 tasks (one for each question), 3 passages",
        "  | domain | passages | tasks | ANSWERABLE |",
        "  |--------|---------:|------:|-----------:|",
        "  | a      |        1 |     1 |          1 |",
        "  | b      |        2 |     1 |          1 |",
        "judgements: 1 in qrels.tsv",
        "retrieved passages: retrieved.trec, for 1 of 2 tasks",
        "left out of custom_reference: 1 task with an answer but without references",
        "not read: notes",
        "not read: qrel.tsv (did you mean 'qrels.tsv'?)",
        "next:",
        f"  ragtasks run --model ragtasks-extractive --tasks custom_reference,custom_full_rag --data '{root}'",
        f"  ragtasks retrieve --benchmark custom --data '{root}' --retriever bm25 --queries rewrite --name mine",
        f"  ragtasks evaluate-run official mine --benchmark custom --data '{root}'",
        f"  ragtasks run --model ragtasks-extractive --tasks custom_full_rag --data '{root}' --run mine",
    ]


def test_the_command_exits_with_status_1_for_a_problem(
    tmp_path: Path, validated: Callable[[Path], tuple[int, list[str]]]
) -> None:
    status, lines = validated(with_turn(answer=...).write(tmp_path))
    assert status == 1
    assert lines[0] == f"{tmp_path}: 1 error in 1 file"
    assert lines[1:] == ["conversations.jsonl: line 2 (turn 1 of c2): expected `answer`, found no `answer`"]


def test_a_run_is_not_evaluated_on_the_questions_of_another_folder(tmp_path: Path) -> None:
    pytest.importorskip("tantivy", reason="the retriever needs tantivy (extra: retrieval)")
    from retrieval_cache import Workspace, evaluate_runs, retrieve

    workspaces = {
        name: Workspace("custom", str(files.write(tmp_path / name)), tmp_path, tmp_path / "store")
        for name, files in (("first", two_domains()), ("second", Files()))
    }
    stored = retrieve(workspaces["first"], "bm25", "rewrite", name="mine", depth=5)
    assert sorted(path.name for path in stored.folder.glob("*.trec")) == ["a.trec", "b.trec"]
    assert "| mine" in render([evaluate_runs(workspaces["first"], ["mine"])], Format.MARKDOWN)
    with pytest.raises(CacheError, match=r"'mine' was made for other data \(custom: first\) than custom: second"):
        evaluate_runs(workspaces["second"], ["mine"])
