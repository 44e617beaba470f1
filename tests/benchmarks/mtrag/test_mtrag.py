"""Facts about the real files, their quirks, and every type of invalid file."""

from __future__ import annotations

import functools
import json
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ragtasks.benchmarks import Benchmark, benchmark_folder
from ragtasks.benchmarks.mtrag import domain_of
from ragtasks.benchmarks.mtrag._benchmark import OFFICIAL_COUNTS, load
from ragtasks.errors import BenchmarkFileError
from ragtasks.records import Answerability, Message, Role, Setting, Task
from tests._messages import same_message
from tests.benchmarks.mtrag._official import DOMAINS

SAMPLE = benchmark_folder("mtrag", "sample", Path())
GENERATION = "mtrag-human/generation_tasks"
REFERENCE = f"{GENERATION}/reference.jsonl"
Rows = list[dict[str, Any]]


@pytest.fixture(scope="module")
def official(mtrag_root: Path) -> Benchmark:
    return load(mtrag_root)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A copy of the sample that a test may break."""
    shutil.copytree(SAMPLE / GENERATION, tmp_path / GENERATION)
    shutil.copy(SAMPLE / "sample.json", tmp_path)
    return tmp_path


def rewrite(root: Path, change: Callable[[Rows], object], name: str = REFERENCE) -> None:
    path = root / name
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    change(rows)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def message_of(root: Path, setting: Setting | None = None) -> str:
    """Return the error message of loading. It always contains the file name and a next step."""
    read = functools.partial(load(root).read_contexts, setting) if setting else functools.partial(load, root)
    with pytest.raises(BenchmarkFileError) as caught:
        read()
    text = str(caught.value)
    assert str(root) in text
    assert "next step: " in text
    assert "expected" in text
    assert "found" in text
    return text


def test_the_official_tasks_have_the_published_counts(official: Benchmark) -> None:
    tasks = official.tasks
    assert (len(tasks), len({task.conversation_id for task in tasks})) == (842, 110)
    assert Counter(task.domain for task in tasks) == {"clapnq": 224, "govt": 214, "cloud": 205, "fiqa": 199}
    assert Counter(task.answerability.value for task in tasks) == OFFICIAL_COUNTS.by_answerability
    assert Counter(task.multi_turn for task in tasks) == {"N/A": 110, "Follow-up": 622, "Clarification": 110}
    assert Counter(label for task in tasks for label in task.question_types) == {
        "Factoid": 280,
        "Summarization": 195,
        "Explanation": 158,
        "Opinion": 87,
        "How-To": 85,
        "Non-Question": 84,
        "Keyword": 76,
        "Composite": 51,
        "Comparative": 48,
        "Troubleshooting": 15,
    }
    assert sum(len(task.references) for task in tasks) == 2129
    assert sum(not task.references for task in tasks) == 65
    assert not official.is_sample
    assert official.label == "mtrag"
    assert official.answerability_key == "Answerability"


@pytest.mark.parametrize(
    ("index", "facts", "n_messages", "n_references", "question"),
    [
        (
            0,
            ("dd6b6ffd177f2b311abe676261279d2f<::>1", "clapnq", "UNANSWERABLE", "Factoid"),
            1,
            0,
            "where do the arizona",
        ),
        (
            9,
            ("5b2404d71f9ff7edabddb3b1a8b329e7<::>2", "govt", "ANSWERABLE", "Summarization"),
            3,
            3,
            "What items should",
        ),
        (-1, ("6528deeee4180c1b2b770a2929482e82<::>8", "clapnq", "ANSWERABLE", "Composite"), 15, 6, "is india growing"),
    ],
)
def test_the_first_tenth_and_last_official_task(
    *, official: Benchmark, index: int, facts: tuple[str, ...], n_messages: int, n_references: int, question: str
) -> None:
    task = official.tasks[index]
    assert (task.task_id, task.domain, task.answerability.value, *task.question_types) == facts
    assert (len(task.messages), len(task.references)) == (n_messages, n_references)
    assert task.question.startswith(question)


def test_every_official_task_ends_at_its_turn(official: Benchmark) -> None:
    for task in official.tasks:
        assert [message.role for message in task.messages] == [Role.USER, Role.ASSISTANT] * (task.turn - 1) + [
            Role.USER
        ]
        assert task.task_id == f"{task.conversation_id}<::>{task.turn}"


def test_settings_cover_the_expected_official_tasks(official: Benchmark) -> None:
    contexts = {setting: official.read_contexts(setting) for setting in Setting if setting is not Setting.AGENTIC}
    sizes = {setting.value: len(setting_contexts.passages) for setting, setting_contexts in contexts.items()}
    assert sizes == {"reference": 842, "reference_rag": 436, "full_rag": 842}
    conversational = {t.task_id for t in official.tasks if t.answerability is Answerability.CONVERSATIONAL}
    assert len(contexts[Setting.REFERENCE_RAG].passages.keys() - conversational) == 426
    assert all(0 < len(passages) <= 5 for passages in contexts[Setting.FULL_RAG].passages.values())
    assert {setting_contexts.run for setting_contexts in contexts.values()} == {"official"}
    references = {task.task_id: set(task.references) for task in official.tasks}
    for task_id, passages in contexts[Setting.REFERENCE_RAG].passages.items():
        ids = {passage.passage_id for passage in passages}
        assert {passage.passage_id for passage in references[task_id]} <= ids
        assert len(ids) == len(passages) <= 5


def test_the_loader_normalizes_the_quirks_of_the_official_response_file(mtrag_root: Path, tmp_path: Path) -> None:
    text = (mtrag_root / "scripts/evaluation/sample_data/responses-10.jsonl").read_text(encoding="utf-8")
    raw = [json.loads(line) for line in text.splitlines()]
    assert '"Multi-Turn": NaN' in text
    assert raw[0]["task_id"] == "dd6b6ffd177f2b311abe676261279d2f::1"
    assert isinstance(raw[0]["turn"], int)
    assert {"answerability", "collection"} <= raw[0].keys()
    (tmp_path / GENERATION).mkdir(parents=True)
    (tmp_path / REFERENCE).write_text(text, encoding="utf-8")
    domains = Counter(str(domain_of(row["collection"])) for row in raw)
    labels = Counter(row["answerability"][0] for row in raw)
    counts = {"tasks": 10, "by_domain": domains, "by_answerability": labels}
    (tmp_path / "sample.json").write_text(json.dumps({"version": "10", "counts": counts}), encoding="utf-8")
    tasks = load(tmp_path).tasks
    assert [task.task_id for task in tasks] == [row["task_id"].replace("::", "<::>") for row in raw]
    assert tasks[0].multi_turn == "N/A"
    assert tasks[0].question_types == ("Factoid",)
    assert tasks[1].references


def test_the_same_tasks_are_read_from_every_spelling(root: Path) -> None:
    def respell(rows: Rows) -> None:
        for row in rows:
            row["task_id"] = row["task_id"].replace("<::>", "::")
            row["turn"] = int(row["turn"])
            row["answerability"] = row.pop("Answerability")[0]
            row["collection"] = row.pop("Collection")
            if row["Multi-Turn"] == ["N/A"]:
                row["Multi-Turn"] = float("nan")

    before = load(root).tasks
    rewrite(root, respell)
    assert load(root).tasks == before


@pytest.mark.parametrize(
    ("collection", "domain"),
    [
        ("mt-rag-clapnq-elser-512-100-20240503", "clapnq"),
        ("mt-rag-ibmcloud-elser-512-100-20240502", "cloud"),
        ("ibmcloud", "cloud"),
        ("FiQA", "fiqa"),
        ("govt", "govt"),
        ("mt-rag-banking", None),
        ("", None),
        (None, None),
        (["clapnq"], None),
        ({"a": "-fiqa-"}, None),
    ],
)
def test_domain_of_every_spelling(collection: object, domain: str | None) -> None:
    assert domain_of(collection) == domain


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (b"", "at least one line"),
        (b" \n\n", "at least one line"),
        (b'{"task_id": "a<::>1", "inp', "line 1: expected one JSON object"),
        (b"\xff\xfe\x00", "text in UTF-16"),
        (b"\xef\xbb\xbf[1]", "row 1: expected one JSON object, found 1"),
        (b"\n\nnot json\n", "line 3: expected one JSON object"),
        (b"[1, 2]\n", "row 2: expected one JSON object, found 2"),
        (b"null\n", "line 1: expected one JSON object, found None"),
        (b'{"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}\n", "nested too deeply"),
        (b'{"a": "\\ud800"}\n', "surrogates"),
    ],
    ids=["empty", "blank", "cut", "utf-16", "bom", "no json", "array", "null", "deep", "surrogate"],
)
def test_a_file_that_is_not_json_lines_is_refused(root: Path, content: bytes, found: str) -> None:
    (root / REFERENCE).write_bytes(content)
    assert found in message_of(root)


def test_a_file_cut_in_the_middle_of_a_line_names_the_line(root: Path) -> None:
    path = root / REFERENCE
    content = path.read_bytes()
    n_lines = content.count(b"\n")
    path.write_bytes(content[:-40])
    text = message_of(root)
    assert f"line {n_lines}: expected one JSON object" in text
    assert f"expected {n_lines} tasks, found {n_lines - 1}" in text


def test_a_folder_in_place_of_the_file_is_refused(root: Path) -> None:
    (root / REFERENCE).unlink()
    (root / REFERENCE).mkdir()
    assert "no file" in message_of(root)


def _drop(key: str) -> Callable[[dict[str, Any]], object]:
    return lambda row: row.pop(key)


def _put(key: str, value: object) -> Callable[[dict[str, Any]], object]:
    return lambda row: row.update({key: value})


PASSAGE = {"document_id": "p-0-1", "text": "Words."}
PROBLEMS = {
    "no task_id": _drop("task_id"),
    "odd task_id": _put("task_id", 7),
    "other turn": _put("turn", "99"),
    "other conversation": _put("conversation_id", "x"),
    "no input": _drop("input"),
    "empty input": _put("input", []),
    "agent first": _put("input", [{"speaker": "agent", "text": "Hi"}]),
    "empty text": _put("input", [{"speaker": "user", "text": " "}]),
    "user twice": _put("input", [{"speaker": "user", "text": "a"}] * 2),
    "ends with the agent": _put("input", [{"speaker": "user", "text": "a"}, {"speaker": "agent", "text": "b"}]),
    "text as a message": _put("input", ["hello"]),
    "no target": _drop("targets"),
    "empty target": _put("targets", [{"text": ""}]),
    "no answerability": _drop("Answerability"),
    "unknown answerability": _put("Answerability", ["MAYBE"]),
    "two answerabilities": _put("Answerability", ["PARTIAL", "ANSWERABLE"]),
    "no collection": _drop("Collection"),
    "unknown collection": _put("Collection", "mt-rag-banking"),
    "no contexts": _drop("contexts"),
    "passage without id": _put("contexts", [{"text": "Words."}]),
    "passage without text": _put("contexts", [{**PASSAGE, "text": ""}]),
    "passage with a numeric title": _put("contexts", [{**PASSAGE, "title": 3}]),
    "passage twice": _put("contexts", [PASSAGE, PASSAGE]),
}


@pytest.mark.parametrize("name", PROBLEMS)
def test_a_bad_field_is_named_with_line_and_task(root: Path, name: str) -> None:
    rewrite(root, lambda rows: PROBLEMS[name](rows[2]))
    same_message(message_of(root))


def test_problems_of_several_lines_are_reported_together(root: Path) -> None:
    def break_three(rows: Rows) -> None:
        rows[0].pop("targets")
        rows[0]["Answerability"] = ["MAYBE"]
        rows[5]["Collection"] = "x"

    rewrite(root, break_three)
    text = message_of(root)
    assert "4 errors" in text  # and the count of tasks
    assert text.count("line 1 (") == 2
    assert "line 6 (" in text


def test_a_long_list_of_problems_is_truncated_and_counted(root: Path) -> None:
    rewrite(root, lambda rows: [row.pop("targets") for row in rows])
    text = message_of(root)
    assert text.count("\n  line ") == 3
    assert "(and 109 more like it)" in text


@pytest.mark.parametrize("spelling", ["<::>", "::"])
def test_a_repeated_task_names_both_lines(root: Path, spelling: str) -> None:
    def repeat(rows: Rows) -> None:
        rows.append({**rows[3], "task_id": rows[3]["task_id"].replace("<::>", spelling)})

    n_tasks = len(load(root).tasks)
    rewrite(root, repeat)
    text = message_of(root)
    assert f"line {n_tasks + 1} (" in text
    assert "the task of line 4 again" in text


def test_wrong_counts_are_refused(root: Path) -> None:
    rewrite(root, lambda rows: rows.pop())
    assert "file: expected 112 tasks, found 111" in message_of(root)


def test_wrong_histograms_are_refused(root: Path) -> None:
    def relabel(rows: Rows) -> None:
        rows[0]["Collection"] = "mt-rag-govt" if domain_of(rows[0]["Collection"]) != "govt" else "mt-rag-fiqa"
        rows[0]["Answerability"] = ["PARTIAL" if rows[0]["Answerability"] != ["PARTIAL"] else "ANSWERABLE"]

    rewrite(root, relabel)
    text = message_of(root)
    assert "tasks by domain" in text
    assert "tasks by answerability" in text


def test_a_copy_of_the_sample_without_its_statistics_is_not_an_official_copy(root: Path) -> None:
    (root / "sample.json").unlink()
    assert "expected 842 tasks, found 112" in message_of(root)


@pytest.mark.parametrize("facts", [b"", b"[]", b"{}", b'{"version": "1", "counts": {"tasks": 1}}', b"\xff"])
def test_invalid_statistics_of_a_sample_are_named(root: Path, facts: bytes) -> None:
    (root / "sample.json").write_bytes(facts)
    assert "sample.json" in message_of(root)


RETRIEVED = {Setting.FULL_RAG: f"{GENERATION}/RAG.jsonl", Setting.REFERENCE_RAG: f"{GENERATION}/reference+RAG.jsonl"}


@pytest.mark.parametrize(("setting", "name"), RETRIEVED.items(), ids=str)
def test_contexts_must_cover_exactly_the_tasks_of_their_setting(root: Path, setting: Setting, name: str) -> None:
    def swap(rows: Rows) -> None:
        rows[1]["task_id"] = "stranger<::>4"
        rows[1]["conversation_id"], rows[1]["turn"] = "stranger", "4"

    lost = json.loads((root / name).read_text(encoding="utf-8").splitlines()[1])["task_id"]
    rewrite(root, swap, name)
    text = message_of(root, setting)
    assert name in text
    assert f"file ({lost}): expected a line for this task" in text
    assert "file (stranger<::>4): expected only tasks of this setting" in text


@pytest.mark.parametrize("setting", RETRIEVED)
def test_contexts_with_problems_are_refused_together(root: Path, setting: Setting) -> None:
    def break_three(rows: Rows) -> None:
        rows.append(rows[0])
        rows[1]["contexts"] = [PASSAGE, PASSAGE]
        rows[2].pop("contexts")

    rewrite(root, break_three, RETRIEVED[setting])
    text = message_of(root, setting)
    assert "the task of line 1 again" in text
    assert "line 2" in text
    assert "each passage once" in text
    assert "`contexts` as a list" in text


@pytest.mark.parametrize("setting", RETRIEVED)
def test_missing_contexts_are_named(root: Path, setting: Setting) -> None:
    (root / RETRIEVED[setting]).unlink()
    assert RETRIEVED[setting] in message_of(root, setting)


# For any value of a field, the loader returns correct records or a clear error.

JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20).filter(lambda text: text.strip())
FIRST_ROW = json.loads((SAMPLE / REFERENCE).read_text(encoding="utf-8").splitlines()[1])
PLACES = [
    *((key,) for key in FIRST_ROW),
    ("contexts", 0),
    *(("contexts", 0, key) for key in ("document_id", "text", "title", "url")),
    ("input", 0),
    ("input", 0, "speaker"),
    ("input", 0, "text"),
    ("targets", 0),
    ("targets", 0, "text"),
    ("Answerability", 0),
    ("Question Type", 0),
    ("Multi-Turn", 0),
]


def write_one(root: Path, row: object) -> None:
    counts = {"tasks": 1, "by_domain": {}, "by_answerability": {}}
    (root / GENERATION).mkdir(parents=True, exist_ok=True)
    (root / REFERENCE).write_text(json.dumps(row) + "\n", encoding="utf-8")
    (root / "sample.json").write_text(json.dumps({"version": "0", "counts": counts}), encoding="utf-8")


@pytest.mark.slow
@pytest.mark.parametrize("place", PLACES, ids=str)
@settings(
    max_examples=25,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(value=JSON_VALUES)
def test_any_value_in_any_field_gives_an_error_and_never_a_crash(
    tmp_path: Path, place: tuple[Any, ...], value: object
) -> None:
    row = json.loads(json.dumps(FIRST_ROW))
    target = row
    for key in place[:-1]:
        target = target[key]
    target[place[-1]] = value
    write_one(tmp_path, row)
    with pytest.raises(BenchmarkFileError):  # the histograms in the statistics are never right
        load(tmp_path)


@settings(max_examples=40, deadline=None, derandomize=True, database=None)
@given(data=st.data())
def test_a_written_task_is_read_back(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    turn = data.draw(st.integers(1, 6))
    texts = data.draw(st.lists(TEXT, min_size=2 * turn - 1, max_size=2 * turn - 1))
    ids = data.draw(st.lists(TEXT, max_size=4, unique=True))
    label = data.draw(st.sampled_from(Answerability))
    domain = data.draw(st.sampled_from(DOMAINS))
    name = data.draw(st.uuids()).hex
    row = {
        "task_id": f"{name}{data.draw(st.sampled_from(['<::>', '::']))}{turn}",
        "turn": data.draw(st.sampled_from([turn, str(turn)])),
        "input": [{"speaker": ("user", "agent")[i % 2], "text": text} for i, text in enumerate(texts)],
        "targets": [{"speaker": "agent", "text": texts[0]}],
        data.draw(st.sampled_from(["Answerability", "answerability"])): data.draw(
            st.sampled_from([label.value, [label.value]])
        ),
        data.draw(st.sampled_from(["Collection", "collection"])): f"mt-rag-{domain}-x",
        "contexts": [{"document_id": passage_id, "text": texts[0]} for passage_id in ids],
        "Multi-Turn": float("nan"),
    }
    root = tmp_path_factory.mktemp("one")
    write_one(root, row)
    facts = json.loads((root / "sample.json").read_text(encoding="utf-8"))
    facts["counts"] |= {"by_domain": {domain: 1}, "by_answerability": {label.value: 1}}
    (root / "sample.json").write_text(json.dumps(facts), encoding="utf-8")
    (task,) = load(root).tasks
    assert isinstance(task, Task)
    assert (task.task_id, task.turn, task.domain) == (f"{name}<::>{turn}", turn, domain)
    assert task.answerability is label
    assert task.messages == tuple(Message((Role.USER, Role.ASSISTANT)[i % 2], text) for i, text in enumerate(texts))
    assert [passage.passage_id for passage in task.references] == ids
    assert (task.multi_turn, task.question_types) == ("N/A", ())
