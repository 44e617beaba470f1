"""Dialogues and their unanswerable questions, from scripted units and replies."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from ragtasks.records import Answerability, Passage
from ragtasks.synthesis.asking import Asker
from ragtasks.synthesis.dialogues import write_dialogues
from ragtasks.synthesis.documents import LeftOut
from ragtasks.synthesis.draft import Dialogue, Turn
from ragtasks.synthesis.propositions import Unit
from ragtasks.synthesis.removal import NO_ANSWER, Pool, make_unanswerable
from tests.judges._scripted import ScriptedClient

TEXTS = {
    "mill": "mill grinds corn under tall old windy grey sails daily",
    "port": "harbour shelters eleven painted wooden boats against northern storms overnight",
    "fair": "autumn market sells honey cheese candles baskets leather boots cheaply",
    "bell": "cathedral tower holds seven bronze bells cast somewhere abroad long ago",
}
"""At least ten words that no other text has."""


def unit(name: str) -> Unit:
    return Unit(name, TEXTS[name], (name,), "document", "north")


def dialogue(number: int, *turns: Sequence[str], domain: str = "north") -> Dialogue:
    """Return a dialogue whose turns are supported by the named units."""
    made = tuple(
        Turn(
            decontextualized=f"What about {' and '.join(TEXTS[name] for name in names)}?",
            answer=" ".join(TEXTS[name] for name in names),
            contextualized="And that?" if index else f"What about {' and '.join(TEXTS[name] for name in names)}?",
            units=tuple(unit(name) for name in names),
        )
        for index, names in enumerate(turns)
    )
    return Dialogue(f"d{number}", domain, tuple(unit for turn in made for unit in turn.units), made)


def pool(units_of: Mapping[str, str], more: Sequence[Passage] = (), domain: str = "north") -> Pool:
    """Return a pool: passage id -> names of the units that it contains."""
    passages = [
        Passage(passage_id, " ".join(TEXTS[name] for name in names.split())) for passage_id, names in units_of.items()
    ]
    of_unit = {
        name: tuple(passage_id for passage_id, names in units_of.items() if name in names.split()) for name in TEXTS
    }
    return Pool({domain: (*passages, *more)}, of_unit)


def asker(answer: str = "no") -> Asker:
    return Asker(ScriptedClient(lambda prompt, n_before: f'{{"answerable": "{answer}"}}'))


def unanswerable_turns(dialogues: Sequence[Dialogue]) -> list[tuple[str, int]]:
    """Return the turns that are unanswerable, by dialogue and number."""
    return [
        (dialogue.dialogue_id, number)
        for dialogue in dialogues
        for number, turn in enumerate(dialogue.turns, start=1)
        if turn.answerability is Answerability.UNANSWERABLE
    ]


EACH_ALONE = {name: name for name in TEXTS}
TWO = (dialogue(1, ["mill"], ["port"]), dialogue(2, ["fair"], ["bell"]))


def test_a_passage_is_removed_with_the_answers_that_only_it_supports() -> None:
    made, left, counts = make_unanswerable(
        [dialogue(1, ["mill"], ["port"])], pool({"a": "mill"} | EACH_ALONE), 0.5, asker()
    )
    assert unanswerable_turns(made) == [("d1", 2)], "two passages contain the unit of the first question"
    assert {passage.passage_id for passage in left.passages["north"]} == {"a", "mill", "fair", "bell"}
    assert left.of_unit["port"] == ()
    assert left.of_unit["mill"] == ("a", "mill")
    assert counts == {
        "unanswerable questions wanted": 1,
        "unanswerable questions made": 1,
        "passages removed": 1,
        "passages tried that others repeat or answer": 0,
    }


def test_an_unanswerable_turn_gets_a_refusal_and_the_next_stands_alone() -> None:
    before = dialogue(1, ["mill"], ["port"], ["fair", "bell"], ["mill"])
    (made,), _, _ = make_unanswerable([before], pool({"one": "mill fair bell", "two": "port"}), 0.25, asker())
    assert unanswerable_turns([made]) == [("d1", 2)]
    assert (made.turns[1].answer, made.turns[1].units, made.turns[1].contextualized) == (NO_ANSWER, (), "And that?")
    assert made.turns[2].contextualized == before.turns[2].decontextualized
    assert made.turns[3] == before.turns[3]


def test_the_question_after_an_unanswerable_one_stands_alone() -> None:
    before = dialogue(1, ["port"], ["mill"], ["fair"], ["fair"], ["fair"])
    held = pool({"a": "port", "b": "mill", "c": "fair", "d": "fair"})
    (made,), _, _ = make_unanswerable([before], held, 0.4, asker())
    assert unanswerable_turns([made]) == [("d1", 1), ("d1", 2)]
    assert made.turns[1].contextualized == before.turns[1].decontextualized


def test_no_question_loses_a_part_of_its_answer() -> None:
    partly_lost = dialogue(1, ["mill", "port"], ["fair"], ["fair"], ["fair"])
    # A search for this text does not return the other part, which would keep the question answerable.
    first = replace(partly_lost.turns[0], decontextualized=f"What about {TEXTS['mill']}?")
    parts = [replace(partly_lost, turns=(first, *partly_lost.turns[1:]))]
    made, left, counts = make_unanswerable(parts, pool({"a": "mill", "b": "port", "c": "fair"}), 0.25, asker())
    assert unanswerable_turns(made) == []
    assert len(left.passages["north"]) == 3
    assert (counts["unanswerable questions wanted"], counts["unanswerable questions made"]) == (1, 0)
    made, _, _ = make_unanswerable(parts, pool({"a": "mill port", "c": "fair"}), 0.25, asker())
    assert unanswerable_turns(made) == [("d1", 1)], "a complete answer may be removed"


def test_two_passages_with_shared_content_are_not_both_removed() -> None:
    turns = (["mill"], ["port"], ["bell"], ["fair"], ["fair"], ["fair"])
    held = pool({"a": "mill port", "b": "mill bell", "c": "fair", "d": "fair"})
    made, left, _ = make_unanswerable([dialogue(1, *turns)], held, 0.5, asker())
    assert len(unanswerable_turns(made)) == 1
    assert ("d1", 1) not in unanswerable_turns(made), "removing either passage alone leaves its answer"
    assert len(left.passages["north"]) == 3


@pytest.mark.parametrize(
    ("turns", "held", "n_struck"),
    [
        ((["mill"], ["port"], ["fair"], ["bell"]), EACH_ALONE, 2),
        ((["mill"], ["port"], ["fair"]), EACH_ALONE, 1),
        ((["mill"],), EACH_ALONE, 0),
        ((["mill"], ["mill"]), EACH_ALONE, 0),
        ((["mill"], ["mill"], ["port"], ["port"]), EACH_ALONE, 2),
    ],
)
def test_at_most_half_of_a_dialogues_questions_become_unanswerable(
    turns: Sequence[Sequence[str]], held: Mapping[str, str], n_struck: int
) -> None:
    made, _, counts = make_unanswerable([dialogue(1, *turns)], pool(held), 1.0, asker())
    assert len(unanswerable_turns(made)) == n_struck
    assert counts["unanswerable questions made"] == n_struck


@pytest.mark.parametrize(("n_words", "is_repeated"), [(10, True), (9, True), (8, False)])
def test_a_result_that_repeats_a_unit_keeps_its_question_answerable(n_words: int, is_repeated: bool) -> None:
    words = TEXTS["mill"].split()
    assert len(words) == 10
    again = Passage("again", f"{' '.join(reversed(words[:n_words]))} says a visitor")
    held = pool({"a": "mill", "b": "port"}, [again])
    client_asker = asker()
    made, left, counts = make_unanswerable(
        [dialogue(1, ["mill"], ["port"], ["port"], ["port"])], held, 0.25, client_asker
    )
    assert (unanswerable_turns(made) == []) == is_repeated
    assert counts["passages tried that others repeat or answer"] == is_repeated
    assert client_asker.usage.n_asked == (not is_repeated), "a passage with the same words requires no request"
    assert len(left.passages["north"]) == (3 if is_repeated else 2)


def test_only_results_from_the_domain_count() -> None:
    better = [Passage(f"more{n}", f"{TEXTS['mill'].rsplit(' ', 2)[0]} " * 2) for n in range(5)]
    far = Passage("far", f"{TEXTS['mill']} {'and so on without an end ' * 400}")
    elsewhere = Pool({"south": (Passage("s", TEXTS["mill"]),)}, {})
    north = pool({"a": "mill", "b": "port"}, [*better, far])
    both = Pool({**north.passages, **elsewhere.passages}, north.of_unit)
    made, left, _ = make_unanswerable([dialogue(1, ["mill"], ["port"], ["port"], ["port"])], both, 0.25, asker())
    assert unanswerable_turns(made) == [("d1", 1)]
    assert [passage.passage_id for passage in left.passages["south"]] == ["s"]


@pytest.mark.parametrize(
    ("answer", "n_struck"), [("no", 1), ("No", 1), ("partly", 0), ("yes", 0), ("perhaps", 0), ("", 0)]
)
def test_a_question_becomes_unanswerable_only_if_a_model_confirms_it(answer: str, n_struck: int) -> None:
    made, left, counts = make_unanswerable(TWO, pool(EACH_ALONE), 0.25, asker(answer))
    assert len(unanswerable_turns(made)) == n_struck
    assert len(left.passages["north"]) == 4 - n_struck
    assert (counts["passages tried that others repeat or answer"] == 0) == bool(n_struck)


def test_an_unparsable_reply_is_requested_again() -> None:
    client = ScriptedClient(lambda prompt, n_before: '{"answerable": "perhaps"}')
    make_unanswerable(TWO, pool(EACH_ALONE), 0.25, Asker(client))
    assert '"answerable" is none of yes, partly, no. Reply again' in client.asked[-1].messages[-1].content


def test_the_steps_have_names_in_the_progress_bar() -> None:
    steps: list[str] = []

    def reply_to(prompt: str, n_before: int) -> str:
        pair = {"statements": [TEXTS["mill"]], "accepted": True}
        turn = {"question": "What?", "answer": TEXTS["mill"]}
        return json.dumps({"turns": [turn], "questions": {"1": "It?"}, "pairs": {"1": pair}, "answerable": "no"})

    asking = Asker(ScriptedClient(reply_to, "writer"), progress=lambda step, done, total: steps.append(step))
    write_dialogues([(unit("mill"),)], asking, turns=1)
    make_unanswerable(TWO, pool(EACH_ALONE), 0.25, asking)
    assert list(dict.fromkeys(steps)) == [
        "dialogues: writer",
        "questions in context: writer",
        "grounding: writer",
        "answerability: writer",
    ]


def test_the_prompt_contains_the_question_and_the_remaining_results() -> None:
    client = ScriptedClient(lambda prompt, n_before: '{"answerable": "no"}')
    near = Passage("near", "harbour boats rest")
    make_unanswerable(
        [dialogue(1, ["port"], ["mill"], ["mill"], ["mill"])],
        pool({"a": "port", "b": "mill"}, [near]),
        0.25,
        Asker(client),
    )
    (prompt,) = [prompt_sent.messages[-1].content for prompt_sent in client.asked]
    assert f"What about {TEXTS['port']}?" in prompt
    assert "harbour boats rest" in prompt
    assert TEXTS["mill"] not in prompt, "it contains no word of the question"
    assert client.asked[0].kind == "synthesis answerable"


@pytest.mark.parametrize(("share", "n_wanted"), [(0.0, 0), (0.1, 0), (0.25, 1), (0.5, 2), (1.0, 4)])
def test_no_more_questions_are_removed_or_checked_than_wanted(share: float, n_wanted: int) -> None:
    used_asker = asker()
    made, _, counts = make_unanswerable(TWO, pool(EACH_ALONE), share, used_asker)
    assert len(unanswerable_turns(made)) == min(n_wanted, 2)
    assert counts.get("unanswerable questions wanted", 0) == n_wanted
    assert used_asker.usage.n_asked == {0: 0, 1: 3}.get(n_wanted, 4), "three times the wanted number is tried"


def test_the_choice_is_independent_of_the_order_of_dialogues() -> None:
    remaining = [
        {
            passage.passage_id
            for passage in make_unanswerable(dialogues, pool(EACH_ALONE), 0.25, asker())[1].passages["north"]
        }
        for dialogues in (TWO, TWO[::-1])
    ]
    assert remaining[0] == remaining[1]
    assert remaining[0] != set(EACH_ALONE) - {min(EACH_ALONE)}, "it does not depend on the name of the passage"


def write(
    names: Sequence[str],
    turns: Any,
    *,
    questions: Any = None,
    pairs: Any = None,
    n_turns: int = 8,
    prompts: list[str] | None = None,
) -> tuple[list[Dialogue], list[LeftOut]]:
    """Return the dialogue over a list of units for the given replies.

    Args:
        names: the units.
        turns: the reply: (question, answer) pairs, or a complete reply.
        questions: conversational forms; None: "And n?" for the turn with the number n.
        pairs: number -> changes to the check of a pair, None if missing; each is supported by its own words.
        n_turns: maximum number of turns.
        prompts: list that receives the prompts.
    """
    rows = [
        {"question": row[0], "answer": row[1], "type": "Factoid"} if isinstance(row, tuple) else row for row in turns
    ]
    changes: dict[int, Any] = {number: {} for number in range(1, len(rows) + 1)} | (pairs or {})
    checks = {
        str(number): {"statements": [rows[number - 1].get("answer")], "accepted": True} | change
        for number, change in changes.items()
        if change is not None
    }
    replies = {
        "turns": rows,
        "questions": questions or {str(number): f"And {number}?" for number in range(1, len(rows) + 1)},
        "pairs": checks,
    }

    def reply_to(prompt: str, n_before: int) -> str:
        if prompts is not None:
            prompts.append(prompt)
        (key,) = [key for key in replies if f'{{"{key}": ' in prompt]
        return json.dumps({key: replies[key]})

    return write_dialogues([tuple(unit(name) for name in names)], Asker(ScriptedClient(reply_to)), turns=n_turns)


def about(name: str) -> tuple[str, str]:
    return f"What of the {name}?", TEXTS[name]


def test_a_dialogue_has_turns_in_both_forms_with_their_units() -> None:
    prompts: list[str] = []
    (made,), _ = write(["mill", "port"], [about("port"), about("mill")], prompts=prompts)
    assert (made.dialogue_id, made.domain, made.removed) == ("d1", "north", ())
    assert [(turn.decontextualized, turn.contextualized, turn.answer) for turn in made.turns] == [
        ("What of the port?", "What of the port?", TEXTS["port"]),  # the first has no context
        ("What of the mill?", "And 2?", TEXTS["mill"]),
    ]
    assert [turn.units for turn in made.turns] == [(unit("port"),), (unit("mill"),)]
    assert len(prompts) == 3
    assert all(TEXTS["port"] in prompt for prompt in prompts)
    assert "At most 8 turns" in prompts[0]
    assert "Comparative, Composite" in prompts[0]
    assert "What of the mill?" in prompts[1]
    assert "What of the mill?" in prompts[2]


def test_each_list_becomes_a_dialogue_with_its_number_and_domain() -> None:
    lists = [(unit("mill"),), (replace(unit("port"), domain="south"),)]

    def reply_to(prompt: str, n_before: int) -> str:
        name = "mill" if TEXTS["mill"] in prompt else "port"
        return json.dumps(
            {
                "turns": [{"question": about(name)[0], "answer": TEXTS[name]}],
                "questions": {"1": "It?"},
                "pairs": {"1": {"statements": [TEXTS[name]], "accepted": name == "port"}},
            }
        )

    dialogues, left_out = write_dialogues(lists, Asker(ScriptedClient(reply_to)), turns=2)
    assert [(dialogue_made.dialogue_id, dialogue_made.domain) for dialogue_made in dialogues] == [("d2", "south")]
    assert [(omitted.name, omitted.reason) for omitted in left_out] == [("d1", "no pair was accepted")]


def test_repeated_questions_and_unknown_types_are_dropped() -> None:
    question, answer = about("mill")
    rows: list[Any] = [
        {"question": question, "answer": answer, "type": "how-to"},
        {"question": question.upper(), "answer": TEXTS["port"], "type": "Factoid"},
        {"question": "What of the port?", "answer": TEXTS["port"], "type": "Riddle"},
        {"question": "What of the fair?", "answer": TEXTS["fair"], "type": ["Factoid"]},
        about("bell"),
    ]
    checks = {2: {"statements": [TEXTS["port"]]}, 3: {"statements": [TEXTS["fair"]]}}
    (made,), _ = write(list(TEXTS), rows, pairs=checks, n_turns=3)
    assert [(turn.answer, turn.question_types) for turn in made.turns] == [
        (answer, ("How-To",)),
        (TEXTS["port"], ()),
        (TEXTS["fair"], ()),
    ]
    assert made.removed == (), "turns above the maximum are dropped before the check"


def test_only_the_question_after_a_removed_pair_stands_alone() -> None:
    rows = [about("mill"), about("port"), about("fair"), about("bell")]
    (made,), _ = write(list(TEXTS), rows, pairs={2: {"accepted": False}})
    assert [turn.contextualized for turn in made.turns] == ["What of the mill?", "What of the fair?", "And 4?"]
    assert [(pair.question, pair.answer, pair.reason) for pair in made.removed] == [
        ("What of the port?", TEXTS["port"], "not accepted")
    ]
    (made,), _ = write(list(TEXTS), rows, pairs={1: {"accepted": False}})
    assert [turn.contextualized for turn in made.turns] == ["What of the port?", "And 3?", "And 4?"]


@pytest.mark.parametrize(
    ("statements", "expected"),
    [
        ([TEXTS["port"]], ["port"]),
        ([TEXTS["port"].upper()], ["port"]),
        (["the harbour has boats"], ["port"]),  # the closest
        (["corn in the harbour with wooden boats"], ["port"]),  # the closer of two
        ([TEXTS["fair"], "a mill for corn", TEXTS["fair"]], ["mill", "fair"]),  # in the order of the list, each once
        ([TEXTS["mill"], "nothing like it"], ["mill"]),
    ],
)
def test_a_pair_has_the_units_of_its_claims(statements: Sequence[str], expected: Sequence[str]) -> None:
    row = ("What of it?", " ".join(TEXTS[name] for name in expected))
    (made,), _ = write(list(TEXTS), [row], pairs={1: {"statements": statements}})
    assert [unit.unit_id for unit in made.turns[0].units] == expected


@pytest.mark.parametrize(
    ("change", "answer", "reason"),
    [
        ({"statements": []}, TEXTS["mill"], "accepted without a supporting statement"),
        ({"statements": ["zzz"]}, TEXTS["mill"], "accepted without a supporting statement"),
        ({}, "mill aa bb cc dd", None),  # one word of five
        ({}, "mill aa bb cc dd ee", "the answer shares too few words with its statements"),
        ({}, "it aa bb cc dd", None),  # a word of its question
        ({"accepted": False, "statements": []}, TEXTS["mill"], "not accepted"),
    ],
)
def test_an_unsupported_pair_is_removed_with_the_reason(
    change: dict[str, Any], answer: str, reason: str | None
) -> None:
    checks = {1: {"statements": [TEXTS["mill"]], **change}}
    (made,), _ = write(["mill", "port"], [("What of it?", answer), about("port")], pairs=checks)
    assert [pair.reason.partition(" (")[0] for pair in made.removed] == ([reason] if reason else [])
    assert len(made.turns) == (1 if reason else 2)


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"turns": []}, 'dialogues: "turns": no list with turns'),
        ({"turns": [{"question": "What?"}]}, 'dialogues: no text under "answer"'),
        ({"turns": [{"answer": "That."}]}, 'dialogues: no text under "question"'),
        ({"questions": {"1": "It?"}}, 'questions in context: "questions" does not hold the turns 1 to 2'),
        ({"questions": ["It?", "So?"]}, 'questions in context: "questions" does not hold the turns 1 to 2'),
        ({"questions": {"1": "It?", "2": " "}}, 'questions in context: no text under "2"'),
        ({"pairs": {2: {"accepted": "true"}}}, 'grounding: "accepted" is neither true nor false'),
        ({"pairs": {2: None}}, 'grounding: "pairs" does not hold the turns 1 to 2'),
        ({"pairs": {2: {"statements": "all"}}}, 'grounding: "statements": no list of texts'),
    ],
)
def test_an_unusable_reply_omits_its_dialogue(given: dict[str, Any], reason: str) -> None:
    dialogues, left_out = write(["mill", "port"], **{"turns": [about("mill"), about("port")], **given})
    assert dialogues == []
    assert [(omitted.name, omitted.reason) for omitted in left_out] == [("d1", reason)]
