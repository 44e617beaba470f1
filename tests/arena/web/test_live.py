"""Systems that are asked now: streamed, blinded in speed too, failures that nobody can vote on, the interface."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ragtasks.arena.web import Pipeline, live_systems
from ragtasks.arena.web.live._pages import messages_of
from ragtasks.clients import no_secrets
from ragtasks.errors import ConfigurationError
from ragtasks.records import Passage, Role
from tests.arena.web._served import Reply, Served, Visitor, serving
from tests.arena.web._streaming import streaming_endpoint

PASSAGES = (Passage("p1", "The ferry runs from April.", "Ferry"),)


@contextmanager
def live(folder: Path, *models: str, **options: Any) -> Iterator[tuple[Served, Visitor, list[dict[str, Any]]]]:
    """Serve two systems whose models behave as their names say."""
    with streaming_endpoint() as (address, bodies):
        texts = [
            json.dumps({"name": f"secret {m}", "retriever": "any", "generator": {"model": m, "base_url": address}})
            for m in models
        ]
        pipelines: list[Pipeline] = live_systems(texts, lambda _: lambda question: PASSAGES, no_secrets)
        with serving(folder, pipelines=pipelines, **options) as served:
            visitor = Visitor(served.port)
            visitor.enter()
            yield served, visitor, bodies


def ask(visitor: Visitor, **fields: str) -> Reply:
    return visitor.post("/live", form_token=visitor.get("/live").form_token, **fields)


def events(visitor: Visitor, address: str) -> list[tuple[str, dict[str, str]]]:
    text = visitor.get(f"{address}/events").text
    blocks = [block.split("\n") for block in text.strip().split("\n\n")]
    return [(name.removeprefix("event: "), json.loads(data.removeprefix("data: "))) for name, data in blocks]


def test_both_answers_come_as_written_and_are_voted_on(tmp_path: Path) -> None:
    with live(tmp_path, "quick", "slow") as (served, visitor, bodies):
        address = ask(visitor, question="When does the ferry run?").headers["location"]
        watched = visitor.get(address)
        found = events(visitor, address)
        assert not any("secret" in text for text in (watched.text, json.dumps(found)))
        assert found[-1][0] == "done"
        texts = {"A": "", "B": ""}
        for name, content in found[1:-1]:
            assert name == "text"
            texts[content["side"]] += content["text"]
        assert texts == dict.fromkeys("AB", "It runs from April [1]. 2 messages.")
        page = visitor.get(found[-1][1]["next"])
        assert "secret" not in page.text
        assert 'data-passage="A-1"' in page.text
        visitor.post(f"{found[-1][1]['next']}/vote", preference="first", form_token=page.form_token)
        (vote,) = served.arena.store.votes()
        assert (vote.setting, vote.answerability, vote.view) == ("live", "", "blinded")
        assert {vote.first.system, vote.second.system} == {"secret quick", "secret slow"}
        assert "The ferry runs from April." in bodies[0]["messages"][0]["content"]
        follow = {"follow": found[-1][1]["next"].rpartition("/")[2], "side": "second", "question": "And in May?"}
        again = ask(visitor, **follow).headers["location"]
        assert events(visitor, again)[-1][0] == "done"
        assert [message["role"] for message in bodies[-1]["messages"]] == ["system", "user", "assistant", "user"]


def test_speed_says_nothing_where_names_are_hidden(tmp_path: Path) -> None:
    with live(tmp_path, "quick", "slow") as (_, visitor, _bodies):
        address = ask(visitor, question="When?").headers["location"]
        lengths = {"A": 0, "B": 0}
        for name, content in events(visitor, address):
            if name == "text":
                lengths[content["side"]] += len(content["text"])
                if content["side"] == "B":
                    assert lengths["A"] == lengths["B"]


def test_names_in_view_are_chosen_and_the_vote_says_so(tmp_path: Path) -> None:
    with live(tmp_path, "quick", "other") as (served, visitor, _):
        named = {"first": "secret quick", "second": "secret other"}
        address = ask(visitor, question="When?", **named).headers["location"]
        assert "secret quick" in visitor.get(address).text
        place = events(visitor, address)[-1][1]["next"]
        page = visitor.get(place)
        assert page.text.index("secret quick") < page.text.index("secret other")
        visitor.post(f"{place}/vote", preference="first", form_token=page.form_token)
        (vote,) = served.arena.store.votes()
        assert (vote.view, vote.first.system) == ("side_by_side", "secret quick")
        assert ask(visitor, question="When?", first="secret quick").status == 422


@pytest.mark.parametrize(("model", "why"), [("broken", "500"), ("stuck", "no whole answer within 1 seconds")])
def test_what_fails_is_said_to_and_cannot_be_voted_on(tmp_path: Path, model: str, why: str) -> None:
    with live(tmp_path, "quick", model, patience_seconds=1.0) as (served, visitor, _):
        address = ask(visitor, question="When?").headers["location"]
        name, content = events(visitor, address)[-1]
        assert name == "failed"
        assert why in content["why"]
        assert "secret" not in content["why"]
        assert "127.0.0.1" not in content["why"]
        assert "No battle" in visitor.get(address).text
        assert served.arena.store.assignments() == []


def test_questions_that_cannot_be_asked_say_why(tmp_path: Path) -> None:
    with live(tmp_path, "quick", "slow") as (_, visitor, _bodies):
        assert "Ask a question" in ask(visitor, question=" ").text
        assert "ends with the user" in ask(visitor, question="And?", earlier="When?").text
        assert "longer than" in ask(visitor, question="x" * 20_001).text
        assert ask(visitor, question="One?").status == 303
        assert "still being written" in ask(visitor, question="Two?").text
        stranger = Visitor(visitor.port)
        stranger.enter("Bob")
        assert stranger.get("/live/000000000000000000000000").status == 404


def test_an_earlier_conversation_is_spoken_in_turns() -> None:
    roles = [message.role for message in messages_of("One?\r\n\r\nYes.\n\n\nTwo?")]
    assert roles == [Role.USER, Role.ASSISTANT, Role.USER]
    assert messages_of(" ") == []


def test_systems_that_cannot_be_read_are_named() -> None:
    for texts, said in [
        (["{"], "not JSON"),
        (['{"name": "a", "retriever": "bm25"}'], "generator"),
        (['{"name": "a", "retriever": "bm25", "generator": "openai/x"}'] * 2, "different names"),
    ]:
        with pytest.raises(ConfigurationError, match=said):
            live_systems(texts, lambda _: lambda question: (), no_secrets)
