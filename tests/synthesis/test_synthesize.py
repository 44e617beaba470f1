from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from ragtasks.benchmarks import open_benchmark
from ragtasks.benchmarks.custom import check_folder
from ragtasks.errors import ConfigurationError, JudgeError
from ragtasks.metrics import NgramIdk
from ragtasks.records import Answerability, IdkVerdict, Response
from ragtasks.synthesis.pipeline import Settings
from ragtasks.synthesis.removal import NO_ANSWER
from tests.clients._server import Action, ChatServer, chat_server, completion, refusal
from tests.synthesis._documents import PLACES, town, write_towns
from tests.synthesis._making import content, make, rows
from tests.synthesis._scripted import FAULTS, good_reply, script


@pytest.fixture
def server() -> Iterator[ChatServer]:
    with chat_server(script) as running:
        yield running


def test_documents_become_a_valid_folder(server: ChatServer, tmp_path: Path) -> None:
    write_towns(tmp_path / "docs", 4)
    (tmp_path / ".out.part").mkdir()
    (tmp_path / ".out.part" / "left.jsonl").touch()  # left by a killed call
    outcome = make(server.base_url, tmp_path)
    assert not (tmp_path / "out" / "left.jsonl").exists()
    tasks = open_benchmark("custom", tmp_path / "out").tasks
    assert {(task.turn == 1, task.multi_turn) for task in tasks} == {(True, "N/A"), (False, "Follow-up")}
    checked = check_folder(tmp_path / "out")
    assert checked.passes
    assert not any("not read" in line for line in checked.lines)
    assert "4 documents" in outcome.lines[0]
    details = rows(tmp_path / "out" / "synthesis" / "dialogues.jsonl")
    units = {row["unit_id"]: row for row in rows(tmp_path / "out" / "synthesis" / "units.jsonl")}
    for dialogue in details:
        assert len(dialogue["units"]) <= 8
        assert dialogue["turns"][0]["contextualized"] == dialogue["turns"][0]["decontextualized"]
        for turn in dialogue["turns"]:
            # The model reworded the statement; the closest real one contains the words of the answer.
            assert turn["answer"] in {units[name]["text"] for name in turn["units"]}
            assert turn["question_types"] == ["Factoid"]
    used = [name for dialogue in details for name in dialogue["units"]]
    assert sorted(used) == sorted(units)
    assert len(used) == len(set(used)), "each list is used once"


def test_the_question_after_a_removed_pair_stands_alone(server: ChatServer, tmp_path: Path) -> None:
    write_towns(tmp_path / "docs", 4)
    make(server.base_url, tmp_path)
    details = rows(tmp_path / "out" / "synthesis" / "dialogues.jsonl")
    removed = [pair for dialogue in details for pair in dialogue["removed"]]
    assert Counter(pair["reason"] for pair in removed) == {"not accepted": len(removed)}
    long = [dialogue for dialogue in details if len(dialogue["turns"]) > 5]
    assert long
    for dialogue in long:  # the fifth pair was rejected; the seventh question is in context
        sixth, seventh = dialogue["turns"][4], dialogue["turns"][5]
        assert sixth["contextualized"] == sixth["decontextualized"]
        assert seventh["contextualized"] == "And what about it?"


def test_the_same_replies_give_the_same_bytes_without_repeated_requests(server: ChatServer, tmp_path: Path) -> None:
    write_towns(tmp_path / "docs", 4)
    first = make(server.base_url, tmp_path, unanswerable=0.1)
    n_asked = len(server.asked)
    again = make(server.base_url, tmp_path, "again", unanswerable=0.1)
    assert (first.usage.n_asked, again.usage.n_asked, len(server.asked)) == (n_asked, 0, n_asked)
    assert content(tmp_path / "out") == content(tmp_path / "again")
    unanswerable_result = make(server.base_url, tmp_path, unanswerable=0.1)
    assert "already contains the result" in unanswerable_result.lines[0]
    with pytest.raises(ConfigurationError, match="found: other contents"):
        make(server.base_url, tmp_path, unanswerable=0.2)


def test_other_units_pools_and_domains(server: ChatServer, tmp_path: Path) -> None:
    write_towns(tmp_path / "docs" / "North", 2)
    write_towns(tmp_path / "docs" / "South", 4)
    make(server.base_url, tmp_path, unit="sentences", pool="propositions", folders_are_domains=True, most_dialogues=2)
    benchmark = open_benchmark("custom", tmp_path / "out")
    assert {task.domain for task in benchmark.tasks} == {"north", "south"}
    assert not any('"propositions"' in prompt for prompt in server.asked), "sentences require no request"
    assert all(task.references[0].passage_id.startswith("s") for task in benchmark.tasks)


def test_dialogues_over_passages_in_the_format_of_mtrag_s(server: ChatServer, tmp_path: Path) -> None:
    write_towns(tmp_path / "docs", 4)
    make(server.base_url, tmp_path, unit="passages", list_size=4, turns=3, mtrag_s="govt")
    benchmark = open_benchmark("mtrag_s", tmp_path / "out")
    assert {task.domain for task in benchmark.tasks} == {"govt"}
    assert {task.multi_turn for task in benchmark.tasks} == {"N/A", "Follow-up"}
    assert all(task.references for task in benchmark.tasks)
    assert max(task.turn for task in benchmark.tasks) == 3
    for before, after in itertools.pairwise(benchmark.tasks):
        assert after.turn == 1 or after.messages[-2].text == before.target, (
            "an answer is part of the history of the next turn"
        )
    with pytest.raises(ConfigurationError, match="corpus of MTRAG-S 'gov'"):
        Settings(mtrag_s="gov")


@pytest.mark.slow
def test_only_unanswerable_questions_lose_their_passages(server: ChatServer, tmp_path: Path) -> None:
    write_towns(tmp_path / "docs", 8)
    make(server.base_url, tmp_path, unanswerable=0.2, pool="propositions")
    benchmark = open_benchmark("custom", tmp_path / "out")
    kept = {row["_id"] for row in rows(tmp_path / "out" / "passages.jsonl")}
    lost = {row["unit_id"] for row in rows(tmp_path / "out" / "synthesis" / "units.jsonl")} - kept
    struck = [task for task in benchmark.tasks if task.answerability is Answerability.UNANSWERABLE]
    assert len(struck) == len(lost)
    assert 0.05 <= len(struck) / len(benchmark.tasks) <= 0.21
    assert all(task.references for task in benchmark.tasks if task not in struck)
    labels = NgramIdk().detect([Response(task, (), task.target) for task in struck])
    assert {label.verdict for label in labels} == {IdkVerdict.YES}
    assert {task.target for task in struck} == {NO_ANSWER}


@pytest.mark.slow
@pytest.mark.parametrize("word", sorted(FAULTS))
def test_every_invalid_reply_omits_one_passage_with_its_reason(server: ChatServer, tmp_path: Path, word: str) -> None:
    write_towns(tmp_path / "docs", 3)
    (tmp_path / "docs" / "odd.txt").write_text(town("Harlow", more=f"A sign says fault-{word} here."), "utf-8")
    if word == "refused":
        with pytest.raises(JudgeError, match="got no reply from writer"):
            make(server.base_url, tmp_path)
        assert not (tmp_path / "out").exists()
        return
    outcome = make(server.base_url, tmp_path)
    left_out = rows(tmp_path / "out" / "synthesis" / "left_out.jsonl")
    assert check_folder(tmp_path / "out").passes
    expected = {
        "prose": "prose instead of JSON",
        "broken": "JSON that cannot be read",
        "missing": 'JSON without the key "propositions"',
        "shape": '"propositions": no list of texts',
        "many": "10,000 propositions of one passage, more than 200",
    }
    if word in expected:
        assert [row["reason"] for row in left_out] == [expected[word]] * len(left_out)
    if word == "empty":
        assert "passages without propositions" in outcome.lines[0]
    if word == "german":
        assert "in another language" in outcome.lines[0]
    # A list whose only statement names the fault is a failed dialogue, although its passage did not fail.
    assert {row["what"].partition(".")[0] for row in left_out} <= {"odd", *(f"d{n}" for n in range(1, 20))}
    assert bool(left_out) == (word not in {"empty", "german", "fenced"})


@pytest.mark.parametrize("word", ["prose", "broken", "missing", "silent", "cut"])
def test_an_invalid_first_reply_costs_only_a_second_request(server: ChatServer, tmp_path: Path, word: str) -> None:
    write_towns(tmp_path / "docs", 2)
    (tmp_path / "docs" / "odd.txt").write_text(town("Harlow", more=f"A sign says once-{word} here."), "utf-8")
    make(server.base_url, tmp_path)
    assert rows(tmp_path / "out" / "synthesis" / "left_out.jsonl") == []
    n_asked = len(server.asked)
    make(server.base_url, tmp_path, "again")
    assert len(server.asked) == n_asked, "the invalid first reply is cached too"


def test_a_dialogue_that_fails_is_left_out_with_its_reason(tmp_path: Path) -> None:
    def breaks_one(prompt: str, n_before: int) -> Action:
        of_one = "Write a dialogue" in prompt and f"of {PLACES[0]}" in prompt
        return FAULTS["prose"]("") if of_one else script(prompt, n_before)

    write_towns(tmp_path / "docs", 4)
    with chat_server(breaks_one) as server:
        make(server.base_url, tmp_path)
    left_out = rows(tmp_path / "out" / "synthesis" / "left_out.jsonl")
    assert {row["reason"] for row in left_out} == {"dialogues: prose instead of JSON"}
    assert check_folder(tmp_path / "out").passes


def test_answers_in_another_language_are_removed(tmp_path: Path) -> None:
    def answers_in_german(prompt: str, n_before: int) -> Action:
        reply = json.loads(good_reply(prompt))
        if "turns" in reply:
            reply["turns"][0]["answer"] = "Die Mühle mahlt seit jeher das Korn der ganzen Gegend."
        return completion(json.dumps(reply))

    write_towns(tmp_path / "docs", 2, 3)
    with chat_server(answers_in_german) as server:
        outcome = make(server.base_url, tmp_path)
    assert any("without a supporting statement" in line for line in outcome.lines)
    assert "Mühle" not in (tmp_path / "out" / "conversations.jsonl").read_text("utf-8")


_NOTHING = {
    "prose": "prose instead of JSON",
    "empty": "passages without propositions",
    "german": "6 times propositions with words missing from their passage",
}


def test_a_synthesis_without_result_is_one_error_and_no_folder(tmp_path: Path) -> None:
    write_towns(tmp_path / "docs", 2)
    for word, reason in _NOTHING.items():
        expected = pytest.raises(ConfigurationError, match=f"no dialogue could be made .*{reason}")
        with chat_server(lambda *_, word=word: FAULTS[word]("")) as server, expected:  # type: ignore[misc]
            make(server.base_url, tmp_path)
        assert not (tmp_path / "out").exists()


def test_a_failing_server_loses_no_reply(tmp_path: Path) -> None:
    def fails_late(prompt: str, n_before: int) -> Action:
        return refusal(500) if "careful annotator" in prompt and not fails_late.is_up else script(prompt, n_before)  # type: ignore[attr-defined]

    fails_late.is_up = False  # type: ignore[attr-defined]
    write_towns(tmp_path / "docs", 3)
    with chat_server(fails_late) as server:
        with pytest.raises(JudgeError):
            make(server.base_url, tmp_path)
        assert not (tmp_path / "out").exists()
        n_before = sum("careful annotator" not in prompt for prompt in server.asked)
        fails_late.is_up = True  # type: ignore[attr-defined]
        make(server.base_url, tmp_path)
        assert sum("careful annotator" not in prompt for prompt in server.asked) == n_before
    assert check_folder(tmp_path / "out").passes
