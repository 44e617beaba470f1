"""Conversations in other languages than English: detection, words, answers and scores."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ragtasks.benchmarks import Benchmark, build_doc, open_benchmark
from ragtasks.cli import app
from ragtasks.config import EvaluationConfig
from ragtasks.errors import BenchmarkFileError
from ragtasks.harness.models import extract_answer
from ragtasks.harness.prompts import TaskPrompts
from ragtasks.languages import ENGLISH, UNKNOWN, words_of
from ragtasks.metrics import NgramIdk, extractiveness, k_precision, rouge_l, token_f1, token_recall, word_count
from ragtasks.prompts import shipped_template
from ragtasks.records import Answerability, IdkVerdict, Response, Setting
from ragtasks.results import read_own_rows

TWINS = Path(__file__).resolve().parents[1] / "examples" / "languages"
ENGLISH_SAMPLE = Path(__file__).resolve().parents[1] / "ragtasks" / "benchmarks" / "sample" / "custom"
CODES = ("de", "zh")


def twin(code: str, folder: Path) -> Benchmark:
    """Return a copy of a translated sample, because files are derived next to its own."""
    return open_benchmark("custom", Path(shutil.copytree(TWINS / code, folder / code)))


@pytest.mark.parametrize(
    ("language", "text", "words"),
    [
        ("de", "Der Müller-Straße 12, ja!", ["der", "müller", "strasse", "12", "ja"]),
        ("fr", "L\u2019été à la plage.", ["l", "été", "à", "la", "plage"]),
        ("zh", "我借５天\uff0cOK\uff1f", ["我", "借", "5", "天", "ok"]),
        ("ja", "工具を借りる", ["工", "具", "を", "借", "り", "る"]),
        ("ko", "공구를 빌림", ["공", "구", "를", "빌", "림"]),
        ("hi", "मुझे नहीं पता।", ["मुझे", "नहीं", "पता"]),
        ("ar", "لا أعرف؟ ٢٠", ["لا", "أعرف", "20"]),
        ("th", "ห้อง ๑๒ OK", ["ห", "\u0e49", "อ", "ง", "12", "ok"]),
    ],
)
def test_each_language_has_its_words(language: str, text: str, words: list[str]) -> None:
    assert words_of(text, language) == words
    assert word_count(text, language) == len(words)


def test_articles_are_removed_like_english_ones() -> None:
    assert words_of("Die Katze, eine Maus", "de", articles=False) == ["katze", "maus"]
    assert token_recall("Katze und Maus", "die Katze, eine Maus", "de") == 1.0
    assert token_f1("la plage", "une plage", "fr") == 1.0


def test_word_scores_support_other_scripts_and_leave_english_unchanged() -> None:
    answer, target = "手动工具可以借21天。", "手动工具借21天"
    assert rouge_l(answer, target, "zh") == pytest.approx(2 * 7 / (7 + 9))
    assert rouge_l(answer, target) == 1.0  # rouge-score only sees the 21
    assert k_precision(answer, ["手动工具可以借21天。电动工具只能借5天。"], "zh") == 1.0
    assert extractiveness("Er sagte: Handwerkzeug für 21 Tage!", ["handwerkzeug, für 21 tage"], "de") == 1.0
    for text, other in (("The Müllers' plan", "A plan of Müller"), ("it's 5 o'clock", "its five")):
        assert rouge_l(text, other, ENGLISH) == rouge_l(text, other)
        assert token_recall(text, other, ENGLISH) == token_recall(text, other)


@pytest.mark.parametrize("code", CODES)
def test_the_language_is_detected_unless_the_data_name_it(code: str, tmp_path: Path) -> None:
    assert {task.language for task in twin(code, tmp_path).tasks} == {code}
    rows = [json.loads(line) for line in (TWINS / code / "conversations.jsonl").read_text("utf-8").splitlines()]
    rows[0]["language"] = "nl"
    file = tmp_path / code / "conversations.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / code).rename(tmp_path / "named")
    languages = [task.language for task in open_benchmark("custom", tmp_path / "named").tasks]
    assert languages == ["nl"] * 3 + [code] * 7


def test_a_language_must_be_an_iso_code(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(TWINS / "de", tmp_path / "de"))
    file = folder / "conversations.jsonl"
    file.write_text(file.read_text("utf-8").replace('"domain"', '"language": "German", "domain"', 1), "utf-8")
    with pytest.raises(BenchmarkFileError, match="`language` as a code of ISO 639-1, such as 'de'"):
        open_benchmark("custom", folder)


def test_english_conversations_have_no_language_key(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(ENGLISH_SAMPLE, tmp_path / "en"))
    assert all("language" not in task.extra for task in open_benchmark("custom", folder).tasks)


def test_the_language_of_own_rows_is_detected(tmp_path: Path) -> None:
    rows = [
        {"question": "Wie lange darf ich einen Akkuschrauber behalten?", "answer": "5 Tage", "contexts": []},
        {"question": "Wer?", "answer": "Niemand", "contexts": []},
        {"question": "How long may I keep the drill?", "answer": "5 days", "language": "en", "contexts": []},
    ]
    file = tmp_path / "rows.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    own = read_own_rows(file)
    assert [task.language for task in own.benchmark.tasks] == ["de", "de", "en"]
    assert not own.unread


def rouge_of_rows(tmp_path: Path, *rows: tuple[str, str, str]) -> list[float]:
    """Return ROUGE-L of rows (question, answer, reference) in the suite for own rows."""
    file = tmp_path / "rows.jsonl"
    keys = ("question", "answer", "reference")
    file.write_text("".join(json.dumps(dict(zip(keys, row, strict=True))) + "\n" for row in rows))
    own = read_own_rows(file)
    return [rouge_l(own.answers[task.task_id].text, task.target, task.language) for task in own.benchmark.tasks]


LONG = ("Which of the rooms are open when it rains?", "The hall and the shop are open.", "The hall is open.")


@pytest.mark.parametrize("long_rows", [[], [LONG] * 3], ids=["alone", "among English rows"])
@pytest.mark.parametrize(
    ("answer", "reference", "value"),
    [
        ("Нина Орлова", "Орлова Нина", 1 / 2),
        ("Ζάκυνθος!", "ζάκυνθος", 1.0),
        ("مكتبة ١٢", "مكتبة 12", 1.0),
        ("ספר ירוק", "ספר", 2 / 3),
        ("हरी किताब", "हरी", 2 / 3),
        ("เล่ม", "เรา", 2 / 7),
        ("図書館", "図書室", 2 / 3),
        ("도서관", "도서실", 2 / 3),
        ("Ångström", "A\u030angstro\u0308m", 1.0),  # composed and decomposed
        ("Øst", "Åst", 0.0),  # rouge-score would count `st` twice
        ("\uff21\uff11\uff12", "a12", 1.0),  # full width
        ("Room 图书", "Room 书图", 2 / 3),
        ("Нина (Nina)", "Nina", 2 / 3),
        ("42", "42", 1.0),
    ],
)
def test_short_rows_are_split_by_their_script(
    tmp_path: Path, long_rows: list[tuple[str, str, str]], answer: str, reference: str, value: float
) -> None:
    *long, short = rouge_of_rows(tmp_path, *long_rows, ("?", answer, reference))
    assert short == pytest.approx(value)
    assert long == [rouge_l(LONG[1], LONG[2], ENGLISH)] * len(long_rows)


def test_another_script_is_detected_in_english_and_an_accent_is_not(tmp_path: Path) -> None:
    question = "What is the name of the book and how do they write it?"
    answers = [
        ("It is 红书", "It is 绿书"),
        ("It is Málaga", "It is Malaga"),
        ("It's Rød, a \u03c0 of a book they say", "Rød"),
    ]
    values = rouge_of_rows(tmp_path, *((question, *pair) for pair in answers))
    assert values == [3 / 4, *(rouge_l(*pair, ENGLISH) for pair in answers[1:])]


def test_scores_of_an_english_answer_to_an_unknown_question_are_unchanged(tmp_path: Path) -> None:
    answer, reference = "It's not what they'd say of the café, but it should be.", "They say that of the cafe."
    assert rouge_of_rows(tmp_path, ("?", answer, "Café"), ("?", answer, reference)) == [
        rouge_l(answer, "Café", ENGLISH),
        rouge_l(answer, reference, ENGLISH),
    ]


def test_an_unknown_language_with_ascii_letters_is_english() -> None:
    text, other = "The library\u2019s well-known e-book \u2014 it's U.S. made", "a well known ebook; made in US"
    assert token_recall(text, other, UNKNOWN) == token_recall(text, other, ENGLISH)
    assert token_f1(text, other, UNKNOWN) == token_f1(text, other, ENGLISH)
    assert k_precision(text, [other], UNKNOWN) == k_precision(text, [other], ENGLISH)
    assert extractiveness(text, [other], UNKNOWN) == extractiveness(text, [other], ENGLISH)
    assert word_count(text, UNKNOWN) == word_count(text, ENGLISH)


def test_passages_are_split_by_their_script() -> None:
    assert k_precision("Nova 7", ["新Nova 7上市"], UNKNOWN) == 1.0
    assert k_precision("the «Нова»", ["Нова, новый"], UNKNOWN) == 1.0
    assert extractiveness("Nova 7", ["新Nova 7上市"], UNKNOWN) == pytest.approx(4 / 7)


@pytest.mark.parametrize("code", CODES)
def test_only_prompts_in_other_languages_request_the_language(code: str, tmp_path: Path) -> None:
    rule = shipped_template("generation/answer_language").render().strip()
    for benchmark, has_rule in ((twin(code, tmp_path), True), (open_benchmark("custom", ENGLISH_SAMPLE), False)):
        doc = build_doc(benchmark, benchmark.tasks[0], Setting.REFERENCE, "references", ())
        text = TaskPrompts(EvaluationConfig(), {}).system_text(doc, None)
        assert text.endswith(f"\n\n{rule}") is has_rule
        assert (rule in text) is has_rule


def test_short_questions_are_searched_by_their_script_and_have_no_language_rule(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(TWINS / "zh", tmp_path / "zh"))
    turn = {"question": "地址?", "answer": "信", "references": ["lending-01"]}
    row = {"conversation_id": "short", "domain": "lending", "turns": [turn]}
    (folder / "conversations.jsonl").write_text(json.dumps(row))
    (folder / "qrels.tsv").unlink()
    benchmark = open_benchmark("custom", folder)
    (task,) = benchmark.tasks
    assert task.language == UNKNOWN
    first = benchmark.read_contexts(Setting.FULL_RAG).passages[task.task_id][0]
    assert first in task.references
    assert extract_answer(task.question, [first.text], UNKNOWN) == "请带一封写有您地址的信和一张带照片的证件。"
    doc = build_doc(benchmark, task, Setting.REFERENCE, "references", ())
    text = TaskPrompts(EvaluationConfig(), {}).system_text(doc, None)
    assert shipped_template("generation/answer_language").render().strip() not in text


@pytest.mark.parametrize("code", CODES)
def test_refusals_in_translated_samples_are_detected(code: str, tmp_path: Path) -> None:
    tasks = twin(code, tmp_path).tasks
    labels = NgramIdk().detect([Response(task, (), task.target) for task in tasks])
    expected = {Answerability.UNANSWERABLE: IdkVerdict.YES, Answerability.PARTIAL: IdkVerdict.PARTIAL}
    assert [label.verdict for label in labels] == [expected.get(task.answerability, IdkVerdict.NO) for task in tasks]


@pytest.mark.parametrize("code", CODES)
def test_the_built_in_search_finds_the_references(code: str, tmp_path: Path) -> None:
    benchmark = twin(code, tmp_path)
    passages = benchmark.read_contexts(Setting.FULL_RAG).passages
    wanted = [(task, reference) for task in benchmark.tasks for reference in task.references]
    assert sum(reference in passages[task.task_id] for task, reference in wanted) >= 8  # of 9, by unstemmed words


def test_the_extractive_baseline_splits_chinese_sentences() -> None:
    passages = ["手动工具可以借21天。电动工具只能借5天。", "柜台星期二开放。"]
    assert extract_answer("电动工具可以借多久\uff1f", passages) is None
    assert "电动工具只能借5天。" in (extract_answer("电动工具可以借多久\uff1f", passages, "zh") or "")


@pytest.mark.slow
@pytest.mark.parametrize("code", CODES)
def test_an_evaluation_runs_in_other_languages(code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAGTASKS_RUNS", str(tmp_path / "runs"))
    data = str(shutil.copytree(TWINS / code, tmp_path / code))
    line = {"de": "bm25:language=german", "zh": "bm25:language=chinese"}[code]

    def printed(*arguments: str) -> str:
        done = CliRunner().invoke(app, arguments)
        assert done.exit_code == 0, f"{done.output}\n{done.exception}"
        return done.output

    printed("retrieve", "--benchmark", "custom", "--data", data, "--retriever", line, "--name", "mine")
    assert "mine" in printed("evaluate-run", "mine", "--benchmark", "custom", "--data", data)
    results = str(tmp_path / "results")
    options = json.dumps({"data": data, "encoder": "none", "run": "mine"})
    model = ("--model", "ragtasks-oracle", "--tasks", "custom_full_rag", "--metadata", options)
    printed("run", *model, "--output_path", results, "--log_samples")
    again = str(tmp_path / "again")
    printed("score", results, "--output", again, "--encoder", "none", "--data", data)
    for folder in (results, again):
        assert "ragtasks-oracle (run mine) has ans_acc 1.000 in full_rag" in printed("report", folder, "--full")
