"""The leaderboard page: ranks, tables, and escaping of all texts."""

from __future__ import annotations

import html
import re
import shutil
from collections.abc import Mapping
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragtasks.reports.history import History, Skipped, read_history
from ragtasks.reports.leaderboard import Board, leaderboard_tables, write_leaderboard
from ragtasks.reports.page import content_policy
from tests.reports._saved import TASKS, facts_of, save
from tests.reports.test_history import command


def add(folder: Path, model: str, value: float | None, **options: Any) -> None:
    """Save an evaluation whose first metric is equal for all tasks."""
    save(folder / f"{model}-{len(list(folder.iterdir()))}", model, values=lambda _: {"rb_alg": value}, **options)


def tables_of(folder: Path) -> list[Board]:
    return leaderboard_tables(read_history(folder, is_ranked=True).entries)


class Page(HTMLParser):
    """The contents of a page as a browser finds them."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, Mapping[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def page_of(folder: Path) -> str:
    write_leaderboard(read_history(folder, is_ranked=True), folder, folder / "page.html")
    return (folder / "page.html").read_bytes().decode()  # as it is, line ends too


def test_models_are_ranked_by_the_first_metric_with_ties_and_gaps(tmp_path: Path) -> None:
    for model, value in {"low": 0.1, "b": 0.7, "gone": None, "a": 0.7, "top": 0.9}.items():
        add(tmp_path, model, value)
    (table,) = tables_of(tmp_path)
    assert [(standing.rank, standing.entry.model) for standing in table.standings] == [
        (1, "top"),
        (2, "a"),
        (2, "b"),
        (4, "low"),
        (None, "gone"),
    ]


def test_scores_have_intervals_and_insignificant_differences_to_the_best_are_ties(tmp_path: Path) -> None:
    tasks = tuple((f"c{number}", turn) for number in range(12) for turn in (1, 2))
    scores = {"top": 0.9, "near": 0.9, "far": 0.2, "ragtasks-oracle": 1.0}
    for model, value in scores.items():

        def of(task_id: str, model: str = model, value: float = value) -> dict[str, float | None]:
            number = int(task_id[1:].partition("<")[0])
            return {"rb_alg": value - (0.1 if model == "near" and number == 0 else 0.0) - number / 200}

        save(tmp_path / model, model, tasks=tasks, values=of)
    (table,) = tables_of(tmp_path)
    top, near, far, oracle = table.standings
    assert [(standing.rank, standing.entry.model) for standing in table.standings] == [
        (1, "top"),
        (2, "near"),
        (3, "far"),
        (None, "ragtasks-oracle"),
    ]
    assert (top.is_best, near.is_tie, far.is_tie, oracle.is_tie) == (True, True, False, False)
    assert near.difference == pytest.approx(-0.1 / 12)
    assert far.p < 0.02
    mean = far.entry.means["rb_alg"]
    assert mean.low < mean.value < mean.high
    text = page_of(tmp_path)
    assert text.count('class="tie"') == 1
    assert "baseline: not ranked" in text
    assert re.findall(r'best in this column">([0-9.]+)', text) == ["0.873"]


def test_p_is_corrected_for_all_pairs_of_models(tmp_path: Path) -> None:
    tasks = tuple((f"c{number:02}", 1) for number in range(12))

    def p_of(*models: str) -> float:
        folder = tmp_path / "-".join(models)
        for model in models:

            def of(task_id: str, model: str = model) -> dict[str, float | None]:
                number = int(task_id[1:].partition("<")[0])
                return {"rb_alg": 0.6 if model == "top" else 0.5 + (number % 3) / 20}

            save(folder / model, model, tasks=tasks, values=of)
        (table,) = tables_of(folder)
        return float(next(standing.p for standing in table.standings if standing.entry.model == models[-1]) or 0.0)

    assert p_of("top", "a", "b", "c", "d") == pytest.approx(10 * p_of("top", "d"))


def test_below_ten_conversations_no_score_is_marked_as_best(tmp_path: Path) -> None:
    for number, n in enumerate((9, 10)):
        folder = tmp_path / str(n)
        for model, value in {"top": 0.9, "low": 0.5}.items():
            tasks = tuple((f"c{index}", 1) for index in range(n))
            save(folder / model, model, tasks=tasks, values=lambda _, value=value: {"rb_alg": value})
        page = page_of(folder)
        assert page.count("best in this column") == number
        assert page.count("Fewer than 10 conversations (9): too few for a test") == 1 - number


def test_a_best_mean_by_unscored_hard_tasks_is_marked(tmp_path: Path) -> None:
    tasks = tuple((f"c{number}", 1) for number in range(24))
    for model in ("choosy", "honest"):

        def of(task_id: str, model: str = model) -> dict[str, float | None]:
            number = int(task_id[1:].partition("<")[0])
            if number < 12:
                return {"rb_alg": 0.8 + (number % 3) / 100 + (0.1 if model == "honest" else 0.0)}
            return {"rb_alg": 0.3 + (number % 5) / 100 if model == "honest" else None}

        save(tmp_path / model, model, tasks=tasks, values=of)
    (table,) = tables_of(tmp_path)
    assert [(standing.entry.model, standing.is_best, standing.is_ahead) for standing in table.standings] == [
        ("choosy", True, False),
        ("honest", False, True),
    ]
    assert "better on shared tasks" in page_of(tmp_path)


def test_better_or_cheaper_systems_are_on_the_front(tmp_path: Path) -> None:
    tasks = tuple((f"c{number}", 1) for number in range(12))
    taken = {"good": (0.9, 10.0), "cheap": (0.5, 1.0), "bad": (0.4, 12.0), "uncounted": (0.3, None)}
    for index, (model, (quality, seconds)) in enumerate(taken.items()):

        def of(
            task_id: str, index: int = index, quality: float = quality, seconds: float | None = seconds
        ) -> dict[str, float | None]:
            noise = (index + 1) * int(task_id[1:].partition("<")[0]) / 1000
            counted = {} if seconds is None else {"seconds": seconds + noise}
            return {"rb_alg": quality - noise, "rouge_l": 0.5, **counted}

        save(tmp_path / model, model, tasks=tasks, values=of)
    (table,) = tables_of(tmp_path)
    assert {standing.entry.model: standing.front for standing in table.standings} == {
        "good": "on it",
        "cheap": "on it",
        "bad": "beaten by good, cheap",
        "uncounted": "",
    }
    assert [metric.name for metric in table.metrics] == ["rb_alg", "seconds", "rouge_l"]
    assert [front.strip() for front in re.findall(r"<small>front: (.*?)</small>", page_of(tmp_path))] == [
        "on it",
        "on it",
        "beaten by good, cheap",
    ]


def test_implausible_answers_are_reported_below_the_name(tmp_path: Path) -> None:
    def leaked(sample: dict[str, Any]) -> None:
        sample["doc"]["scoring"]["implausible"] = {"leaked": "<b>its reference</b>"}

    add(tmp_path, "honest", 0.5, change_sample=lambda sample: sample["doc"]["scoring"].update(implausible={}))
    add(tmp_path, "cheat", 0.9, change_sample=leaked)
    page = page_of(tmp_path)
    assert re.findall(r"<small>(implausible: .*?)</small>", page) == [
        "implausible: 4 of 4 answers (100%) contain their reference answer word for word"
    ]


def test_the_better_of_two_scores_is_marked_and_equal_scores_are_not(tmp_path: Path) -> None:
    tasks = tuple((f"c{number}", 1) for number in range(10))
    for model, value in {"a": 0.5, "b": 0.25}.items():
        save(tmp_path / model, model, tasks=tasks, values=lambda _, value=value: {"rb_alg": value, "rouge_l": 0.75})
    (table,) = tables_of(tmp_path)
    assert table.best == {"rb_alg": 0.5}
    assert re.findall(r'best in this column">([0-9.]+)', page_of(tmp_path)) == ["0.500"]


def test_a_metric_whose_lower_values_are_better_ranks_them_first(tmp_path: Path) -> None:
    for model, value in {"often": 0.75, "never": 0.0}.items():
        save(tmp_path / model, model, values=lambda _, value=value: {"idk_yes": value, "empty": value})
    (table,) = tables_of(tmp_path)
    assert [metric.name for metric in table.metrics] == ["empty", "idk_yes"]
    assert [standing.entry.model for standing in table.standings] == ["never", "often"]
    assert 'aria-sort="ascending"' in page_of(tmp_path)


def test_a_metric_without_a_better_direction_does_not_rank(tmp_path: Path) -> None:
    for model, value in {"often": 0.75, "never": 0.0}.items():
        save(tmp_path / model, model, values=lambda _, value=value: {"idk_yes": value})
    (table,) = tables_of(tmp_path)
    assert [(standing.rank, standing.entry.model) for standing in table.standings] == [(None, "never"), (None, "often")]
    assert not table.best
    text = page_of(tmp_path)
    assert ' aria-sort="' not in text
    assert "<dt>idk_yes</dt>" in text


def test_empty_responses_are_next_to_the_ranking_score_with_a_note(tmp_path: Path) -> None:
    values = {"rb_alg": None, "ans_acc": 0.75, "rouge_l": 0.5}
    save(tmp_path / "silent", "silent", values=lambda _: {**values, "empty": 1.0})
    save(tmp_path / "other", "other", values=lambda _: {**values, "empty": 0.0})
    (table,) = tables_of(tmp_path)
    assert [metric.name for metric in table.metrics] == [
        *("ans_acc", "empty", "answered", "rouge_l", "rb_alg", "declined", "balanced_ans_acc")
    ]
    text = page_of(tmp_path)
    assert "Some responses are empty; <code>empty</code>: share of responses without any text." in text
    (tmp_path / "silent" / "results_2026-01-01.json").unlink()
    (table,) = tables_of(tmp_path)
    assert [metric.name for metric in table.metrics] == [
        *("ans_acc", "answered", "rouge_l", "empty", "rb_alg", "declined", "balanced_ans_acc")
    ]
    assert "are empty" not in page_of(tmp_path)


def test_the_suite_is_in_the_heading_if_it_is_not_the_benchmarks_own(tmp_path: Path) -> None:
    def change(results: dict[str, Any]) -> None:
        facts_of(results).update(suite="rewriting_conditional")

    save(tmp_path / "m", change=change, values=lambda _: {"ndcg_5": 0.5, "no_rewrite": 0.0})
    text = page_of(tmp_path)
    assert "mtrag, rewriting_conditional \u00b7 reference</h2>" in text
    assert "share of replies that say <code>no_rewrite</code>" in text


def test_a_metric_without_values_does_not_rank(tmp_path: Path) -> None:
    for model, value in {"a": 0.25, "b": 0.75}.items():
        save(tmp_path / model, model, values=lambda _, value=value: {"rb_alg": None, "ans_acc": value})
    (table,) = tables_of(tmp_path)
    assert [metric.name for metric in table.metrics] == [
        "ans_acc",
        "answered",
        "rb_alg",
        "declined",
        "balanced_ans_acc",
    ]
    assert [standing.entry.model for standing in table.standings] == ["b", "a"]


def test_only_comparable_evaluations_share_a_table(tmp_path: Path) -> None:
    changes: list[dict[str, Any]] = [
        {},
        {"change": lambda results: facts_of(results).update(fingerprint="other")},  # still the same table
        {"setting": "full_rag"},
        {"tasks": TASKS[:2]},
        {"change": lambda results: facts_of(results).update(benchmark="mtrag (sample)")},
        {"change": lambda results: facts_of(results).update(revision="other")},
        {"change": lambda results: facts_of(results)["scoring"].update(encoder="none")},
        {"change": lambda results: facts_of(results)["scoring"].update(judges="j")},
        {"change": lambda results: facts_of(results)["prompts"].update(system="mine (cc)")},
        {"change": lambda results: facts_of(results)["configuration"].update(max_words=50)},
    ]
    for number, options in enumerate(changes):
        add(tmp_path, f"m{number}", 0.5, **options)
    tables = tables_of(tmp_path)
    assert sorted(len(table.standings) for table in tables) == [1, 1, 1, 1, 1, 1, 1, 1, 2]
    text = page_of(tmp_path)
    assert text.count("<table>") == len(tables)
    assert text.count("not benchmark scores") == 1


def test_differences_of_requests_are_below_the_model(tmp_path: Path) -> None:
    for model, template in (("a", None), ("b", "{{ messages }}"), ("c", "")):  # c: a chat endpoint
        add(tmp_path, model, 0.5, change=lambda results, template=template: results.update(chat_template=template))
    (table,) = tables_of(tmp_path)
    assert table.request_fields == ("chat template applied",)
    assert re.findall(r"<small>(chat.*)</small>", page_of(tmp_path)) == [
        f"chat template applied: {word}" for word in ("no", "yes", "yes")
    ]


def test_the_page_shows_scores_coverage_and_provenance_but_nothing_private(tmp_path: Path) -> None:
    scores = {"a<::>1": 0.5, "a<::>2": 0.25, "b<::>1": None, "b<::>2": 0.0}
    prompts = {"system": "/home/someone/mine.jinja (aa)", "plain": "generation/plain (bb)"}
    save(
        tmp_path / "m",
        "org/m",
        values=lambda task_id: {"rb_alg": scores[task_id]},
        change=lambda results: facts_of(results).update(prompts=prompts),
    )
    text = page_of(tmp_path)
    assert re.search(r'data-number="0\.25">0\.250 <small title="scored / all">\(3/4\)</small>', text)
    for shown in ("cc5b1d4", "mine.jinja (aa)", "0.4.13", "m/results_2026-01-01.json", "2026-01-01 00:00"):
        assert shown in text
    for hidden in ("sk-secret", "/home/someone", str(tmp_path)):
        assert hidden not in text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("/home/someone/models/mine", "mine"),
        ("/home/some one/mine/ (run bm25.x)", "mine/ (run bm25.x)"),
        ("C:\\Users\\someone\\mine", "mine"),
        ("org/model", "org/model"),
        ("./mine", "./mine"),
        ("openai/gpt, /srv/models/judge", "openai/gpt, judge"),
        ("minilm; /srv/enc", "minilm; enc"),
        ("dense:/srv/enc", "dense:enc"),
        ("http://localhost:8000/v1", "http://localhost:8000/v1"),
        ('{"dtype": "auto", "pretrained": "/srv/a/b c"}', '{"dtype": "auto", "pretrained": "b c"}'),
    ],
)
def test_only_the_last_part_of_an_absolute_path_is_shown(tmp_path: Path, text: str, shown: str) -> None:
    def change(results: dict[str, Any]) -> None:
        facts_of(results)["scoring"].update(encoder=text, judges=text)

    save(tmp_path / "m", text, change=change)
    page = Page(page_of(tmp_path))
    names = [attributes["data-value"] for tag, attributes in page.tags if tag == "th" and "data-value" in attributes]
    assert names == [shown]
    assert sum(shown in found for found in page.texts) >= 5
    assert text == shown or not any(text in found for found in page.texts)


def test_model_arguments_on_the_page_contain_no_folder(tmp_path: Path) -> None:
    def change(results: dict[str, Any]) -> None:
        results["config"]["model_args"] = {"pretrained": "/srv/models/mine", "peft": "/srv/peft"}

    save(tmp_path / "m", change=change)
    text = html.unescape(page_of(tmp_path))
    assert '{"peft": "peft", "pretrained": "mine"}' in text
    assert "/srv" not in text


def test_the_same_results_give_the_same_bytes_in_any_folder(tmp_path: Path) -> None:
    for model in ("b", "a"):
        add(tmp_path, model, 0.5)
    (tmp_path / "results_corrupt.json").write_text("{", encoding="utf-8")
    other = Path(shutil.copytree(tmp_path, tmp_path.with_name("copy")))
    assert page_of(other) == page_of(tmp_path) == page_of(tmp_path)


def test_the_page_sends_no_requests(tmp_path: Path) -> None:
    add(tmp_path, "m", 0.5)
    text = page_of(tmp_path)
    page = Page(text)
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]*)"', text)
    own = [re.findall(rf"<{tag}>(.*?)</{tag}>", text, flags=re.DOTALL) for tag in ("style", "script")]
    assert policy == content_policy(*(inner for (inner,) in own))
    assert "unsafe" not in policy
    assert not re.search(r"https?://|url\(|@import", text)
    assert not [tag for tag, attributes in page.tags if attributes.keys() & {"src", "href", "action"}]


HOSTILE = "</script><script>alert(1)</script>\"'><img src=x onerror=alert(2)>{{ 7 * 7 }}"


def test_hostile_text_stays_text_everywhere(tmp_path: Path) -> None:
    def change(results: dict[str, Any]) -> None:
        facts = facts_of(results)
        facts.update(benchmark=HOSTILE, revision=HOSTILE, prompts={"system": HOSTILE, "plain": HOSTILE})
        facts["scoring"].update(encoder=HOSTILE, judges=HOSTILE, idk_detector=HOSTILE)
        results.update(lm_eval_version=HOSTILE, git_hash=HOSTILE)

    save(tmp_path / "m", HOSTILE, change=change, setting="reference")
    history = read_history(tmp_path)
    skipped = (*history.skipped, Skipped(tmp_path / HOSTILE, HOSTILE))
    write_leaderboard(History(history.entries, skipped), tmp_path, tmp_path / "page.html")
    page = Page((tmp_path / "page.html").read_text(encoding="utf-8"))
    tags = [tag for tag, _ in page.tags]
    assert tags.count("script") == tags.count("style") == 1
    assert "img" not in tags
    assert not [name for _, attributes in page.tags for name in attributes if name.startswith("on")]
    assert sum(HOSTILE in text for text in page.texts) >= 10


@pytest.mark.slow
@given(st.text(alphabet=st.characters(exclude_categories=["Cs"], exclude_characters="/\\"), min_size=1))
def test_any_name_is_unchanged_on_the_page(tmp_path_factory: pytest.TempPathFactory, name: str) -> None:
    folder = tmp_path_factory.mktemp("any")
    save(folder / "m", name)
    page = Page(page_of(folder))
    value = next(
        attributes["data-value"] for tag, attributes in page.tags if tag == "th" and "data-value" in attributes
    )
    assert value == name


def test_the_command_writes_the_page_and_names_skipped_files(tmp_path: Path) -> None:
    add(tmp_path, "one", 0.5)
    add(tmp_path, "two", 0.25, setting="full_rag")
    (tmp_path / "results_corrupt.json").write_text("{", encoding="utf-8")
    status, text = command("list", tmp_path, "--leaderboard", tmp_path / "page.html", "--setting", "reference")
    assert status == 0
    assert "evaluations: 1" in text
    assert "skipped files: 1" in text
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "results_corrupt.json" in page
    assert "one" in page
    assert "full_rag" not in page


def test_a_page_without_evaluations_has_a_message(tmp_path: Path) -> None:
    assert "No evaluations." in page_of(tmp_path)
