from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ragtasks.benchmarks import open_benchmark
from ragtasks.errors import BenchmarkFileError, ConfigurationError
from ragtasks.synthesis.folder import SynthesisReport
from ragtasks.synthesis.multihop import MultihopSettings, synthesize_multihop
from tests._messages import raises
from tests.clients._server import Action, chat_server, completion
from tests.judges._scripted import ScriptedClient
from tests.synthesis._making import content, writer
from tests.synthesis._scripted import good_reply, script, sections


def articles(path: Path, n: int = 3) -> Path:
    """Write a corpus of articles about two companies."""
    rows = [
        {
            "title": f"News {number}",
            "author": None,
            "source": f"Daily {number}",
            "published_at": f"2024-0{number + 1}-01T00:00:00+00:00",
            "category": "business",
            "url": f"http://news.example/{number}",
            "body": f"The Arden Company opened in {1900 + number} a mill. The Belmor Company sold in {number} a ship.",
        }
        for number in range(n)
    ]
    path.write_text(json.dumps(rows), "utf-8")
    return path


def make(base_url: str, folder: Path, location: Path, out: str = "out") -> SynthesisReport:
    client = writer(base_url, folder / "replies.sqlite")
    return synthesize_multihop(location, folder / out, client, MultihopSettings())


def test_articles_become_the_official_files(tmp_path: Path) -> None:
    with chat_server(script) as server:
        outcome = make(server.base_url, tmp_path, articles(tmp_path / "corpus.json"))
        n_asked = len(server.asked)
        make(server.base_url, tmp_path, tmp_path / "corpus.json", "again")
        assert len(server.asked) == n_asked
    assert content(tmp_path / "out") == content(tmp_path / "again")
    benchmark = open_benchmark("multihop_rag", tmp_path / "out")
    kinds = Counter(question_type for task in benchmark.tasks for question_type in task.question_types)
    assert kinds == {"inference_query": 2, "comparison_query": 2, "temporal_query": 2, "null_query": 1}
    rows = json.loads((tmp_path / "out" / "dataset" / "MultiHopRAG.json").read_bytes())
    bodies = {
        row["url"]: row["body"] for row in json.loads((tmp_path / "out" / "dataset" / "corpus.json").read_bytes())
    }
    for row in rows:
        assert len(row["evidence_list"]) == (0 if row["question_type"] == "null_query" else 3)
        assert all(evidence["fact"] in bodies[evidence["url"]] for evidence in row["evidence_list"])
        assert [evidence["published_at"] for evidence in row["evidence_list"]] == sorted(
            evidence["published_at"] for evidence in row["evidence_list"]
        )
    assert {row["answer"] for row in rows} == {"Arden Company", "Belmor Company", "Yes", "Insufficient information."}
    assert "3 facts missing from their article" in outcome.lines[0]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"all_used": False, "short": False}, "fail the check: all_used, short"),
        ({"all_used": "yes"}, "neither true nor false"),
        ({"answer": "perhaps"}, "none of yes, no|not the entity"),
        ({"query": "Is it the Arden Company or the Belmor Company?"}, "names its answer"),
    ],
)
def test_questions_that_fail_the_check_are_dropped(tmp_path: Path, change: dict[str, object], reason: str) -> None:
    def spoils(prompt: str, n_before: int) -> Action:
        reply = json.loads(good_reply(prompt))
        return completion(json.dumps({**reply, **{key: change[key] for key in change.keys() & reply.keys()}}))

    with chat_server(spoils) as server:
        if "query" in change:
            outcome = make(server.base_url, tmp_path, articles(tmp_path / "corpus.json"))
            assert "a question that names its answer" in outcome.lines[0]
            return
        with pytest.raises(ConfigurationError, match=reason):
            make(server.base_url, tmp_path, articles(tmp_path / "corpus.json"))
    assert not (tmp_path / "out").exists()


def test_articles_without_common_subjects_are_one_clear_error(tmp_path: Path) -> None:
    with chat_server(script) as server, pytest.raises(ConfigurationError, match="0 bridges"):
        make(server.base_url, tmp_path, articles(tmp_path / "corpus.json", 1))


def types_made(folder: Path) -> Counter[str]:
    return Counter(
        question_type for task in open_benchmark("multihop_rag", folder).tasks for question_type in task.question_types
    )


def test_a_temporal_question_needs_several_dates(tmp_path: Path) -> None:
    rows = json.loads(articles(tmp_path / "corpus.json").read_bytes())
    for hour, row in enumerate(rows):
        row["published_at"] = f"2024-01-01T0{hour}:00:00+00:00"
    (tmp_path / "corpus.json").write_text(json.dumps(rows), "utf-8")
    with chat_server(script) as server:
        make(server.base_url, tmp_path, tmp_path / "corpus.json")
        assert types_made(tmp_path / "out")["temporal_query"] == 0
        rows[2]["published_at"] = "2024-01-02T00:00:00+00:00"
        (tmp_path / "corpus.json").write_text(json.dumps(rows), "utf-8")
        make(server.base_url, tmp_path, tmp_path / "corpus.json", "later")
    assert types_made(tmp_path / "later")["temporal_query"] == 2


@pytest.mark.parametrize("part", ["entity", "sources"])
@pytest.mark.parametrize("name", ["Belmor Company", "daily 1", "News 2"])
def test_a_null_query_with_a_known_name_is_dropped(tmp_path: Path, part: str, name: str) -> None:
    def names_what_is_known(prompt: str, n_before: int) -> Action:
        reply = json.loads(good_reply(prompt))
        if "sources" in reply:
            reply[part] = [name] if part == "sources" else name
            reply["query"] += f" {name}"
        return completion(json.dumps(reply))

    with chat_server(names_what_is_known) as server:
        outcome = make(server.base_url, tmp_path, articles(tmp_path / "corpus.json"))
    assert types_made(tmp_path / "out")["null_query"] == 0
    assert "a made-up name that an article holds" in " ".join(outcome.lines)


def article(number: int, body: str, **more: str) -> dict[str, str]:
    row = {
        "title": f"News {number}",
        "source": f"Daily {number}",
        "published_at": f"2024-01-{number:02}T00:00:00Z",
        "category": "business",
        "url": f"u{number}",
        "body": body,
    }
    return {**row, **more}


def claim(fact: str, entity: str = "Arden", topic: str = "mill", text: str | None = None) -> dict[str, str]:
    return {"fact": fact, "claim": f"{entity}: {fact}" if text is None else text, "entity": entity, "topic": topic}


@dataclass
class Made:
    """Result of a synthesis."""

    outcome: SynthesisReport
    questions: list[dict[str, Any]]
    asked: list[str]

    def of_kind(self, kind: str) -> list[dict[str, Any]]:
        return [row for row in self.questions if row["question_type"].startswith(kind)]


Reply = Callable[[str, int], dict[str, Any]]


def a_question(prompt: str, n_before: int) -> dict[str, Any]:
    name = re.search(r"The answer is its name: (.*)\.", prompt)
    return {"query": f"Number {n_before}?", "answer": name[1] if name else "yes"}


def made(
    folder: Path,
    rows: Sequence[dict[str, str]],
    claims: Mapping[str, Sequence[dict[str, str]]],
    *,
    question: Reply = a_question,
    null: Reply = lambda prompt, n_before: {
        "query": f"Has Vantor told Quill {n_before}?",
        "entity": "Vantor",
        "sources": ["Quill"],
    },
    **settings: Any,
) -> Made:
    """Return the result for articles whose claims are given by title."""
    asked: list[str] = []

    def reply_to(prompt: str, n_before: int) -> str:
        asked.append(prompt)
        if '{"claims": ' in prompt:
            return json.dumps({"claims": claims.get(sections(prompt)["title"][0], [])})
        if '"all_used": ' in prompt:
            return json.dumps(dict.fromkeys(("all_used", "only_these", "short", "of_its_kind"), True))
        return json.dumps((null if '"entity": ' in prompt else question)(prompt, n_before))

    (folder / "corpus.json").write_text(json.dumps(list(rows)), "utf-8")
    outcome = synthesize_multihop(
        folder / "corpus.json", folder / "out", ScriptedClient(reply_to), MultihopSettings(**settings)
    )
    questions = json.loads((folder / "out" / "dataset" / "MultiHopRAG.json").read_bytes())
    return Made(outcome, questions, asked)


def one_claim_each(n: int, **more: str) -> tuple[list[dict[str, str]], dict[str, list[dict[str, str]]]]:
    """Return articles of one sentence each, with one claim each."""
    rows = [article(number, f"Arden built {number} mills.") for number in range(1, n + 1)]
    return rows, {row["title"]: [claim(row["body"], **more)] for row in rows}


def facts(rows: Sequence[dict[str, Any]]) -> list[list[str]]:
    return [[evidence["fact"] for evidence in row["evidence_list"]] for row in rows]


def test_a_question_has_the_layout_of_the_official_file(tmp_path: Path) -> None:
    rows, claims = one_claim_each(2)
    result = made(tmp_path, rows[::-1], claims, null_share=0.0)
    assert [row["question_type"] for row in result.questions] == [
        "inference_query",
        "comparison_query",
        "temporal_query",
    ]
    first = result.questions[0]
    assert (first["answer"], result.questions[1]["answer"]) == ("Arden", "Yes")
    assert first["evidence_list"] == [
        {**{key: value for key, value in row.items() if key != "body"}, "author": "", "fact": row["body"]}
        for row in rows
    ], "in the order of their dates"
    lines = result.outcome.lines[0]
    assert "2 articles, 2 claims, 1 bridges, 1 inference_query, 1 comparison_query, 1 temporal_query" in lines
    (wanted, *_) = [prompt for prompt in result.asked if '"answer": ' in prompt]
    assert "1. Daily 1, 2024-01-01: Arden: Arden built 1 mills." in wanted


def test_a_repeated_call_sends_no_request_and_other_results_are_kept(tmp_path: Path) -> None:
    rows, claims = one_claim_each(2)
    made(tmp_path, rows, claims, null_share=0.0)
    with raises(ConfigurationError):
        made(tmp_path, rows, claims, null_share=0.5)
    with pytest.raises(ConfigurationError, match="the same documents"):
        made(tmp_path, [*rows, article(3, "Belmor slept.")], claims, null_share=0.0)
    assert made(tmp_path, rows, claims, null_share=0.0).asked == []
    silent = ScriptedClient(lambda *_: pytest.fail("asked"), "another model")
    with pytest.raises(ConfigurationError, match="the same documents"):
        synthesize_multihop(tmp_path / "corpus.json", tmp_path / "out", silent, MultihopSettings(null_share=0.0))


@pytest.mark.parametrize(("n", "sizes"), [(2, [2]), (3, [3]), (4, [4]), (5, [4]), (6, [4, 2]), (9, [4, 4])])
def test_a_question_is_over_two_to_four_articles(tmp_path: Path, n: int, sizes: Sequence[int]) -> None:
    result = made(tmp_path, *one_claim_each(n), null_share=0.0)
    assert [len(result) for result in facts(result.of_kind("comparison"))] == sizes


def test_the_first_claim_of_an_article_on_a_subject_counts(tmp_path: Path) -> None:
    rows = [article(1, "Arden sold. Arden bought."), article(2, "ARDEN slept.")]
    claims = {
        "News 1": [claim("Arden sold."), claim("Arden bought.")],
        "News 2": [claim("ARDEN slept.", "ARDEN", "rest")],
    }
    result = made(tmp_path, rows, claims, null_share=0.0)
    assert facts(result.of_kind("comparison")) == [["Arden sold.", "ARDEN slept."]], "the case of the name is ignored"


def test_bridges_are_entities_or_topics_and_only_entities_are_inferred(tmp_path: Path) -> None:
    rows = [article(1, "Arden sold."), article(2, "Belmor sold."), article(3, "Belmor slept.")]
    claims = {
        "News 1": [claim("Arden sold.", "Arden", "sale")],
        "News 2": [claim("Belmor sold.", "Belmor", "sale")],
        "News 3": [claim("Belmor slept.", "Belmor", "sleep")],
    }
    result = made(tmp_path, rows, claims, null_share=0.0)
    assert [row["answer"] for row in result.of_kind("inference")] == ["Belmor"]
    by_entity, by_topic = facts(result.of_kind("comparison"))
    assert (by_entity, by_topic) == (["Belmor sold.", "Belmor slept."], ["Arden sold.", "Belmor sold."])
    only = made_again(tmp_path, rows, claims, most_bridges=1)
    assert facts(only.of_kind("comparison")) == [by_entity], "entities come first"


def made_again(folder: Path, *given: Any, **more: Any) -> Made:
    (folder / "again").mkdir()
    return made(folder / "again", *given, null_share=0.0, **more)


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (claim("Arden built 3 mills."), "facts missing from their article"),
        (claim("Arden built 1 mills.", text="Arden aa bb cc"), "claims with words missing from their article"),
        (claim("Arden built 1 mills.", entity="Belmor", text="built mills News"), "claims without their entity"),
    ],
)
def test_a_claim_unsupported_by_its_article_is_dropped(tmp_path: Path, bad: dict[str, str], reason: str) -> None:
    rows, claims = one_claim_each(2)
    result = made(tmp_path, rows, {**claims, "News 1": [bad, *claims["News 1"], bad]}, null_share=0.0)
    assert (
        f"2 claims, 1 bridges, 1 inference_query, 1 comparison_query, 1 temporal_query, 2 {reason}"
        in (result.outcome.lines[0])
    )


def test_a_claim_may_have_three_fifths_of_other_words(tmp_path: Path) -> None:
    rows, claims = one_claim_each(2)
    result = made(tmp_path, rows, {**claims, "News 1": [claim(rows[0]["body"], text="Arden built aa bb cc")]})
    assert "2 claims" in result.outcome.lines[0]


def test_five_claims_per_part_are_read(tmp_path: Path) -> None:
    text = " ".join(f"Arden{n} sold." for n in range(7))
    claims = [claim(f"Arden{n} sold.", f"Arden{n}", f"t{n}") for n in range(7)]
    rows = [article(1, text), article(2, text)]
    result = made(tmp_path, rows, {row["title"]: claims for row in rows})
    assert "10 claims, 5 bridges" in result.outcome.lines[0]
    assert "At most 5 of them" in result.asked[0]


@pytest.mark.parametrize(
    ("kind", "answer", "expected"),
    [
        ("inference", '"arden."', "Arden"),
        ("comparison", "YES.", "Yes"),
        ("comparison", "no", "No"),
        ("comparison", "before", None),
        ("temporal", "Before.", "before"),
        ("temporal", "AFTER", "after"),
        ("temporal", "yes", "Yes"),
        ("temporal", "later", None),
    ],
)
def test_answers_have_the_format_of_their_type(tmp_path: Path, kind: str, answer: str, expected: str | None) -> None:
    words = {"inference": "without its name", "comparison": "claims agree", "temporal": "order in time"}

    def question(prompt: str, n_before: int) -> dict[str, Any]:
        return {**a_question(prompt, n_before), **({"answer": answer} if words[kind] in prompt else {})}

    result = made(tmp_path, *one_claim_each(2), question=question, null_share=0.0)
    assert [row["answer"] for row in result.of_kind(kind)] == ([] if expected is None else [expected])
    if expected is None:
        lines = result.outcome.lines[0]
        assert "1 questions without a usable reply: an answer that is none of yes, no" in lines


def test_repeated_questions_are_kept_once(tmp_path: Path) -> None:
    def question(prompt: str, n_before: int) -> dict[str, Any]:
        return {**a_question(prompt, n_before), "query": "Who?" if "its name" in prompt else "WHO?"}

    result = made(tmp_path, *one_claim_each(2), question=question, null_share=0.0)
    assert [row["query"] for row in result.questions] == ["Who?"]
    assert "2 repeated questions" in result.outcome.lines[0]


@pytest.mark.parametrize(("share", "n_null"), [(0.0, 0), (0.12, 0), (0.25, 1), (0.4, 2), (0.9, 2)])
def test_null_queries_are_a_share_limited_by_topics(tmp_path: Path, share: float, n_null: int) -> None:
    rows, claims = one_claim_each(2)
    claims["News 1"].append(claim("Arden built 1 mills.", topic="grain"))
    result = made(tmp_path, rows, claims, null_share=share)
    assert len(result.questions) == 3 + n_null
    null = result.of_kind("null")
    assert [(row["answer"], row["evidence_list"]) for row in null] == [("Insufficient information.", [])] * n_null
    null_prompts = [prompt for prompt in result.asked if '"entity": "...", "sources"' in prompt]
    assert [re.findall('about "(.*)", though', prompt) for prompt in null_prompts] == [["mill"], ["grain"]][:n_null]
    assert all("- Arden\n- Daily 1\n- Daily 2" in prompt for prompt in null_prompts)


@pytest.mark.parametrize("missing", ["vantor", "quill", "zubrin"])
def test_a_null_query_contains_its_invented_names(tmp_path: Path, missing: str) -> None:
    def null(prompt: str, n_before: int) -> dict[str, Any]:
        query = "Has vantor told quill and zubrin so?".replace(missing, "it")
        return {"query": query, "entity": "Vantor", "sources": ["Quill", "Zubrin"]}

    result = made(tmp_path, *one_claim_each(2), null=null, null_share=0.25)
    assert result.of_kind("null") == []
    reason = "1 null queries left out: a question without the names that were made up for it"
    assert reason in result.outcome.lines[0]


def test_repeated_null_queries_are_kept_once(tmp_path: Path) -> None:
    rows, claims = one_claim_each(2)
    claims["News 1"].append(claim("Arden built 1 mills.", topic="grain"))

    def null(prompt: str, n_before: int) -> dict[str, Any]:
        query = "Has Vantor said so?" if "grain" in prompt else "has vantor said so?"
        return {"query": query, "entity": "Vantor", "sources": []}

    assert len(made(tmp_path, rows, claims, null=null, null_share=0.4).of_kind("null")) == 1


@pytest.mark.parametrize("share", [-0.1, 1.0, 1.5])
def test_the_share_of_null_queries_must_be_below_one(share: float) -> None:
    with pytest.raises(ConfigurationError, match="from 0 to below 1"):
        MultihopSettings(null_share=share)


def test_an_article_without_a_usable_reply_is_left_out_by_name(tmp_path: Path) -> None:
    rows, claims = one_claim_each(3)
    result = made(tmp_path, rows, {**claims, "News 1": [{"fact": "Arden built 1 mills."}]}, null_share=0.0)
    assert facts(result.of_kind("comparison")) == [["Arden built 2 mills.", "Arden built 3 mills."]]
    assert result.outcome.lines[2:] == ('  u1: no text under "claim"',)
    (row,) = [json.loads(line) for line in (tmp_path / "out/synthesis/left_out.jsonl").read_text("utf-8").splitlines()]
    assert row == {"what": "u1", "reason": 'no text under "claim"'}


def test_claims_that_are_not_a_list_omit_their_article(tmp_path: Path) -> None:
    rows, claims = one_claim_each(3)
    result = made(tmp_path, rows, {**claims, "News 3": 7}, null_share=0.0)  # type: ignore[dict-item]
    assert result.outcome.lines[2:] == ('  u3: "claims": no list',)


def test_a_long_article_is_split_into_parts_without_overlap(tmp_path: Path) -> None:
    long = " ".join(f"word{number}" for number in range(1500))
    rows, claims = one_claim_each(2)
    result = made(tmp_path, [*rows, article(3, long)], claims, null_share=0.0)
    pieces = [sections(prompt)["piece"][0] for prompt in result.asked if "word0" in prompt or "word1499" in prompt]
    assert [len(part.split()) for part in pieces] == [1024, 476]
    assert " ".join(pieces) == long


def test_the_steps_have_names_in_the_progress_bar(tmp_path: Path) -> None:
    steps: list[str] = []
    client = ScriptedClient(lambda prompt, n_before: good_reply(prompt), "writer")
    synthesize_multihop(
        articles(tmp_path / "corpus.json"),
        tmp_path / "out",
        client,
        MultihopSettings(),
        progress=lambda step, done, total: steps.append(step),
    )
    names = ["claims: writer", "questions: writer", "checks: writer", "null queries: writer"]
    assert list(dict.fromkeys(steps)) == names


def test_a_document_has_its_folder_as_source_and_its_file_time(tmp_path: Path) -> None:
    for name, time in (("north", 86400.5), ("south", 3 * 86400)):
        path = tmp_path / "docs" / name / "a.txt"
        path.parent.mkdir(parents=True)
        path.write_text(f"The Arden Company built in {name} a mill.", "utf-8")
        os.utime(path, (time, time))
    (tmp_path / "docs" / "empty.txt").write_text("", "utf-8")
    client = ScriptedClient(lambda prompt, n_before: good_reply(prompt))
    outcome = synthesize_multihop(tmp_path / "docs", tmp_path / "out", client, MultihopSettings())
    rows = json.loads((tmp_path / "out" / "dataset" / "corpus.json").read_bytes())
    assert [(row["source"], row["category"], row["url"], row["author"], row["published_at"]) for row in rows] == [
        ("north", "north", "north/a.txt", "", "1970-01-02T00:00:00+00:00"),
        ("south", "south", "south/a.txt", "", "1970-01-04T00:00:00+00:00"),
    ]
    assert outcome.lines[2].startswith("  empty.txt: ")


def test_articles_without_a_url_are_numbered_and_an_empty_corpus_is_an_error(tmp_path: Path) -> None:
    rows, claims = one_claim_each(2)
    del rows[0]["url"]
    rows[1]["author"] = "Somebody"
    result = made(tmp_path, rows, claims, null_share=0.0)
    evidence = result.questions[0]["evidence_list"]
    assert [(row["url"], row["author"]) for row in evidence] == [("article-1", ""), ("u2", "Somebody")]
    (tmp_path / "none").mkdir()
    with raises(BenchmarkFileError):
        made(tmp_path / "none", [], {})


def test_errors_of_a_corpus_name_the_article_and_the_expected_value(tmp_path: Path) -> None:
    rows, claims = one_claim_each(2)
    with raises(BenchmarkFileError):
        made(tmp_path, [*rows, article(3, ""), article(4, "Text.", published_at="yesterday"), rows[0], "text"], claims)  # type: ignore[list-item]
