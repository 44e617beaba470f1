"""The page as a file: its contents, equal bytes for equal results, and escaping of all texts."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import sys
import zlib
from dataclasses import replace
from html.parser import HTMLParser
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragtasks import tables
from ragtasks.metrics import TurnErrorKind
from ragtasks.reports.page import files_folder, write_page
from ragtasks.reports.page_parts import (
    FAILURES,
    NO_VERDICT,
    UNSCORED,
    Stream,
    collect_parts,
    explained,
    failures_of,
    group_labels,
    name_evaluations,
    packed,
)
from ragtasks.reports.tables import NOT_USED, report_sections
from ragtasks.results import Group, ScoredAnswer, read_evaluations
from ragtasks.tables import Section, Table, Value
from tests.reports._pages import HOSTILE, TURNS, always, blocks_of, known_results, poison, write
from tests.reports._rows import row as any_row
from tests.reports._saved import Values, facts_of, save

MISSED, REFUSED, ANSWERED = (TurnErrorKind(name).label for name in ("missed", "refused_known", "answered_unknown"))
TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | TEXTS,
    lambda inner: st.lists(inner) | st.dictionaries(TEXTS, inner),
)


def unpacked(text: str) -> Any:
    return json.loads(zlib.decompress(base64.b64decode(text)))


@given(VALUES)
def test_a_block_unpacks_to_its_input_and_cannot_end_its_element(value: Any) -> None:
    assert unpacked(packed(value)) == value
    assert re.fullmatch(r"[A-Za-z0-9+/=]*", packed(value))


@given(st.lists(TEXTS | st.none() | st.lists(TEXTS, max_size=3), max_size=8))
def test_a_stream_is_the_array_of_its_items(items: list[Any]) -> None:
    stream = Stream()
    for item in items:
        stream.add(item)
    assert unpacked(stream.finish()) == items


def row(**changes: Any) -> ScoredAnswer:
    """Return an answered, answerable response with its only reference passage in the prompt."""
    return any_row(
        1, 0.5, **{"setting": "full_rag", "question_types": (), "values": {"rb_alg": 0.5}, "turn_error": ""} | changes
    )


@pytest.mark.parametrize(
    ("changes", "loss", "outcomes", "expected"),
    [
        ({}, None, [], []),
        ({}, 0.0, ["given", "no statements", "not asked"], []),
        ({}, 0.1, [], [NOT_USED]),
        ({"n_found": 0, "turn_error": "missed"}, 0.1, [], [MISSED]),
        ({"idk": "yes", "turn_error": "refused_known"}, 0.1, [], [REFUSED]),
        ({"turn_error": "answered_unknown", "answerability": "UNANSWERABLE"}, None, [], [ANSWERED]),
        ({"idk": "yes", "answerability": "UNANSWERABLE", "n_references": 0}, None, [], []),
        ({"values": {"rb_alg": None, "rouge_l": 0.5}}, None, [], [UNSCORED]),
        ({"values": {"rb_alg": 0.5, "rouge_l": None}}, None, [], []),
        ({"values": {"rouge_l": 0.5}}, None, [], [UNSCORED]),
        (
            {"turn_error": "refused_known", "values": {"rb_alg": None}},
            None,
            ["failed"],
            [REFUSED, UNSCORED, NO_VERDICT],
        ),
        ({}, None, ["given", "unparsable"], [NO_VERDICT]),
        ({"verdicts": {("rl_f", "a"): None}}, None, ["no statements"], []),
    ],
)
def test_a_response_has_the_expected_failures(
    changes: dict[str, Any], loss: float | None, outcomes: list[str], expected: list[str]
) -> None:
    assert failures_of(row(**changes), "rb_alg", loss, outcomes) == expected


def test_every_failure_is_explained_in_other_words_than_its_name() -> None:
    failures = explained("rb_alg")
    assert tuple(failures) == FAILURES
    assert len(set(FAILURES)) == len(FAILURES)
    assert all(meaning and meaning != name for name, meaning in failures.items())


def test_without_an_encoder_only_its_metric_is_unscored(tmp_path: Path) -> None:
    values: dict[str, Values] = {name: {"rb_alg": None, "ans_acc": 1.0} for name in ("a<::>1", "a<::>2", "b<::>1")}
    save(tmp_path, values=lambda task_id: values.get(task_id, {"rb_alg": None, "ans_acc": None}))
    write_page(read_evaluations([tmp_path]), [], tmp_path / "page.html")
    book, *_ = blocks = blocks_of(tmp_path / "page.html")
    unscored = 1 << FAILURES.index(UNSCORED)
    assert [bits & unscored for bits in blocks[book["parts"][0]["scores"]]["failures"]] == [0, 0, 0, unscored]
    meanings = {failure["name"]: failure["meaning"] for failure in book["failures"]}
    assert meanings[UNSCORED] == "ans_acc has no value; the table of metrics shows the reason"


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return known_results(tmp_path_factory.mktemp("results"))


@pytest.fixture(scope="module")
def page(results: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(results, tmp_path_factory.mktemp("page") / "page.html")


def test_settings_of_one_model_have_one_name_and_a_second_answer_another(results: Path) -> None:
    once = read_evaluations([results])
    assert [item.model for item in name_evaluations(once)] == ["high", "high", "low", "low"]
    twice = name_evaluations([*once, *once])
    assert [item.model for item in twice[4:]] == ["high #2", "high #2", "low #2", "low #2"]


def test_a_loss_is_measured_from_the_same_models_reference_setting(results: Path) -> None:
    losses = {
        (item.model, own.setting): item.loss(own)
        for item in name_evaluations(read_evaluations([results]))
        for own in item.evaluation.rows
    }
    assert losses == pytest.approx(
        {("high", "reference"): 0, ("high", "full_rag"): 0, ("low", "reference"): 0, ("low", "full_rag"): 0.3}
    )


def of_metrics(folder: Path) -> Path:
    """Save one model whose rb_alg falls from reference to full RAG, and whose rouge_l rises."""
    for day, (setting, rb_alg, rouge_l) in enumerate((("reference", 0.75, 0.25), ("full_rag", 0.25, 0.5)), start=1):
        values: Values = {"rb_alg": rb_alg, "rouge_l": rouge_l}
        save(folder, day=day, setting=setting, values=always(values))
    return folder


@pytest.mark.parametrize(
    ("metrics", "metric", "is_not_used"),
    [
        ((), "rb_alg", True),
        (("rb_alg",), "rb_alg", True),
        (("rouge_l",), "rouge_l", False),
        (("rouge_l", "rb_alg"), "rouge_l", False),
        (("rl_f", "rouge_l", "rb_alg"), "rouge_l", False),  # in the suite, but without a value here
        (("accuracy",), "rb_alg", True),  # of another suite
    ],
)
def test_losses_use_the_first_requested_metric_with_values_and_the_page_names_it(
    metrics: tuple[str, ...], metric: str, is_not_used: bool, tmp_path: Path
) -> None:
    page = tmp_path / "page.html"
    write_page(read_evaluations([of_metrics(tmp_path)]), [], page, metrics=metrics)
    book, *_ = blocks = blocks_of(page)
    meanings = {failure["name"]: failure["meaning"] for failure in book["failures"]}
    assert meanings[NOT_USED].endswith(f"and {metric} is worse than in setting reference")
    assert (f"<dd>{meanings[NOT_USED]}</dd>" in page.read_text(encoding="utf-8")) is is_not_used
    (full_rag,) = (part for part in book["parts"] if part["setting"] == "full_rag")
    bit = 1 << FAILURES.index(NOT_USED)
    assert {bool(bits & bit) for bits in blocks[full_rag["scores"]]["failures"]} == {is_not_used}


def test_losses_of_several_metrics_are_named_by_part(tmp_path: Path) -> None:
    def without_encoder(results: dict[str, Any]) -> None:
        facts_of(results)["scoring"]["encoder"] = "none"

    save(tmp_path / "a", values=always({"rb_alg": 0.5}))
    save(tmp_path / "b", values=always({"rb_alg": None, "rouge_l": 0.5}), change=without_encoder)
    write_page(read_evaluations([tmp_path]), [], tmp_path / "page.html")
    meanings = {failure["name"]: failure["meaning"] for failure in blocks_of(tmp_path / "page.html")[0]["failures"]}
    assert "and rb_alg (encoder minilm) or rouge_l (encoder none) is worse" in meanings[NOT_USED]


def test_a_metric_without_a_better_direction_has_no_loss(tmp_path: Path) -> None:
    for day, (setting, value) in enumerate((("reference", 0.0), ("full_rag", 1.0)), start=1):
        save(tmp_path, day=day, setting=setting, values=always({"idk_yes": value}))
    found = name_evaluations(read_evaluations([tmp_path]))
    assert {item.loss(own) for item in found for own in item.evaluation.rows} == {None}


def test_without_the_reference_setting_losses_are_unknown(tmp_path: Path) -> None:
    save(tmp_path, setting="full_rag")
    (named,) = name_evaluations(read_evaluations([tmp_path]))
    assert [named.loss(own) for own in named.evaluation.rows] == [None] * 4


def test_labels_of_groups_contain_only_differences() -> None:
    def group(encoder: str, revision: str, **more: str) -> Group:
        scored = {"data revision": revision, "encoder of BERTScore": encoder, **more}
        return ("mtrag", encoder, "ngrams-2"), "mtrag", tuple(scored.items())

    one, two, three = group("minilm", "v1"), group("none", "v1"), group("none", "v2", retriever="bm25")
    assert group_labels([one, one]) == {one: ""}
    assert group_labels([one, two]) == {one: "encoder minilm", two: "encoder none"}
    assert group_labels([two, three]) == {
        two: "data revision v1; retriever -",
        three: "data revision v2; retriever bm25",
    }


def test_only_models_with_the_same_scoring_are_offered_for_comparison(tmp_path: Path) -> None:
    for name, revision in (("a", "v1"), ("b", "v1"), ("c", "v2")):
        save(tmp_path / name, name, change=lambda results, own=revision: facts_of(results).update(revision=own))
    write_page(read_evaluations([tmp_path]), [], tmp_path / "page.html")
    parts = blocks_of(tmp_path / "page.html")[0]["parts"]
    assert [(part["label"], part["differs"], part["group"]) for part in parts] == [
        ("a · data revision v1", "data revision v1", 0),
        ("b · data revision v1", "data revision v1", 0),
        ("c · data revision v2", "data revision v2", 1),
    ]


def test_shared_facts_are_a_list_and_not_a_table(results: Path, tmp_path: Path) -> None:
    for n, has_table in ((1, False), (2, True)):
        evaluations = read_evaluations([results])[:n]
        write_page(evaluations, [], tmp_path / "page.html")
        text = (tmp_path / "page.html").read_text(encoding="utf-8")
        card = text.partition("<h2>Basis of the scores</h2>")[2].partition("</article>")[0]
        assert '<dl class="provenance">' in card
        assert ("<table" in card) == has_table
        assert "system prompt" in card


def test_the_page_names_the_file_of_a_numbered_name(results: Path, tmp_path: Path) -> None:
    for name in ("1", "2"):
        save(tmp_path / name, "A")
    write_page(read_evaluations([tmp_path]), [], tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    rows = [re.findall(r"<t[hd][^>]*>(.*)</t[hd]>", row) for row in text.split("<tr>") if "results_2026" in row]
    assert [(row[0], row[-1]) for row in rows] == [
        ("A", "1/results_2026-01-01.json"),
        ("A #2", "2/results_2026-01-01.json"),
    ]


def test_a_score_that_rounds_to_zero_has_no_sign(tmp_path: Path) -> None:
    table = Table("t", ("x",), ((Value(-0.0004, 1, 1, -0.0004, 0.0004),),))
    write_page([], [Section("s", {}, (table,))], tmp_path / "page.html")
    assert ">0.000<small>0.000 to 0.000</small></td>" in (tmp_path / "page.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("score", "expected"),
    [
        (Value(0.5, 10, 10), "n&nbsp;=&nbsp;10"),
        (Value(0.5, 8, 10), "n&nbsp;=&nbsp;10 (8/10)"),
        (Value(0.5, 8, 10, n_tasks=108), "n&nbsp;=&nbsp;10 (8/10) (10 of 108 tasks)"),
    ],
)
def test_a_drawn_score_shows_its_coverage(tmp_path: Path, score: Value, expected: str) -> None:
    conclusion = Table("Conclusion", ("setting", "model", "n", "rb_alg"), (("full_rag", "m", 10, score),))
    write_page([], [Section("s", {}, (), conclusion)], tmp_path / "page.html")
    assert f"full RAG <small>{expected}</small>" in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_a_cell_without_a_score_is_only_a_dash(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert 'class="number" data-value="">\u2013</td>' in text  # `Score(None, 0, 9)`
    assert "<small>1 of 2</small>" in text


def test_text_between_backticks_is_code_without_markup(tmp_path: Path) -> None:
    table = Table("t", ("x",), ((1,),), 'Add `"run": "<b>"` to <i> and a ` alone.')
    write_page([], [Section("s", {}, (table,))], tmp_path / "page.html")
    expected = "Add <code>&#34;run&#34;: &#34;&lt;b&gt;&#34;</code> to &lt;i&gt; and a ` alone."
    assert f'<p class="quiet">{expected}</p>' in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_every_text_and_score_is_in_the_blocks(page: Path) -> None:
    book, *_ = blocks = blocks_of(page)
    assert [(part["label"], part["setting"]) for part in book["parts"]] == [
        (model, setting) for model in ("high", "low") for setting in ("reference", "full_rag")
    ]
    low = book["parts"][3]
    scores = blocks[low["scores"]]
    tasks = [blocks[book["benchmarks"]["mtrag"]["tasks"]][number] for number in scores["task"]]
    assert [task[0] for task in tasks] == [f"{conversation}<::>{turn}" for conversation, turn in TURNS]
    assert scores["answer"][0] == "answer to a 1"
    assert scores["values"] == {"rb_alg": [0.3] * 12, "rouge_l": [None] * 12}
    assert scores["unscored"] == {"rouge_l": {str(number): "why not" for number in range(12)}}
    names = [failure["name"] for failure in book["failures"]]
    result = [[name for bit, name in enumerate(names) if bits >> bit & 1] for bits in scores["failures"][:4]]
    assert result == [[NOT_USED], [REFUSED], [ANSWERED], [MISSED]]  # rouge_l has no value, and does not lead
    assert [len(own) for own in blocks[low["verdicts"]]] == [0] * 4 + [2] * 4 + [0] * 4
    assert blocks[low["verdicts"]][4][1] == [
        "rb_llm", "flaky", "unparsable", None, None, "no rating", ["hm", "Rating 1: 7"], 2,
    ]  # fmt: skip


def test_tasks_passages_and_histories_are_stored_once(page: Path) -> None:
    book, *_ = blocks = blocks_of(page)
    text_store = book["benchmarks"]["mtrag"]
    texts = {domain: blocks[number] for domain, number in text_store["texts"].items()}
    # `vary` changes only the passages of turn 4 and the domain of b. Two models and settings share everything else.
    assert len(blocks[text_store["tasks"]]) == 12
    assert {domain: len(own["passages"]) for domain, own in texts.items()} == {"govt": 4, "fiqa": 4}
    assert {domain: len(own["histories"]) for domain, own in texts.items()} == {"govt": 4, "fiqa": 4}


def test_the_same_results_give_the_same_bytes(page: Path, results: Path, tmp_path: Path) -> None:
    assert write(results, tmp_path / "again.html").read_bytes() == page.read_bytes()


def test_the_digest_is_that_of_the_file(results: Path, tmp_path: Path) -> None:
    digest = write_page(read_evaluations([results]), [], tmp_path / "page.html")
    assert digest == hashlib.sha256((tmp_path / "page.html").read_bytes()).hexdigest()


class Elements(HTMLParser):
    """The elements of a page, without those of data blocks."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


def test_hostile_texts_add_no_element_and_are_unchanged_in_the_blocks(tmp_path: Path) -> None:
    save(tmp_path, "model" + HOSTILE, change_sample=poison)
    text = write(tmp_path, tmp_path / "page.html", hostile=True).read_text(encoding="utf-8")
    scripts = [attributes for tag, attributes in Elements(text).found if tag == "script"]
    assert [own for own in scripts if "type" not in own] == [{}]
    assert not [attributes for _, attributes in Elements(text).found if any(name[:2] == "on" for name in attributes)]
    assert "<script>window.harmed" not in text
    assert HOSTILE in blocks_of(tmp_path / "page.html")[2]["passages"][0][2]


def test_the_content_policy_lets_only_our_own_style_and_script_run(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]*)"', text)
    for tag, directive in (("style", "style-src"), ("script", "script-src")):
        (inner,) = re.findall(rf"<{tag}>(.*?)</{tag}>", text, flags=re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(inner.encode()).digest()).decode()
        assert f"{directive} 'sha256-{digest}'" in policy
    assert policy.startswith("default-src 'none'")


def test_our_own_files_parse_no_markup_and_load_nothing() -> None:
    folder = resources.files("ragtasks.reports").joinpath("assets")
    script, style, template = (folder.joinpath(f"page.{end}").read_text() for end in ("js", "css", "html.jinja"))
    assert not re.search(r"innerHTML|outerHTML|insertAdjacent|document\.write|eval\(|Function\(|fetch\(|</", script)
    assert not re.search(r"url\(|@import|</", style)
    assert not re.search(r"https?:|\bsrc=\"(?!{{ picture }})|\|\s*safe", template)


def test_the_page_names_no_path_of_the_machine_and_no_secret(page: Path) -> None:
    text = page.read_text(encoding="utf-8") + json.dumps(blocks_of(page))
    assert "/home/someone" not in text
    assert "sk-secret" not in text


def test_evaluations_without_logged_samples_have_tables_only(results: Path, tmp_path: Path) -> None:
    given = [replace(evaluation, samples={}) for evaluation in read_evaluations([results])]
    write_page(given, [], tmp_path / "page.html")
    assert blocks_of(tmp_path / "page.html")[0]["parts"] == []


def test_a_page_without_evaluations_can_be_written(tmp_path: Path) -> None:
    write_page([], [], tmp_path / "page.html")
    assert blocks_of(tmp_path / "page.html")[0]["parts"] == []


def test_the_page_of_the_harness_own_output(evaluations: Path, tmp_path: Path) -> None:
    found = read_evaluations([evaluations])
    write_page(found, [], tmp_path / "page.html")
    book, *_ = blocks = blocks_of(tmp_path / "page.html")
    assert "Sample data" in (tmp_path / "page.html").read_text(encoding="utf-8")
    assert len(book["parts"]) == 6
    assert sum(len(blocks[part["scores"]]["task"]) for part in book["parts"]) == sum(len(item.rows) for item in found)
    shown = blocks[book["parts"][0]["scores"]]
    assert all(len(column) == len(shown["task"]) for column in shown["values"].values())


def test_a_large_page_is_an_index_with_files_of_the_same_blocks(tmp_path: Path) -> None:
    results = known_results(tmp_path / "results")
    complete, index = write(results, tmp_path / "whole.html"), write(results, tmp_path / "index.html", most_bytes=0)
    assert not files_folder(complete).exists()
    files = {file.name: file.read_text() for file in files_folder(index).iterdir()}
    result = sorted(
        re.fullmatch(r'ragtasksBlock\((\d+),"([A-Za-z0-9+/=]*)"\)', text).groups() for text in files.values()
    )
    packed = re.findall(r'id="block-(\d+)">([^<]*)<', complete.read_text("utf-8"))
    assert result == sorted(packed[1:])
    assert blocks_of(index) == blocks_of(complete)[:1]
    prefixes = {name.partition("-")[0] for name in files}
    assert f'data-files="index_files/{prefixes.pop()}-"' in index.read_text("utf-8")
    assert not prefixes


def test_writing_a_page_again_removes_the_files_of_the_previous_page(tmp_path: Path) -> None:
    page = write(known_results(tmp_path / "results"), tmp_path / "page.html", most_bytes=0)
    (files_folder(page) / "mine.txt").write_text("kept")
    before = set(files_folder(page).iterdir())
    save(tmp_path / "results", "another", day=9, tasks=TURNS)
    write(tmp_path / "results", page, most_bytes=0)
    assert before & set(files_folder(page).iterdir()) == {files_folder(page) / "mine.txt"}
    (files_folder(page) / "mine.txt").unlink()
    write(tmp_path / "results", page)
    assert not files_folder(page).exists()
    assert len(blocks_of(page)) > 1


@pytest.mark.skipif(sys.platform != "linux", reason="open files are read from /proc")
def test_many_models_need_few_open_files(tmp_path: Path) -> None:
    import resource

    for number in range(80):
        save(tmp_path / f"{number}", f"model-{number}")
    evaluations = read_evaluations([tmp_path])
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    is_open = {int(file.name) for file in Path("/proc/self/fd").iterdir()}
    free = [number for number in range(len(is_open) + 60) if number not in is_open]
    resource.setrlimit(resource.RLIMIT_NOFILE, (free[50], hard))
    try:
        parts, _ = collect_parts(evaluations)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert [part.model for part in parts] == [one.model for one in evaluations]
    assert {len(part) for part in parts} == {4}


def test_scores_that_are_read_together_are_one_cell(tmp_path: Path) -> None:
    pair = tables.NamedValues({"answered": Value(0.9, 9, 9), "declined": Value(None, 0, 9)})
    table = Table("By setting", ("setting", "model", "answered / declined"), (("full_rag", "m", pair),))
    write_page([], [Section("mtrag", {}, (table,))], tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert '<td data-head="answered / declined" class="number">0.900 / -</td>' in page


def test_survival_curves_are_steps_with_bands_and_escaped_names(tmp_path: Path) -> None:
    rows = tuple(
        (turn, model, 20, 1, Value(share, 9, 9, *((share - 0.1, share + 0.1) if turn == 2 else ())))
        for turn, share in ((1, 0.9), (2, 0.6))
        for model in ("a", HOSTILE)
    )
    table = Table("Conversations by turn", ("turn", "model", "at risk", "first failures", "no failure yet"), rows)
    write_page([], [Section("mtrag", {}, (table,))], tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    curves = page[page.index('<div class="curves">') : page.index('<span class="turns">')]
    for steps in re.split('(?=y1="0.0%")', curves)[1:]:
        assert re.findall(r'y2="([\d.]+)%"', steps)[:4] == ["10.0", "10.0", "40.0", "40.0"]
    assert re.findall(r'class="band colour-0" x="([\d.]+)%" width="([\d.]+)%" y="([\d.]+)%"', curves) == [
        ("50.0", "50.0", "30.0"),
    ]
    assert HOSTILE not in page


def test_both_sides_of_the_accuracy_are_in_one_cell(tmp_path: Path) -> None:
    save(tmp_path / "m", values=lambda _: {"rb_alg": 0.5, "ans_acc": 0.75})
    evaluations = read_evaluations([tmp_path])
    write_page(evaluations, report_sections(evaluations), page := tmp_path / "page.html")
    text = page.read_text(encoding="utf-8")
    assert '<td data-head="answered / declined" class="number">0.750 / -</td>' in text
