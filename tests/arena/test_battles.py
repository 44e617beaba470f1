"""Battles: the pairs, the selection of the next battle, and the votes from judges' replies."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ragtasks.arena.battles import (
    AnswerPool,
    AskJudges,
    Battle,
    judge_battles,
    next_battles,
    race_battles,
    read_answers,
)
from ragtasks.arena.votes import Vote, read_votes, write_votes
from ragtasks.clients import CachedClient, Client, ReplyCache
from ragtasks.errors import BenchmarkFileError, ConfigurationError, JudgeError
from tests._messages import raises
from tests.arena._made import answer, vote
from tests.judges._scripted import Script, ScriptedClient, code_in, verdicts_of
from tests.reports._saved import facts_of, save

SYSTEMS = ("good", "poor", "worse")


def pool(n: int = 6, systems: tuple[str, ...] = SYSTEMS) -> AnswerPool:
    return AnswerPool(
        answer(system, f"{system} says {number}", conversation=f"c{number // 2}", turn=number % 2 + 1)
        for number, system in itertools.product(range(n), systems)
    )


def preferring(system: str) -> Script:
    """Return a judge that prefers a system by its text, or else the first one displayed."""

    def reply(prompt: str, _: int) -> str:
        code = code_in(prompt)
        shown = [prompt.split(f"reply of assistant {letter}")[1].split("end]", maxsplit=1)[0] for letter in "AB"]
        label = "A" if system in shown[0] or system not in shown[1] else "B"
        return f"Verdict {code}: {label}"

    return reply


def asking(client: Client) -> AskJudges:
    return lambda responses, rubrics: verdicts_of(responses, rubrics, [client])


def test_both_orders_decide_and_a_flip_is_a_tie() -> None:
    client = ScriptedClient(preferring("good says"))
    judged = judge_battles(pool().battles, asking(client))
    assert judged.n_battles == len(judged.votes) == 18
    won = Counter(
        (judge_vote.first.system, judge_vote.second.system, judge_vote.preference) for judge_vote in judged.votes
    )
    assert won == {("good", "poor", "first"): 6, ("good", "worse", "first"): 6, ("poor", "worse", "tie"): 6}
    flipped = [judge_vote for judge_vote in judged.votes if judge_vote.orders == ("first", "second")]
    assert {judge_vote.first.system for judge_vote in flipped} == {"poor"}
    tasks = {battle.battle_id: battle.first.response.task for battle in pool().battles}
    for judge_vote in judged.votes:
        task = tasks[judge_vote.battle_id]
        about = (task.task_id, task.conversation_id, task.answerability.value)
        assert (judge_vote.task_id, judge_vote.conversation_id, judge_vote.answerability) == about


def test_names_of_systems_reach_no_judge() -> None:
    client = ScriptedClient(preferring("A"))
    named = AnswerPool(answer(system, text) for system, text in (("secret-a", "One."), ("secret-b", "Two.")))
    judge_battles(named.battles, asking(client))
    assert client.asked
    assert not any("secret" in prompt for request in client.asked for prompt in [request.messages[-1].content])


def test_a_repeated_command_sends_no_request_even_with_a_budget(tmp_path: Path) -> None:
    client = ScriptedClient(preferring("good says"))
    for _ in range(2):
        with ReplyCache(tmp_path / "replies.sqlite") as cache:
            judged = judge_battles(pool(12).battles, asking(CachedClient(client, cache)), max_battles=9)
            n_asked = len(client.asked)
            client.asked.clear()
    assert n_asked == 0
    assert (judged.n_battles, judged.n_left) == (9, 27)


def test_a_reply_without_verdict_is_not_a_vote_and_is_counted() -> None:
    script = preferring("good says")
    client = ScriptedClient(lambda prompt, n: "no idea" if "worse says 1" in prompt else script(prompt, n))
    judged = judge_battles(pool(2).battles, asking(client))
    assert judged.n_unvoted == 2
    assert len(judged.votes) == 4
    with pytest.raises(JudgeError, match="pairwise: 8 of 12"):
        judged.require_coverage()


def test_the_next_battle_is_from_the_pair_with_the_least_certain_win_rate() -> None:
    battles = pool(12).battles
    votes = [
        vote(*battle.systems, "first", battle_id=battle.battle_id)
        for battle in battles
        if battle.systems == ("good", "worse")
    ][:8]
    chosen = Counter(battle.systems for battle in next_battles(battles, votes, 6))
    assert chosen == {("good", "poor"): 3, ("poor", "worse"): 3}


def test_among_pairs_with_equal_votes_the_split_pair_comes_first() -> None:
    battles = pool(12).battles
    won = {
        ("good", "poor"): ("first",) * 4,
        ("good", "worse"): ("first", "second") * 2,
        ("poor", "worse"): ("first",) * 4,
    }
    votes = [
        vote(*systems, preference, battle_id=battle.battle_id)
        for systems, preferences in won.items()
        for battle, preference in zip(
            [candidate for candidate in battles if candidate.systems == systems], preferences, strict=False
        )
    ]
    assert next_battles(battles, votes, 1)[0].systems == ("good", "worse")


def test_conversations_alternate() -> None:
    chosen = next_battles(pool(12, SYSTEMS[:2]).battles, [], 6)
    assert len({battle.conversation_id for battle in chosen}) == 6


def test_a_battle_does_not_depend_on_the_reading_order() -> None:
    first, second = answer("a", "One."), answer("b", "Two.")
    assert AnswerPool([first, second]).battles == AnswerPool([second, first]).battles == (Battle(first, second),)


def test_invalid_battles_are_refused() -> None:
    with raises(ConfigurationError):
        AnswerPool([answer("a", "One."), answer("b", "Two.", turn=2)])
    with pytest.raises(ConfigurationError, match="twice"):
        AnswerPool([answer("a", "One."), answer("a", "Two.")])


def test_a_failed_request_is_in_no_battle_and_is_counted() -> None:
    failed = answer("b", "")
    failed = replace(failed, response=replace(failed.response, no_answer="HTTP 500"))
    answers = AnswerPool([answer("a", "One."), failed, answer("c", "")])
    assert answers.n_failed == 1
    assert [battle.systems for battle in answers.battles] == [("a", "c")]


def test_answers_are_read_from_results_together_with_the_reference(tmp_path: Path) -> None:
    save(tmp_path, "one", day=1)
    save(tmp_path, "two", day=2)
    answers = read_answers([tmp_path], with_reference=True)
    assert answers.systems == ("one", "reference", "two")
    item = answers.items[0]
    assert set(answers.answers_to(item)) == {"one", "reference", "two"}
    assert answers.answers_to(item)["reference"].response.text == answers.answers_to(item)["one"].response.task.target


def test_a_system_is_named_with_its_run_and_other_settings_are_omitted(tmp_path: Path) -> None:
    def on_a_run(results: dict[str, Any]) -> None:
        facts_of(results)["configuration"]["run"] = "bm25"

    save(tmp_path, "one", day=1)
    save(tmp_path, "one", day=2, change=on_a_run)
    for day, model in ((3, "one"), (4, "two")):
        save(tmp_path, model, day=day, setting="full_rag")
    assert read_answers([tmp_path], setting="reference").systems == ("one", "one (run bm25)")
    assert {key[1] for key in read_answers([tmp_path]).items} == {"reference", "full_rag"}


def test_votes_are_read_back_from_a_file_and_invalid_votes_named_by_line(tmp_path: Path) -> None:
    votes = [vote("a", "b", vote_id="1"), vote("b", "a", "both_bad", vote_id="2", reason="neither")]
    file = tmp_path / "votes.jsonl"
    write_votes(file, [votes[0]])
    assert read_votes([file, file]) == [votes[0]]
    file.write_text(votes[0].model_dump_json() + '\n{"vote_id": "3"}\n', encoding="utf-8")
    with pytest.raises(BenchmarkFileError, match="line 2"):
        read_votes([file])


@pytest.mark.parametrize(
    ("second", "text"),
    [
        (vote("a", "b", "second", vote_id="1"), "line 2: expected each vote once, found 'another vote with the id 1'"),
        (vote("a", "a", vote_id="2"), "line 2: expected two systems, found 'one: a'"),
    ],
)
def test_contradicting_votes_and_votes_on_one_system_are_refused(tmp_path: Path, second: Vote, text: str) -> None:
    file = tmp_path / "votes.jsonl"
    write_votes(file, [vote("a", "b", vote_id="1"), second])
    with pytest.raises(BenchmarkFileError) as error:
        read_votes([file])
    assert text in str(error.value)


def test_implausible_answers_are_named() -> None:
    texts = (("a", ""), ("b", "Yes {n}."), ("reference", ""), ("ragtasks-refuse", ""))
    made = [answer(name, text.format(n=n), conversation=f"c{n}") for n in range(3) for name, text in texts]
    (line,) = AnswerPool(made).implausible()
    assert line.startswith("a, ")
    assert "3 of 3 answers (100%) are empty" in line


# Until decided.


def many(n: int, systems: tuple[str, ...] = ("good", "poor"), text: str = "{system} says {number}") -> AnswerPool:
    return AnswerPool(
        answer(system, text.format(system=system, number=number), conversation=f"c{number // 2}", turn=number % 2 + 1)
        for number, system in itertools.product(range(n), systems)
    )


def test_a_clear_winner_needs_only_a_part_of_the_battles() -> None:
    client = ScriptedClient(preferring("good says"))
    race, judged = race_battles(many(80), asking(client))
    assert race.conclusion("win rate") == "good is better than poor in win rate"
    assert judged.n_battles < 20
    assert judged.n_battles + judged.n_left == 80
    assert len(client.asked) == 2 * judged.n_battles


def test_the_best_of_three_is_found_and_beaten_systems_stop() -> None:
    def reply(prompt: str, _: int) -> str:
        shown = [prompt.split(f"reply of assistant {letter}")[1].split("end]", maxsplit=1)[0] for letter in "AB"]
        ranks = [next(index for index, name in enumerate(SYSTEMS) if f"{name} says" in text) for text in shown]
        return f"Verdict {code_in(prompt)}: {'A' if ranks[0] < ranks[1] else 'B'}"

    race, judged = race_battles(many(120, SYSTEMS), asking(ScriptedClient(reply)))
    assert race.conclusion("win rate") == "good is better than each of the others in win rate"
    assert judged.n_battles < 120


def test_equal_answers_count_half_to_both_in_a_win_rate() -> None:
    twins = AnswerPool(
        answer(system, f"{text} {number}", conversation=f"c{number // 2}", turn=number % 2 + 1)
        for number in range(120)
        for system, text in (("good", "good says"), ("its twin", "good says"), ("worse", "worse says"))
    )
    looked: list[dict[tuple[str, str], float | None]] = []
    race_battles(
        twins,
        asking(ScriptedClient(preferring("good says"))),
        after_wave=lambda race: looked.append(
            {(look.first, look.second): look.difference.value for look in race.looks}
        ),
    )
    assert looked[0] == {("good", "its twin"): 0, ("good", "worse"): -0.75, ("its twin", "worse"): -0.75}


def test_a_judge_that_always_names_the_first_decides_nothing() -> None:
    race, judged = race_battles(many(120), asking(ScriptedClient(preferring("nobody"))))
    assert race.conclusion("win rate").startswith("cannot decide which of good and poor is better in win rate: every")
    assert judged.n_battles < 120


def test_an_undecidable_race_sends_no_request() -> None:
    client = ScriptedClient(preferring("good says"))
    for answers, text in ((many(12), "6 conversations"), (many(60, text="The same."), "have the same text")):
        with pytest.raises(ConfigurationError, match=text):
            race_battles(answers, asking(client))
    assert not client.asked


def test_a_race_whose_judge_gives_no_verdicts_ends_without_a_decision() -> None:
    race, judged = race_battles(many(80), asking(ScriptedClient(lambda *_: "I would rather not.")))
    assert race.verdict is None
    with pytest.raises(JudgeError):
        judged.require_coverage()
