"""The pages in a real browser: search, filters, sorting, clicks and keys, in both themes and two screen sizes.

The tests require Chromium and its driver. The page must send no requests, and the console must stay empty.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from importlib import resources
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from ragtasks.reports.history import read_history
from ragtasks.reports.leaderboard import write_leaderboard
from ragtasks.reports.page import files_folder, write_page
from ragtasks.reports.tables import report_sections
from ragtasks.results import read_evaluations
from tests._commands import run_command
from tests.reports._pages import HOSTILE, TURNS, always, known_results, poison, write
from tests.reports._saved import facts_of, save

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
BROWSER, DRIVER = next(filter(None, map(shutil.which, BROWSERS)), None), shutil.which("chromedriver")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not (BROWSER and DRIVER), reason=f"no browser: none of {', '.join(BROWSERS)} with chromedriver"),
]
WIDE, NARROW = (1280, 900), (390, 844)
BACKGROUNDS = {"light": "rgb(251, 251, 249)", "dark": "rgb(22, 24, 26)"}


class Tab:
    """A tab of the browser, with the actions of the tests."""

    def __init__(self, driver: Any) -> None:
        self.driver = driver

    def run(self, script: str, *arguments: Any) -> Any:
        """Return the result of a script."""
        return self.driver.execute_script(script, *arguments)

    def wait(self, condition: str, *arguments: Any) -> None:
        """Wait until an expression is true."""
        from selenium.webdriver.support.wait import WebDriverWait

        waiting = WebDriverWait(self.driver, 10, poll_frequency=0.02)
        waiting.until(lambda _: self.run(f"return Boolean({condition})", *arguments), condition)

    def open(self, page: Path, fragment: str = "", *, size: tuple[int, int] = WIDE, scheme: str = "light") -> None:
        """Open a page afresh, with a screen size and the system's color scheme."""
        self.show(page.as_uri() + fragment, size, scheme)
        self.wait("document.documentElement.dataset.started")

    def show(self, address: str, size: tuple[int, int], scheme: str) -> None:
        """Open an address in the same way, without waiting for elements of our page."""
        width, height = size
        screen = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
        media = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
        self.driver.get("about:blank")
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
        self.driver.get(address)

    def set(self, name: str, value: str) -> None:
        """Choose a value of a filter, with the event of a real input."""
        script = "const field = document.getElementById('choice').elements[arguments[0]]; field.value = arguments[1];"
        self.run(script + "field.dispatchEvent(new Event('input', {bubbles: true}))", name, value)

    def press(self, *keys: str) -> None:
        """Press keys in order, with the current focus."""
        from selenium.webdriver.common.action_chains import ActionChains

        ActionChains(self.driver, duration=0).send_keys(*keys).perform()

    def click(self, selector: str) -> None:
        """Click the first element of a selector."""
        from selenium.webdriver.common.by import By

        self.driver.find_element(By.CSS_SELECTOR, selector).click()

    def texts(self, selector: str) -> list[str]:
        """Return the texts of all elements of a selector."""
        found: list[str] = self.run(
            "return [...document.querySelectorAll(arguments[0])].map((item) => item.textContent)", selector
        )
        return found

    def shows(self, task_id: str) -> None:
        """Wait until a task is displayed."""
        self.wait("document.getElementById('detail').dataset.task === arguments[0]", task_id)

    @property
    def tasks(self) -> list[str]:
        """Ids of the tasks in the list."""
        found: list[str] = self.run("return [...document.querySelectorAll('.row')].map((row) => row.title)")
        return found


@pytest.fixture(scope="module")
def driver() -> Iterator[Any]:
    pytest.importorskip("selenium", reason="selenium is not installed")
    from selenium import webdriver
    from selenium.webdriver.chrome.options import Options
    from selenium.webdriver.chrome.service import Service

    options = Options()
    options.binary_location = str(BROWSER)
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    running = webdriver.Chrome(options=options, service=Service(str(DRIVER)))
    yield running
    running.quit()


@pytest.fixture
def tab(driver: Any) -> Iterator[Tab]:
    """A tab. At the end its console must be empty, and the file itself must be its only request."""
    for kind in ("browser", "performance"):
        driver.get_log(kind)
    tab = Tab(driver)
    yield tab
    assert driver.get_log("browser") == []
    events = [json.loads(entry["message"])["message"] for entry in driver.get_log("performance")]
    asked = [event["params"]["request"]["url"] for event in events if event["method"] == "Network.requestWillBeSent"]
    assert asked, "the page itself is asked for"
    assert not [address for address in asked if not address.startswith(("file:", "data:", "about:"))]


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("results")
    return write(known_results(folder), folder / "page.html")


def test_tables_sort_by_score_with_the_unscored_last(tab: Tab, page: Path) -> None:
    tab.open(page)
    head = "#table-1-1 thead th:nth-child({}) button"
    tab.click(head.format(3))
    first = "#table-1-1 tbody th"
    assert tab.texts(first) == ["two", "ten", "one", "nine"]
    tab.click(head.format(3))
    assert tab.texts(first) == ["one", "ten", "two", "nine"]
    assert tab.run(
        "return [...document.querySelectorAll('#tables thead')[0].rows[0].cells].map((e) => e.ariaSort)"
    ) == [
        "none",
        "none",
        "ascending",
    ]
    tab.click(head.format(1))
    assert tab.texts(first) == ["nine", "one", "ten", "two"]
    assert "1 of 2" in tab.texts("#table-1-1 tbody tr:last-child")[0]


@pytest.fixture(scope="module")
def concluded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page that opens with a conclusion."""
    folder = tmp_path_factory.mktemp("concluded")
    evaluations = read_evaluations([known_results(folder)])
    write_page(evaluations, report_sections(evaluations), folder / "page.html")
    return folder / "page.html"


def test_the_conclusion_and_its_pictures_are_first_and_mark_the_best(tab: Tab, concluded: Path) -> None:
    for size in (WIDE, NARROW):
        tab.open(concluded, size=size)
        assert tab.run("return document.documentElement.scrollWidth <= innerWidth"), "nothing runs off the screen"
    assert tab.run("return document.querySelector('#tables article h3').textContent") == "Conclusion"
    assert tab.texts(".opens .best") == ["0.900", "0.900"]
    scores, losses = tab.run(
        "return [...document.querySelectorAll('#tables [role=img]')].map((item) => item.ariaLabel)"
    )
    assert scores == "rb_alg: in reference high 0.900 down to low 0.600; in full_rag high 0.900 down to low 0.300."
    assert losses.startswith("Loss from reference to full_rag (rb_alg): high loses nothing; low loses 0.300")
    assert tab.run(
        "return [...document.querySelectorAll('#tables .mark circle')].map((dot) => dot.getAttribute('cx'))"
    ) == [
        *("90.0%", "60.0%"),
        *("90.0%", "30.0%"),
    ]
    assert tab.run("return document.querySelector('.rest').open") is False


@pytest.fixture(scope="module")
def explained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page whose answers show the sources of their sentences."""
    folder = tmp_path_factory.mktemp("explained")
    save(folder, "m", change_sample=grounded, tasks=TURNS)
    return write(folder, folder / "page.html")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [WIDE, NARROW])
@pytest.mark.parametrize("name", ["concluded", "leaderboard", "explained"])
def test_axe_finds_nothing_serious(
    tab: Tab, name: str, size: tuple[int, int], scheme: str, request: pytest.FixtureRequest
) -> None:
    pytest.importorskip("axe_core_python", reason="axe-core-python is not installed")
    page: Path = request.getfixturevalue(name)
    if name == "leaderboard":  # it is no report and has no views
        tab.show(page.as_uri(), size, scheme)
    else:
        tab.open(page, "#view=conversations" if name == "explained" else "", size=size, scheme=scheme)
    script = resources.files("axe_core_python").joinpath("axe.min.js").read_text(encoding="utf-8")
    tab.driver.execute_cdp_cmd("Runtime.evaluate", {"expression": script})  # the page's policy lets no other script in
    found = tab.driver.execute_async_script(
        "const done = arguments[arguments.length - 1]; axe.run(document).then((result) => done(result.violations));"
    )
    serious = [violation for violation in found if violation["impact"] in {"serious", "critical"}]
    assert [(violation["id"], violation["nodes"][0]["html"][:200]) for violation in serious] == []


def test_views_follow_the_links(tab: Tab, page: Path) -> None:
    tab.open(page)
    for name in ("plots", "conversations", "tables"):
        tab.click(f"nav a[href='#view={name}']")
        tab.wait("document.querySelector('.view.now').id === arguments[0]", name)
        assert tab.texts("nav a[aria-selected=true]") == [name.capitalize()]
    assert tab.run("return document.querySelectorAll('#plots .mark circle').length") > 0


def test_views_are_tabs_for_the_keyboard(tab: Tab, page: Path) -> None:
    tab.open(page)
    tab.run("document.querySelector('[role=tab][aria-selected=true]').focus()")
    for key, name in (
        ("\ue014", "plots"),
        ("\ue014", "conversations"),
        ("\ue014", "tables"),
        ("\ue012", "conversations"),
    ):
        tab.press(key)
        tab.wait("document.querySelector('[role=tabpanel].now').id === arguments[0]", name)
        assert tab.run("return document.activeElement.getAttribute('aria-controls')") == name


def test_flags_and_comments_are_kept_and_exported(tab: Tab, page: Path) -> None:
    tab.open(page, f"#task={quote('a<::>1')}&model=low&setting=full_rag")
    tab.shows("a<::>1")
    tab.click(".notes input")
    tab.click(".notes textarea")
    tab.press("/", "n", "o")
    tab.open(page, f"#task={quote('a<::>1')}&model=low&setting=full_rag")
    tab.shows("a<::>1")
    assert tab.run("return document.querySelector('.notes textarea').value") == "/no"
    assert tab.run("return document.querySelector('.notes input').checked")
    assert tab.texts(".row .flag") == ["\u2691 "]
    tab.set("notes", "flag")
    assert tab.tasks == ["a<::>1"]
    tab.run(
        "window.kept = []; URL.createObjectURL = (blob) => { blob.text().then((text) => kept.push(text)); return '#'; }"
    )
    tab.click("#export")
    tab.wait("window.kept.length === 1")
    note = {"task_id": "a<::>1", "model": "low", "setting": "full_rag", "flag": True, "comment": "/no"}
    assert json.loads(tab.run("return window.kept[0]")) == note
    tab.run("localStorage.clear()")


def test_search_looks_into_questions_answers_and_ids(tab: Tab, page: Path) -> None:
    tab.open(page, "#view=conversations")
    for words, expected in {
        "question 2 of": ["a<::>2", "b<::>2", "c<::>2"],
        "answer to C 4": ["c<::>4"],
        "b<::>3": ["b<::>3"],
        "nowhere": [],
        "": [f"{conversation}<::>{turn}" for conversation in "abc" for turn in range(1, 5)],
    }.items():
        tab.set("query", words)
        assert tab.tasks == expected, words
        assert tab.texts("#count") == [f"{len(expected)} of 12 tasks"]


@pytest.mark.parametrize(
    ("choices", "expected"),
    [
        ({"domain": "fiqa"}, ["b1", "b2", "b3", "b4"]),
        ({"answerability": "UNANSWERABLE"}, ["a3", "b3", "c3"]),
        ({"turn": "first"}, ["a1", "b1", "c1"]),
        ({"turn": "4"}, ["a4", "b4", "c4"]),
        ({"type": "Keyword", "turn": "later"}, ["b2", "b3", "b4"]),
        ({"multi": "Follow-up", "query": "2 of"}, ["b2"]),
        ({"failure": "false refusal"}, ["a2", "b2", "c2"]),
        ({"failure": "missing refusal"}, ["a3", "b3", "c3"]),
        ({"failure": "retrieval miss"}, ["a4", "b4", "c4"]),
        ({"failure": "passages not used"}, ["a1", "b1", "c1"]),
        ({"failure": "missing verdict", "domain": "fiqa"}, ["b1", "b2", "b3", "b4"]),
        ({"failure": "any", "domain": "fiqa", "turn": "1", "query": "nowhere"}, []),
    ],
)
def test_filters(tab: Tab, page: Path, choices: dict[str, str], expected: list[str]) -> None:
    tab.open(page, "#model=low&setting=full_rag")
    for name, value in choices.items():
        tab.set(name, value)
    assert [task.replace("<::>", "") for task in tab.tasks] == expected
    tab.run("document.getElementById('clear').click()")
    assert len(tab.tasks) == 12


def test_a_task_shows_its_conversation_passages_scores_and_verdicts(tab: Tab, page: Path) -> None:
    tab.open(page, f"#task={quote('b<::>2')}&model=low&setting=full_rag")
    tab.shows("b<::>2")
    assert tab.texts(".said") == ["userfirst", "assistantreply", "userquestion 2 of b"]
    assert tab.texts(".answer") == ["answer to b 2"]
    assert tab.texts(".target") == ["the target"]
    assert {"false refusal", "missing verdict"} <= set(tab.texts(".badge"))
    assert [text.split("text")[0].strip() for text in tab.texts(".passage summary")] == [
        "1 both: reference and retrieved t1 p1",
        "2 retrieved t2 p2",
    ]
    metrics = dict(zip(tab.texts("#detail tbody th"), tab.texts("#detail tbody td"), strict=True))
    assert {name.split("harmonic")[0].split("ROUGE-L")[0]: text for name, text in metrics.items()} == {
        "rb_alg": "0.300",
        "rouge_l": "\u2013why not",
    }
    assert tab.texts(".verdict summary") == ["steady70.700", "flakyunparsableno rating; 2 attempts\u2013"]
    assert tab.texts(".verdict pre") == ["Rating 1: 7", "hm", "Rating 1: 7"]


def test_a_reference_that_was_not_shown_has_its_text_from_other_samples(tab: Tab, page: Path) -> None:
    tab.open(page, f"#task={quote('a<::>4')}&model=low&setting=full_rag")
    tab.shows("a<::>4")
    assert tab.texts(".passage:last-child summary .badge") == ["reference", "not shown"]
    assert tab.texts(".passage:last-child .body") == ["text 1"]


def test_two_models_are_side_by_side(tab: Tab, page: Path) -> None:
    tab.open(page, f"#task={quote('a<::>1')}&model=low&setting=full_rag")
    tab.set("compare", "high")
    tab.wait("document.querySelectorAll('.answer').length === 2")
    assert tab.texts("#detail thead th") == ["metric", "low", "high"]
    assert tab.texts("#detail tbody tr:first-child td") == ["0.300", "0.900"]
    assert "compare=high" in tab.run("return location.hash")


def test_only_models_with_the_same_scoring_are_side_by_side(tab: Tab, tmp_path: Path) -> None:
    for model, revision in (("a", "v1"), ("b", "v1"), ("c", "v2")):
        save(tmp_path / model, model, change=lambda results, own=revision: facts_of(results).update(revision=own))
    tab.open(write(tmp_path, tmp_path / "page.html"), "#view=conversations")
    tab.wait("document.querySelectorAll('[name=compare] option').length > 0")
    assert len(tab.texts("[name=model] option")) == 3
    assert tab.texts("[name=compare] option") == ["no other model", "b \u00b7 data revision v1"]


@pytest.mark.parametrize("size", [WIDE, NARROW])
def test_all_differences_between_two_runs_are_listed_below_the_selection(
    tab: Tab, tmp_path: Path, size: tuple[int, int]
) -> None:
    judges = [f"judge organisation/a-model-with-a-long-name-{number}; judges: x" for number in (1, 2)]
    for day, judge in enumerate(judges, start=1):
        save(tmp_path, day=day, change=lambda results, own=judge: facts_of(results)["scoring"].update(idk_detector=own))
    tab.open(write(tmp_path, tmp_path / "page.html"), "#view=conversations", size=size)
    labels = tab.texts("[name=model] option")
    for label, judge in zip(labels, judges, strict=True):
        tab.set("model", label)
        tab.wait("document.getElementById('differs').textContent === arguments[0]", f"IDK detector {judge}")
        assert tab.run("const own = document.getElementById('differs'); return own.scrollWidth <= own.clientWidth")
        assert tab.run("return document.documentElement.scrollWidth <= innerWidth")


def test_a_metric_shows_that_lower_is_better_and_formats_code(tab: Tab, tmp_path: Path) -> None:
    def change(results: dict[str, Any]) -> None:
        facts_of(results).update(suite="rewriting_conditional")

    save(tmp_path, values=always({"ndcg_5": 0.5, "invalid_reply": 0.0, "no_rewrite": 0.0}), change=change)
    tab.open(write(tmp_path, tmp_path / "page.html"), "#view=conversations")
    tab.shows("a<::>1")
    notes = tab.texts("#detail tbody th small")
    assert ["(lower is better)" in note for note in notes] == [False, True, False]
    assert tab.texts("#detail tbody th code") == ["no_rewrite"]


def test_keys_move_between_tasks_and_reach_the_search(tab: Tab, page: Path) -> None:
    from selenium.webdriver.common.keys import Keys

    tab.open(page, "#view=conversations")
    tab.shows("a<::>1")
    tab.press("j", "j")
    tab.shows("a<::>3")
    tab.press("k")
    tab.shows("a<::>2")
    tab.run("document.getElementById('list').focus()")
    tab.press(Keys.ARROW_DOWN)
    tab.shows("a<::>3")
    assert tab.run("return document.querySelector('.row[aria-selected=true]').title") == "a<::>3"
    tab.press("/", "4 of c", Keys.ESCAPE, "j")
    tab.shows("c<::>4")
    assert "task=c%3C%3A%3A%3E4" in tab.run("return location.hash")


def grounded(sample: dict[str, Any]) -> None:
    """Give turn 2 an answer with one sentence from its passage and one unsupported sentence.

    An emoji counts as one character.
    """
    doc = sample["doc"]
    doc["passages"] = [
        {"passage_id": "p1", "title": "Cards", "text": "Prices \U0001f600. A library card costs twelve euros."}
    ]
    sample["filtered_resps"] = ["\U0001f600 A library card costs twelve euros. Streaming films needs museum vouchers."]
    wrong = {"kind": "invented", "reason": "50% of its words are unsupported: films"}
    doc["scoring"]["turn_error"] = wrong if doc["turn"] == 2 else {}


def test_sentences_show_their_source_and_keys_move_between_failures(tab: Tab, explained: Path) -> None:
    tab.open(explained, "#view=conversations")
    tab.shows("a<::>1")
    tab.press("f")
    tab.shows("a<::>2")
    tab.press("f")
    tab.shows("b<::>2")
    tab.press("F")
    tab.shows("a<::>2")
    assert tab.texts("#detail .badge.warn")[0] == "unsupported content"
    assert "50% of its words are unsupported: films" in " ".join(tab.texts("#detail .quiet"))
    signs = tab.run("return [...document.querySelectorAll('.held')].map((item) => item.dataset.source)")
    assert signs == ["1", "\u2013"]
    assert tab.texts(".held.nothing .nowhere") == ["Streaming", "films", "needs", "museum", "vouchers"]
    tab.run("document.querySelector('.held.passage').focus()")
    assert tab.texts(".source mark") == ["library card costs twelve euros"]
    assert tab.texts(".source b") == ["supported by passage 1 (100 % of its words)"]
    tab.run("document.querySelector('.held.nothing').focus()")
    assert tab.texts(".source mark") == []


def refusing(sample: dict[str, Any]) -> None:
    """Give turn 1 a refusal, and turn 2 a partial refusal."""
    doc = sample["doc"]
    doc["passages"] = [{"passage_id": "p1", "title": "Cards", "text": "A library card costs twelve euros."}]
    doc["scoring"]["idk"] = "yes" if doc["turn"] == 1 else "partial"
    doc["scoring"]["idk_reason"] = "partial 0.98: i do not have specific information about museum vouchers."
    refusal = "I do not have specific information about museum vouchers."
    sample["filtered_resps"] = [refusal if doc["turn"] == 1 else f"A library card costs twelve euros. {refusal}"]


def test_a_refusal_is_not_underlined_as_unsupported(tab: Tab, tmp_path: Path) -> None:
    save(tmp_path, "m", change_sample=refusing)
    tab.open(write(tmp_path, tmp_path / "page.html"), "#view=conversations")
    tab.shows("a<::>1")
    assert tab.texts(".answer") == ["I do not have specific information about museum vouchers."]
    assert tab.texts(".answer :is(.held, .nowhere)") == []
    assert tab.texts(".source") == [], "no hint to signs that are not shown"
    tab.press("j")
    tab.shows("a<::>2")
    assert tab.texts(".answer .held") == ["A library card costs twelve euros."]
    assert tab.texts(".answer .nowhere") == []


@pytest.mark.parametrize("size", [WIDE, NARROW])
def test_no_explanation_requires_hovering(tab: Tab, concluded: Path, size: tuple[int, int]) -> None:
    from selenium.webdriver.common.keys import Keys

    tab.open(concluded, size=size)
    visible = "return [...document.querySelectorAll('.opens .explained div')].filter((e) => e.checkVisibility()).length"
    assert tab.run(visible) == len(tab.texts(".opens .explained div"))
    meanings = dict(zip(tab.texts(".opens .explained dt"), tab.texts(".opens .explained dd"), strict=True))
    assert meanings["rb_alg"].startswith("harmonic mean of Bert-Recall")
    assert meanings["green"] == "best score of its setting"
    tab.run("document.querySelector('.rest').open = true; document.querySelector('.rest .explained summary').focus()")
    tab.press(Keys.ENTER)
    tab.wait("document.querySelector('.rest .explained dd').checkVisibility()")
    assert tab.run("return document.querySelectorAll('#tables :is([title], [data-tip])').length") == 0
    tab.open(concluded, f"#task={quote('a<::>2')}&model=low&setting=full_rag", size=size)
    tab.shows("a<::>2")
    (failure,) = tab.texts("#detail .failure")
    assert failure.startswith("false refusal the question is ANSWERABLE")
    assert tab.run("return document.querySelectorAll('#detail [title]').length") == 0


def test_a_tap_shows_the_passage_of_a_sentence(tab: Tab, explained: Path) -> None:
    tab.open(explained, f"#task={quote('a<::>2')}", size=NARROW)
    tab.shows("a<::>2")
    tab.click(".held.passage")
    assert tab.texts(".source mark") == ["library card costs twelve euros"]


def test_headings_are_words_and_occur_once(tab: Tab, concluded: Path) -> None:
    tab.open(concluded)
    titles = tab.texts("#tables h3")
    assert "Reference-based score (rb_alg), full RAG" in titles
    assert not [title for title in titles if "in setting" in title]
    assert tab.texts("#tables figcaption")[0].startswith("Reference-based score (rb_alg) by setting")
    tab.open(concluded, "#view=plots")
    captions = tab.run(
        "return [...document.querySelectorAll('#plots figcaption')].map((e) => e.firstChild.textContent)"
    )
    assert captions[0] == "By setting"
    assert not [caption for caption in captions if caption.startswith("mtrag")], "the page's own title says that"
    assert len(set(captions)) == len(captions)
    assert tab.run("return [...document.querySelectorAll('#plots figure')].every((e) => !e.ariaLabel)")


def test_a_click_shows_a_task_and_its_link_opens_it_again(tab: Tab, page: Path) -> None:
    tab.open(page, "#view=conversations")
    tab.set("setting", "full_rag")
    tab.wait("document.querySelector('[name=setting]').value === 'full_rag' && location.hash.includes('full_rag')")
    tab.click("#task-5")
    tab.shows("b<::>2")
    link = tab.run("return location.hash")
    tab.open(page, link)
    tab.shows("b<::>2")
    assert tab.run("return document.querySelector('[name=setting]').value") == "full_rag"


@pytest.mark.parametrize("fragment", ["#task=gone&model=gone&setting=gone", "#view=gone", "#%", "#model=low"])
def test_an_invalid_link_still_opens_the_page(tab: Tab, page: Path, fragment: str) -> None:
    tab.open(page, fragment)
    assert len(tab.run("return [...document.querySelectorAll('.view.now')].map((view) => view.id)")) == 1


def test_hostile_texts_stay_texts(tab: Tab, tmp_path: Path) -> None:
    save(tmp_path, "model" + HOSTILE, setting="full_rag", change_sample=poison)
    save(tmp_path, "other" + HOSTILE, setting="full_rag", day=2, change_sample=poison)
    tab.open(write(tmp_path, tmp_path / "page.html", hostile=True), "#view=conversations")
    tab.set("compare", "other" + HOSTILE)
    tab.wait("document.querySelectorAll('.answer').length === 2")
    tab.set("query", "<script>")
    assert tab.texts(".answer") == [HOSTILE, HOSTILE]
    assert tab.texts(".verdict pre")[0] == HOSTILE
    assert tab.texts("#detail h2") == ["question 1 of a" + HOSTILE]
    assert tab.texts("#detail .head + p") == ["a<::>1" + HOSTILE]
    assert (
        tab.run("return document.querySelectorAll('#detail :is(script, img, b > b), .row :is(script, img)').length")
        == 0
    )
    assert tab.run("return window.harmed") is None


@pytest.mark.parametrize("size", [WIDE, NARROW])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_both_themes_on_both_screens(tab: Tab, page: Path, size: tuple[int, int], scheme: str) -> None:
    background: Callable[[], str] = lambda: tab.run("return getComputedStyle(document.body).backgroundColor")  # noqa: E731
    for fragment in ("#view=tables", "#view=conversations"):
        tab.open(page, fragment, size=size, scheme=scheme)
        assert background() == BACKGROUNDS[scheme]
        assert tab.run("return document.documentElement.scrollWidth <= innerWidth"), "nothing runs off the screen"
    for theme in ("light", "dark"):
        tab.click("#theme")
        assert background() == BACKGROUNDS[theme]
    tab.click("#theme")
    assert background() == BACKGROUNDS[scheme]


def test_no_table_or_picture_is_cut_off_on_a_telephone(tab: Tab, concluded: Path) -> None:
    for fragment in ("#view=tables", "#view=plots"):
        tab.open(concluded, fragment, size=NARROW)
        tab.run("for (const part of document.querySelectorAll('details')) part.open = true")
        cut = tab.run(
            "return [...document.querySelectorAll('.view.now :is(.wide, td, th, img, svg, p, h2, h3, li, dd)')]"
            ".filter((item) => !item.closest('thead') && (item.scrollWidth > item.clientWidth + 1 && item.clientWidth"
            " || item.getBoundingClientRect().right > innerWidth)).map((item) => item.outerHTML.slice(0, 200))"
        )
        assert cut == []
    tab.open(concluded, "#view=tables", size=NARROW)
    heads = tab.run("return getComputedStyle(document.querySelector('.opens td[data-head=n]'), '::before').content")
    assert heads == '"n "', "a cell says what it is, as the row of heads is not there"


def test_one_sentence_comes_first(tab: Tab, concluded: Path) -> None:
    tab.open(concluded)
    (lead,) = tab.texts(".lead")
    assert lead.startswith("high has the best mean rb_alg 0.900 in full_rag, 0.600 ahead of low (not tested: ")
    assert tab.run(
        "const lead = document.querySelector('.lead');"
        "return Boolean(lead.compareDocumentPosition(document.querySelector('.opens')) & 4)"
    )


def test_every_field_and_button_has_a_name(tab: Tab, page: Path) -> None:
    tab.open(page, "#view=conversations")
    nameless = tab.run(
        "return [...document.querySelectorAll('button, select, input, [role=listbox], [role=region], img')]"
        ".filter((item) => !(item.textContent.trim() && item.tagName === 'BUTTON') && !item.labels?.length"
        " && !item.getAttribute('aria-label') && !item.alt).map((item) => item.outerHTML)"
    )
    assert nameless == []
    assert tab.run("return document.querySelectorAll('h1').length") == 1


def test_a_long_list_contains_only_the_visible_rows(tab: Tab, tmp_path: Path) -> None:
    tasks = tuple((f"c{number}", turn) for number in range(250) for turn in (1, 2, 3, 4))
    save(tmp_path, tasks=tasks)
    tab.open(write(tmp_path, tmp_path / "page.html"), "#view=conversations")
    tab.wait("document.querySelector('.row')")
    assert 10 < len(tab.tasks) < 50
    tab.set("query", "1 of c2")
    found = tab.texts("#count")
    assert "1000" in found[0].replace(",", ""), found


@pytest.fixture(scope="module")
def leaderboard(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("leaderboard")
    for model, value in {"low": 0.25, "high" + HOSTILE: 0.75, "gone": None}.items():
        save(folder / model[:4], model, values=lambda _, value=value: {"rb_alg": value})
    write_leaderboard(read_history(folder, is_ranked=True), folder, folder / "page.html")
    return folder / "page.html"


def test_the_leaderboard_sorts_and_has_its_style_under_the_content_policy(tab: Tab, leaderboard: Path) -> None:
    tab.driver.get(leaderboard.as_uri())
    names = "return [...document.querySelectorAll('tbody tr')].map((row) => row.cells[1].dataset.value.slice(0, 4))"
    assert tab.run(names) == ["high", "low", "gone"]
    tab.click("thead th:nth-child(3) button")
    assert tab.run(names) == ["low", "high", "gone"]
    assert tab.run("return window.harmed") is None
    assert tab.run("return getComputedStyle(document.body).backgroundColor") in BACKGROUNDS.values()


def test_the_leaderboard_filters_explains_its_heads_and_stays_on_the_screen(tab: Tab, leaderboard: Path) -> None:
    for width, height in (NARROW, WIDE):  # on a telephone rows are blocks without heads
        screen = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
        tab.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
        tab.driver.get(leaderboard.as_uri())
        assert tab.run("return document.documentElement.scrollWidth <= innerWidth"), "nothing runs off the screen"
    assert tab.texts("#count") == ["3 of 3 evaluations"]
    shown = "return [...document.querySelectorAll('tbody tr')].filter((row) => !row.hidden).length"
    for name, value, n in (("model", "LOW", 1), ("model", "", 3), ("setting", "reference", 3)):
        tab.set(name, value)
        assert tab.run(shown) == n
    tab.run("document.querySelector('[name=ties]').click()")
    assert tab.run(shown) == 1  # too few conversations for a test, and untested differences are not ties
    tab.run("document.querySelector('[data-tip]').focus()")
    tab.wait("!document.getElementById('tip').hidden")
    assert tab.texts("#tip:not([hidden])")[0].startswith("harmonic mean of Bert-Recall")
    tab.press("\ue00c")
    assert tab.texts("#tip:not([hidden])") == []


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same results as `page`, on a page that is too large for one file. Its name requires quoting."""
    folder = tmp_path_factory.mktemp("large")
    return write(known_results(folder), folder / "große page.html", most_bytes=0)


def details(tab: Tab, page: Path) -> list[list[str]]:
    """Return the page's view of each task, in every model and setting."""
    found = []
    for model, setting in (("high", "reference"), ("high", "full_rag"), ("low", "reference"), ("low", "full_rag")):
        for conversation, turn in TURNS:
            task = f"{conversation}<::>{turn}"
            tab.driver.get("about:blank")
            tab.open(page, f"#view=conversations&model={model}&setting={setting}&task={quote(task)}")
            tab.shows(task)
            found.append([model, setting, *tab.texts("#detail")])
    return found


def test_a_large_page_shows_every_answer_from_files_that_it_loads(tab: Tab, page: Path, large: Path) -> None:
    assert not files_folder(page).exists()
    files = sorted(files_folder(large).iterdir())
    assert len(files) == 15  # tasks, texts of two domains; scores, support and verdicts of four parts
    tab.open(large)
    assert tab.run("return document.querySelectorAll('[id^=block-]').length") == 1
    tab.open(large, "#view=conversations")
    expected = details(tab, page)
    assert len(expected) == 4 * len(TURNS)
    assert details(tab, large) == expected


def test_a_large_page_reports_missing_files(tab: Tab, large: Path, tmp_path: Path) -> None:
    alone = Path(shutil.copy(large, tmp_path))
    tab.driver.get(f"{alone.as_uri()}#view=conversations")
    tab.wait("!document.getElementById('lost').hidden")
    assert tab.texts("#lost") == [
        "Some of the conversations are missing: keep the folder große page_files next to this page."
    ]
    assert any("ERR_FILE_NOT_FOUND" in entry["message"] for entry in tab.driver.get_log("browser"))


def test_a_large_page_escapes_hostile_texts(tab: Tab, tmp_path: Path) -> None:
    save(tmp_path, "high" + HOSTILE, change_sample=poison, tasks=TURNS)
    hostile = write(tmp_path, tmp_path / "page.html", hostile=True, most_bytes=0)
    tab.open(hostile, "#view=conversations")
    tab.press("j")
    tab.wait("document.getElementById('detail').textContent.includes('window.harmed')")
    assert tab.run("return window.harmed") is None


@pytest.mark.parametrize("name", ["page", "large", "leaderboard"])
def test_only_the_pages_own_script_runs(name: str, tab: Tab, request: pytest.FixtureRequest) -> None:
    written: Path = request.getfixturevalue(name)
    text = written.read_text(encoding="utf-8").replace("</body>", "<script>window.harmed = 1</script></body>")
    changed = written.with_name("changed.html")
    changed.write_text(text.replace("<h1>", "<h1 onclick='window.harmed = 2'>"), encoding="utf-8")
    tab.driver.get(changed.as_uri())
    tab.click("h1")
    assert tab.run("return window.harmed") is None
    refused = [entry["message"] for entry in tab.driver.get_log("browser")]
    assert len(refused) == 2
    assert all("Content Security Policy" in message for message in refused)


@pytest.fixture(scope="module")
def searched_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page of the user's own agent with two calls for one task and four for another."""
    folder = tmp_path_factory.mktemp("searched")
    passages = [{"id": name, "title": f"Title of {name}", "text": text} for name, text in LENDING.items()]
    first = {"query": "how long is a drill lent", "passages": passages}
    calls = [first, {"query": "a" * 300, "passages": []}]
    rows = [
        {"id": "loans-1<::>1", "answer": "For 5 days.", "contexts": passages[:1], "searches": calls},
        {"id": "loans-1<::>2", "answer": "I do not know.", "searches": [*calls, first, {"read": "p", "passages": []}]},
    ]
    answers = folder / "agent.jsonl"
    answers.write_text("".join(json.dumps(row) + "\n" for row in rows))
    options = ("--benchmark", "custom", "--data", "sample", "--encoder", "none", "--metadata", "max_implausible=1")
    results = folder / "results"
    assert run_command("score", answers, *options, "--setting", "agentic", "--output", results).status == 0
    return write(results, folder / "page.html")


LENDING = {"lending-02": "Power tools are lent for 5 days.", "lending-04": "The library opens at nine."}


@pytest.mark.parametrize("size", [WIDE, NARROW], ids=["wide", "narrow"])
@pytest.mark.parametrize("scheme", BACKGROUNDS)
def test_searches_are_listed_and_long_ones_folded(
    tab: Tab, searched_page: Path, size: tuple[int, int], scheme: str
) -> None:
    def shown(turn: int) -> list[Any]:
        name = f"loans-1<::>{turn}"
        tab.open(searched_page, f"#task={quote(name)}", size=size, scheme=scheme)
        tab.shows(name)
        found: list[Any] = tab.run(
            "return [...document.querySelectorAll('.trajectory details')].map((one) => one.open)"
        )
        assert not tab.run("return document.documentElement.scrollWidth > innerWidth")
        return found

    assert shown(1) == [True]
    assert tab.texts(".trajectory > li .query") == ["how long is a drill lent", "a" * 300]
    assert tab.texts(".trajectory summary .quiet") == ["2 found, 1 relevant"]
    assert tab.texts(".trajectory .number") == ["[1]", ""]  # the second was not in the answer's prompt
    assert "lending-04" in tab.texts(".trajectory ul li")[1]
    assert tab.texts(".trajectory ul .badge") == ["relevant"]
    assert shown(2) == [False, False]
    assert tab.texts(".trajectory .badge.warn") == ["repeated"]
    visible = "document.querySelector('.trajectory ul').checkVisibility()"
    assert not tab.run(f"return {visible}")
    tab.click(".trajectory summary")
    tab.wait(visible)
