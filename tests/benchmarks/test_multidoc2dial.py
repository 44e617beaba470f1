"""MultiDoc2Dial and Doc2Dial: the sample by hand, the official rules by brute force, and invalid files."""

from __future__ import annotations

import json
import shutil
import zipfile
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragtasks.benchmarks import Benchmark, BenchmarkDefinition, RetrievalSide, benchmark_folder
from ragtasks.benchmarks import doc2dial as definitions
from ragtasks.benchmarks.doc2dial import (
    DOMAINS,
    GroundingSpan,
    WebPage,
    cut_documents,
    gold_passages,
    load_rewrites,
    read_dialogues,
    read_documents,
    read_propositions,
)
from ragtasks.errors import BenchmarkFileError, ConfigurationError
from ragtasks.records import Answerability, Passage, Role, Setting
from tests._messages import raises
from tests.benchmarks._shared_task import paired, read_shared_task, write_references
from tests.conftest import REAL_DATA

DEFINITIONS: dict[str, BenchmarkDefinition] = {
    "multidoc2dial": definitions.MULTIDOC2DIAL,
    "multidoc2dial_token": definitions.MULTIDOC2DIAL_TOKEN,
    "multidoc2dial_propositions": definitions.MULTIDOC2DIAL_PROPOSITIONS,
    "doc2dial": definitions.DOC2DIAL,
}
multidoc2dial = definitions.MULTIDOC2DIAL
ROOT = benchmark_folder("multidoc2dial", "sample", Path())
DOCUMENTS, DIALOGUES = "multidoc2dial/multidoc2dial_doc.json", "multidoc2dial/multidoc2dial_dial_test.json"
SHARED_TASK = REAL_DATA / "doc2dial" / "multidoc2dial_sharedtask_samples"


def retrieval(name: str) -> RetrievalSide:
    side = DEFINITIONS[name].retrieval
    assert side is not None
    return side


def sample(name: str) -> Benchmark:
    benchmark: Benchmark = DEFINITIONS[name].load(benchmark_folder(name, "sample", Path()))
    return benchmark


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of the sample whose files a test may break."""
    return Path(shutil.copytree(ROOT, tmp_path / "sample", ignore=shutil.ignore_patterns("derived")))


def changed(root: Path, name: str, change: Callable[[Any], object]) -> None:
    content = json.loads((root / name).read_text(encoding="utf-8"))
    change(content)
    (root / name).write_text(json.dumps(content), encoding="utf-8")


def first_dialogue(content: Any) -> dict[str, Any]:
    dialogue: dict[str, Any] = content["dial_data"]["dmv"][0]
    return dialogue


def test_the_sample_is_varied_enough() -> None:
    benchmark = sample("multidoc2dial")
    assert benchmark.is_sample
    assert benchmark.suite == "multidoc2dial"
    assert {task.domain for task in benchmark.tasks} == set(DOMAINS)
    assert len({task.conversation_id for task in benchmark.tasks}) == 8
    assert len(read_documents(ROOT, "multidoc2dial_doc.json")) == 8
    assert Counter(task.answerability.value for task in benchmark.tasks) == {"ANSWERABLE": 31, "UNANSWERABLE": 3}
    assert len(sample("doc2dial").tasks) == 8
    assert {len(task.references) for task in sample("multidoc2dial_token").tasks} == {0, 1, 2}


def test_a_task_by_hand() -> None:
    task = next(task for task in sample("multidoc2dial").tasks if task.question == "And what do the new ones cost me?")
    assert (task.turn, task.domain, task.question_types) == (3, "dmv", ("query_solution",))
    assert task.task_id == f"{task.conversation_id}<::>3"
    assert [message.role.value for message in task.messages] == ["user", "assistant"] * 2 + ["user"]
    assert task.target == "Nothing. Order the new pair with form M-12."
    assert [passage.passage_id for passage in task.references] == ["structure-1"]
    assert task.references[0].text.startswith("Licence plates for a car in Larkmoor // Lost or stolen plates")
    assert dict(task.extra) == {
        "official_id": f"{task.conversation_id}_5",
        "document_id": "Licence plates for a car in Larkmoor#1_0",
        "grounding": "Then order a new pair with form M-12; a new pair after a theft is free of charge. ",
        "user_act": "query_solution",
        "agent_act": "respond_solution",
    }


def test_consecutive_utterances_of_a_speaker_become_one_message() -> None:
    tasks = sample("multidoc2dial").tasks
    twice = next(task for task in tasks if task.question.startswith("Hm."))
    assert twice.question == "Hm.\nDo I get another licence then?"
    later = next(task for task in tasks if task.question == "I think one letter did.")
    assert later.messages[-2].text.endswith("the one you have.\nHas any mail of ours come back?")
    assert later.messages[-2].role is Role.ASSISTANT
    for task in tasks:
        roles = [message.role for message in task.messages]
        assert roles == [Role.USER, Role.ASSISTANT] * (len(roles) // 2) + [Role.USER]


def test_an_answer_without_solution_makes_an_unanswerable_task() -> None:
    tasks = [task for task in sample("multidoc2dial").tasks if task.answerability is Answerability.UNANSWERABLE]
    assert {task.extra["agent_act"] for task in tasks} == {"respond_no_solution"}
    assert all(not task.references and not task.extra["grounding"] for task in tasks)


@pytest.mark.parametrize("name", ["multidoc2dial", "multidoc2dial_token", "doc2dial"])
def test_judgements_are_the_references_and_passages_of_the_corpus(name: str) -> None:
    benchmark, side = sample(name), retrieval(name)
    file = side.corpus_file(benchmark.root, "va")
    corpus = {row["_id"]: row for row in map(json.loads, file.read_text(encoding="utf-8").splitlines())}
    qrels = [q for domain in DOMAINS for q in side.load_qrels(benchmark.root, domain)]
    assert {(q.query_id, q.passage_id, q.relevance) for q in qrels} == {
        (task.task_id, passage.passage_id, 1) for task in benchmark.tasks for passage in task.references
    }
    for task in benchmark.tasks:
        for passage in task.references:
            assert corpus[passage.passage_id] == {
                "_id": passage.passage_id,
                "title": passage.title,
                "text": passage.text,
            }


def test_propositions_have_texts_and_no_gold() -> None:
    benchmark = sample("multidoc2dial_propositions")
    side = retrieval("multidoc2dial_propositions")
    lines = side.corpus_file(benchmark.root, "dmv").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["text"] for line in lines] == [proposition.text for proposition in read_propositions(ROOT)]
    assert all(task.references == () for task in benchmark.tasks)
    with raises(ConfigurationError):
        side.load_qrels(benchmark.root, "dmv")
    with raises(ConfigurationError):
        benchmark.read_contexts(Setting.REFERENCE)


@pytest.mark.parametrize("name", DEFINITIONS)
def test_the_sample_has_twenty_retrieved_units(name: str) -> None:
    benchmark = sample(name)
    contexts = benchmark.read_contexts(Setting.FULL_RAG).passages
    assert contexts.keys() == {task.task_id for task in benchmark.tasks}
    assert {len(passages) for passages in contexts.values()} <= {12, 20}  # there are only twelve token passages
    assert benchmark.n_passages == 20


def test_without_a_run_the_next_step_is_named(copy: Path) -> None:
    (copy / "full_rag.jsonl").unlink()
    with raises(ConfigurationError):
        multidoc2dial.load(copy).read_contexts(Setting.FULL_RAG)
    with pytest.raises(ConfigurationError, match="reference_rag"):
        multidoc2dial.load(copy).read_contexts(Setting.REFERENCE_RAG)


@pytest.fixture
def packed(copy: Path, tmp_path: Path) -> Path:
    """The sample's files in a zip with the official name, without the sample's statistics."""
    folder = tmp_path / "packed"
    folder.mkdir()
    with zipfile.ZipFile(folder / "multidoc2dial.zip", "w") as archive:
        for name in (DOCUMENTS, DIALOGUES):
            archive.write(copy / name, name)
    return folder


def test_files_are_read_from_the_official_zip(copy: Path, packed: Path) -> None:
    collection = replace(definitions.COLLECTION, n_dialogues=None, n_documents=None)
    benchmark = collection.load(packed)
    assert benchmark.tasks == multidoc2dial.load(copy).tasks
    assert not benchmark.is_sample
    assert benchmark.revision == multidoc2dial.source.commit


@pytest.mark.parametrize("definition", [definitions.MULTIDOC2DIAL, definitions.MULTIDOC2DIAL_TOKEN])
def test_official_files_of_other_counts_are_refused(packed: Path, definition: BenchmarkDefinition) -> None:
    with raises(BenchmarkFileError):
        definition.load(packed)
    few = replace(definitions.COLLECTION, n_dialogues=None)
    with raises(BenchmarkFileError):
        few.load(packed)


def test_a_changed_document_makes_another_corpus_file(copy: Path) -> None:
    before = retrieval("multidoc2dial").corpus_file(copy, "dmv")
    assert retrieval("multidoc2dial").corpus_file(copy, "ssa") == before

    def rename(content: Any) -> None:
        next(iter(content["doc_data"]["va"].values()))["title"] = "Another title"

    changed(copy, DOCUMENTS, rename)
    assert retrieval("multidoc2dial").corpus_file(copy, "dmv") != before


BROKEN: list[tuple[str, Callable[[Any], object]]] = [
    (DIALOGUES, lambda c: first_dialogue(c)["turns"][0].update(role="system")),
    (DIALOGUES, lambda c: first_dialogue(c)["turns"][1].pop("utterance")),
    (DIALOGUES, lambda c: first_dialogue(c)["turns"][0].update(references=[{"label": "solution"}])),
    (DIALOGUES, lambda c: first_dialogue(c)["turns"][0]["references"][0].update(id_sp="999")),
    (DIALOGUES, lambda c: first_dialogue(c).pop("dial_id")),
    (DIALOGUES, lambda c: c["dial_data"]["dmv"].append(first_dialogue(c))),
    (DIALOGUES, lambda c: c.pop("dial_data")),
    (DIALOGUES, lambda c: c["dial_data"].update(cooking=[])),
    (DIALOGUES, lambda c: c.update(dial_data={"dmv": []})),
    (DOCUMENTS, lambda c: next(iter(c["doc_data"]["va"].values())).pop("spans")),
    (DOCUMENTS, lambda c: next(iter(c["doc_data"]["va"].values()))["spans"]["1"].update(end_sp=10**6)),
    (DOCUMENTS, lambda c: next(iter(c["doc_data"]["va"].values()))["spans"]["1"].update(parent_titles=7)),
    ("propositions.json", lambda c: c[0].pop("Domains")),
    ("propositions.json", lambda c: c[0]["Domains"].pop()),
    ("propositions.json", lambda c: c.append({})),
]


@pytest.mark.parametrize(("name", "change"), BROKEN)
def test_a_broken_file_is_named_with_its_problems(name: str, change: Callable[[Any], object], copy: Path) -> None:
    changed(copy, name, change)
    read: Callable[[Path], object] = read_propositions if name == "propositions.json" else multidoc2dial.load
    with raises(BenchmarkFileError):
        read(copy)


def test_every_problem_of_a_file_is_reported_together(copy: Path) -> None:
    changed(copy, DIALOGUES, lambda c: [turn.pop("da") for turn in first_dialogue(c)["turns"]])
    with pytest.raises(BenchmarkFileError, match="10 errors"):
        multidoc2dial.load(copy)


@pytest.mark.parametrize("content", [b"", b"{", b"not a zip"])
def test_a_corrupt_or_missing_file_is_named(content: bytes, copy: Path, tmp_path: Path) -> None:
    (copy / DOCUMENTS).write_bytes(content)
    with pytest.raises(BenchmarkFileError, match="multidoc2dial_doc"):
        multidoc2dial.load(copy)
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "multidoc2dial.zip").write_bytes(content)
    with raises(BenchmarkFileError):
        multidoc2dial.load(tmp_path / "empty")


def test_both_key_names_of_a_reference_are_read() -> None:
    documents = read_documents(benchmark_folder("doc2dial", "sample", Path()), "doc2dial_doc.json")
    dialogues = read_dialogues(
        benchmark_folder("doc2dial", "sample", Path()), "doc2dial_dial_validation.json", documents
    )
    assert all(turn.references for dialogue in dialogues for turn in dialogue.turns)


def test_a_blank_utterance_is_omitted_and_counted(copy: Path, caplog: pytest.LogCaptureFixture) -> None:
    complete = multidoc2dial.load(copy)

    def blank(content: dict[str, Any]) -> None:
        first_dialogue(content)["turns"][1]["utterance"] = " \n"

    changed(copy, DIALOGUES, blank)
    documents = read_documents(copy, "multidoc2dial_doc.json")
    dialogues = read_dialogues(copy, "multidoc2dial_dial_test.json", documents)
    assert "left out: 1 blank utterances" in caplog.text
    first = complete.tasks[0].conversation_id
    (dialogue,) = [candidate for candidate in dialogues if candidate.dialogue_id == first]
    assert 2 not in [turn.turn_id for turn in dialogue.turns]


def test_dialogues_of_the_extra_domain_need_their_documents(copy: Path, caplog: pytest.LogCaptureFixture) -> None:
    documents = read_documents(copy, "multidoc2dial_doc.json")
    n_whole = len(read_dialogues(copy, "multidoc2dial_dial_test.json", documents))

    def add(content: dict[str, Any]) -> None:
        known, unknown = (json.loads(json.dumps(first_dialogue(content))) for _ in range(2))
        known["dial_id"], unknown["dial_id"] = "known", "unknown"
        for turn in unknown["turns"]:
            turn["references"] = [{**reference, "doc_id": "CDC page"} for reference in turn["references"]]
        content["dial_data"]["cdccovid"] = [known, unknown]

    changed(copy, DIALOGUES, add)
    dialogues = read_dialogues(copy, "multidoc2dial_dial_test.json", documents)
    assert len(dialogues) == n_whole + 1
    assert dialogues[-1].domain == "cdccovid"
    assert "left out: 1 dialogues of cdccovid over missing documents" in caplog.text


UNSEEN = REAL_DATA / "multidoc2dial" / "multidoc2dial_dial_validation_unseen_sample.json"


@pytest.mark.skipif(not UNSEEN.is_file(), reason=f"no {UNSEEN}")
def test_the_real_unseen_dialogues_are_read_but_for_a_blank_utterance(caplog: pytest.LogCaptureFixture) -> None:
    """Their documents are not released, so the test creates documents with the referenced spans."""
    content = json.loads(UNSEEN.read_bytes())
    rows = [turn for dialogue in content["dial_data"]["cdccovid"] for turn in dialogue["turns"]]
    spans: dict[str, dict[str, GroundingSpan]] = {}
    for reference in (reference for turn in rows for reference in turn["references"]):
        spans.setdefault(reference["doc_id"], {})[reference["id_sp"]] = span("text", "1", "title")
    documents = {name: WebPage(title=name, text="text", spans=own) for name, own in spans.items()}
    dialogues = read_dialogues(UNSEEN.parent, UNSEEN.name, documents)
    assert len(dialogues) == 20
    assert sum(len(dialogue.turns) for dialogue in dialogues) == len(rows) - 1
    assert "left out: 1 blank utterances" in caplog.text
    with raises(BenchmarkFileError):
        read_dialogues(UNSEEN.parent, UNSEEN.name, {})


WORDS = st.lists(st.sampled_from(["ab", "Cd", "e\nf", "g", ""]), min_size=0, max_size=9).map(" ".join)


def span(text: str, section: str, title: str, parents: tuple[str, ...] = ()) -> GroundingSpan:
    titles = [{"text": parent} for parent in parents]
    return GroundingSpan(start=0, end=0, text=text, section_id=section, title=title, parent_titles=titles)


def document(text: str, *spans: GroundingSpan) -> WebPage:
    return WebPage(title="A/B title#9", text=text, spans={str(number): span for number, span in enumerate(spans)})


def test_structure_passages_by_hand() -> None:
    page = document(
        "text",
        span("One.", "1", "Top"),
        span("Two\nlines.", "1", "Top", ("Top", "Low/er#4")),
        span("Three.", "2", "Top "),
        span("Four.", "3", "Other", ("Only",)),
        span("Five.", "3", "Else", ("Top", "Else")),
    )
    assert [passage.text for passage in cut_documents({"Page#1_0": page}, "structure")["Page#1_0"]] == [
        "A-B title // One. Two lines. Three.",
        "Top / Else // Four. Five.",
    ]


@given(st.integers(1, 350))
def test_token_passages_contain_a_hundred_words_each(n_words: int) -> None:
    words = [f"w{number}" for number in range(n_words)]
    texts = [passage.text for passage in cut_documents({"Page#1_0": document(" ".join(words))}, "token")["Page#1_0"]]
    assert [word for text in texts for word in text.split()] == words
    assert all(len(text.split()) == 100 for text in texts[:-1])


def test_ids_run_over_all_documents() -> None:
    first, second = document("a"), document(" ".join("b" * 150))
    passages = cut_documents({"first": first, "second": second}, "token")
    assert [p.passage_id for own in passages.values() for p in own] == ["token-0", "token-1", "token-2"]


def official_positions(grounding: str, texts: list[str]) -> list[int]:
    """Return the positions of the gold passages by the official procedure, loop for loop."""

    def bare(text: str) -> str:
        return "".join(sign for sign in text.lower() if sign not in " \n\t\r")

    latest: list[int] = []
    for start in range(len(texts)):
        window: list[int] = []
        for end in range(start + 1, len(texts) + 1):
            joined = "".join(texts[start:end])
            if grounding in joined or (bare(grounding)[3:-3] and bare(grounding)[3:-3] in bare(joined)):
                window = list(range(start, end))
            if len(window) == 1:
                return window
            if window:
                break
        latest = window or latest
    return latest


@given(st.lists(WORDS, max_size=5), WORDS)
def test_gold_passages_are_those_of_the_official_procedure(texts: list[str], grounding: str) -> None:
    passages = [Passage(str(position), text) for position, text in enumerate(texts)]
    positions = [int(passage.passage_id) for passage in gold_passages(grounding, passages)]
    assert positions == official_positions(grounding, texts)


def test_rewrites_are_read_and_checked(copy: Path) -> None:
    rewrites = load_rewrites(copy, "dmv")
    ids = {task.task_id for task in multidoc2dial.load(copy).tasks}
    assert rewrites.keys() <= ids
    assert len(rewrites) == 28
    (copy / "rewrites.jsonl").write_text('{"_id": "a", "text": "b"}\n{"_id": "a", "text": "c"}\n{"_id": 1}\n')
    with pytest.raises(BenchmarkFileError, match="3 errors"):
        load_rewrites(copy, "dmv")
    (copy / "rewrites.jsonl").unlink()
    with pytest.raises(ConfigurationError, match="llm_rewrite"):
        load_rewrites(copy, "dmv")
    with pytest.raises(ConfigurationError, match="unknown domain"):
        load_rewrites(copy, "dvm")


def test_a_reference_file_of_the_shared_task_reads_back(tmp_path: Path) -> None:
    tasks = sample("multidoc2dial").tasks
    (tmp_path / "references.json").write_bytes(write_references(tasks))
    utterances = read_shared_task(tmp_path / "references.json", "utterance")
    answered = [task for task in tasks if task.answerability is Answerability.ANSWERABLE]
    assert utterances == {task.extra["official_id"]: task.target for task in answered}
    assert list(read_shared_task(tmp_path / "references.json", "grounding")) == list(utterances)


@pytest.mark.parametrize(
    "content",
    ["[]", "{", '{"id": "a"}', '[{"id": "a"}]', '[{"id": "a", "utterance": "b"}, {"id": "a", "utterance": "c"}]'],
)
def test_a_broken_shared_task_file_is_refused(content: str, tmp_path: Path) -> None:
    (tmp_path / "file.json").write_text(content)
    with pytest.raises(BenchmarkFileError, match="shared task file"):
        read_shared_task(tmp_path / "file.json", "utterance")
    with pytest.raises(ConfigurationError, match="utterance, grounding"):
        read_shared_task(tmp_path / "file.json", "answer")


def test_predictions_must_name_the_ids_of_the_references() -> None:
    assert paired({"b": "r", "a": "s"}, {"a": "p", "b": "q"}) == [("q", "r"), ("p", "s")]
    with raises(ConfigurationError):
        paired({"a": "s", "b": "r"}, {"a": "p", "c": "q"})


def test_the_official_samples_of_the_shared_task_are_read() -> None:
    if not SHARED_TASK.is_dir():
        pytest.skip(f"no official sample files at {SHARED_TASK}")
    for field in ("utterance", "grounding"):
        references = read_shared_task(SHARED_TASK / "sample_task_references.json", field)
        predictions = read_shared_task(SHARED_TASK / f"sample_task_{field}_predictions.json", field)
        assert list(references) == [f"1409501a35697e0ce68561e29577b90a_{turn}" for turn in (1, 3, 5, 7, 9)]
        assert len(paired(references, predictions)) == 5


def test_the_official_files_have_the_published_counts() -> None:
    root = REAL_DATA / "doc2dial-files"
    if not root.is_dir():
        pytest.skip(f"no official MultiDoc2Dial files at {root}")
    documents = read_documents(root, "multidoc2dial_doc.json")
    assert Counter(page.domain for page in documents.values()) == definitions.OFFICIAL_DOCUMENTS
    for split, n_dialogues in definitions.OFFICIAL_DIALOGUES.items():
        assert len(read_dialogues(root, f"multidoc2dial_dial_{split}.json", documents)) == n_dialogues


def test_the_released_propositions_have_the_published_counts() -> None:
    root = REAL_DATA / "doc2dial-files"
    if not (root / "data/propositions.json").is_file():
        pytest.skip(f"no released propositions at {root}")
    columns = read_propositions(root)
    assert Counter(columns["Domains"]) == {"dmv": 4949, "ssa": 3251, "studentaid": 2705, "va": 3538}
    assert len(set(columns["Propositions"])) == 12806
