"""Live systems: blinded in speed, thinking and failures too. A failed battle gets no vote."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragtasks.arena.battles import Battle
from ragtasks.arena.web import Pipeline, _live, live_systems
from ragtasks.arena.web._comparing import battle_of, battle_text
from ragtasks.arena.web._live import messages_of, steps_of
from ragtasks.clients import no_secrets
from ragtasks.errors import ConfigurationError
from ragtasks.records import Passage, Role
from tests.arena._made import answer
from tests.arena.web._served import Reply, Served, Visitor, serving
from tests.arena.web._streaming import streaming_endpoint

PASSAGES = (Passage("p1", "The ferry runs from April.", "Ferry"),)


@pytest.fixture(autouse=True)
def quick_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten the time between the steps of an answer."""
    monkeypatch.setattr(_live, "_STEP_SECONDS", 0.002)


@contextmanager
def live(
    folder: Path, *models: str, search: Callable[[str], Sequence[Passage]] = lambda _: PASSAGES, **options: Any
) -> Iterator[tuple[Served, Visitor, list[dict[str, Any]]]]:
    """Serve two systems whose models behave according to their names."""
    with streaming_endpoint() as (address, bodies):
        texts = [
            json.dumps({"name": f"secret {m}", "retriever": "any", "generator": {"model": m, "base_url": address}})
            for m in models
        ]
        pipelines: list[Pipeline] = live_systems(texts, lambda _: search, no_secrets)
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


def written(events_of_battle: Sequence[tuple[str, dict[str, str]]]) -> dict[str, str]:
    """Return side -> the text of its parts."""
    pieces = [content for name, content in events_of_battle if name == "text"]
    return {side: "".join(step[side] for step in pieces) for side in "AB"}


@pytest.mark.slow
def test_both_answers_arrive_unchanged_and_get_a_vote(tmp_path: Path) -> None:
    with live(tmp_path, "quick", "slow") as (served, visitor, bodies):
        address = ask(visitor, question="When does the ferry run?").headers["location"]
        watched = visitor.get(address)
        received = events(visitor, address)
        assert not any("secret" in text for text in (watched.text, json.dumps(received)))
        assert received[-1][0] == "done"
        assert written(received) == dict.fromkeys("AB", "It runs from April [1]. 2 messages.")
        page = visitor.get(received[-1][1]["next"])
        assert "secret" not in page.text
        assert 'data-passage="A-1"' in page.text
        visitor.post(f"{received[-1][1]['next']}/vote", preference="first", form_token=page.form_token)
        (vote,) = served.arena.store.votes()
        assert (vote.setting, vote.answerability, vote.view) == ("live", "", "blinded")
        assert {vote.first.system, vote.second.system} == {"secret quick", "secret slow"}
        assert "The ferry runs from April." in bodies[0]["messages"][0]["content"]
        follow = {"follow": received[-1][1]["next"].rpartition("/")[2], "side": "second", "question": "And in May?"}
        again = ask(visitor, **follow).headers["location"]
        assert events(visitor, again)[-1][0] == "done"
        assert [message["role"] for message in bodies[-1]["messages"]] == ["system", "user", "assistant", "user"]


def test_a_conversation_continues_with_the_chosen_answer_after_the_vote(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_live, "_STEP_SECONDS", 0.0)
    with live(tmp_path, "quick", "long") as (_, visitor, bodies):
        address = ask(visitor, question="When?", first="secret quick", second="secret long").headers["location"]
        next_page = events(visitor, address)[-1][1]["next"]
        follow = {"follow": next_page.rpartition("/")[2], "question": "And in May?"}
        assert "Vote first" in ask(visitor, **follow).text
        page = visitor.get(next_page)
        assert page.text.index("secret quick") < page.text.index("secret long")
        visitor.post(f"{next_page}/vote", preference="first", form_token=page.form_token)
        for side, is_long in (("first", False), ("second", True)):
            events(visitor, ask(visitor, **follow, side=side).headers["location"])
            assert (len(bodies[-1]["messages"][2]["content"]) > 300) == is_long


def test_a_live_battle_is_restored_from_the_database() -> None:
    sides = [answer(name, f"{name} says so.", setting="live", refuses=name == "b") for name in ("a", "b")]
    fought = Battle(*sides)
    restored = battle_of(battle_text(fought))
    assert (restored.battle_id, restored.first.side, restored.second.side) == (
        fought.battle_id,
        *(side_answer.side for side_answer in sides),
    )
    assert restored.first.response.task.messages == sides[0].response.task.messages
    assert restored.second.response.passages == sides[1].response.passages
    assert (restored.first.setting, restored.conversation_id) == ("live", fought.conversation_id)


def test_speed_reveals_nothing(tmp_path: Path) -> None:
    """A slow short answer and a fast long answer arrive in the same steps, each with the same share of its text."""
    with live(tmp_path, "slow", "long") as (_, visitor, _bodies):
        received = events(visitor, ask(visitor, question="When?").headers["location"])
        texts = written(received)
        assert {len(text) > 300 for text in texts.values()} == {True, False}
        for step in range(1, len(received) - 1):
            part = written(received[: step + 1])
            assert {side: len(text) for side, text in part.items()} == {
                side: len(text) * step // (len(received) - 2) for side, text in texts.items()
            }


@given(st.lists(st.integers(1, 2_000), min_size=2, max_size=2))
def test_steps_contain_both_texts_completely_and_end_together(lengths: list[int]) -> None:
    texts = [("abcdefg" * length)[:length] for length in lengths]
    steps = list(steps_of(texts))
    assert ["".join(parts) for parts in zip(*steps, strict=True)] == texts
    assert len(steps) <= 40
    assert all(steps[-1])


@pytest.mark.parametrize("names", [{}, {"first": "secret quick thinking", "second": "secret quick"}])
def test_thinking_is_never_displayed(tmp_path: Path, names: dict[str, str]) -> None:
    with live(tmp_path, "quick thinking", "quick") as (served, visitor, _bodies):
        received = events(visitor, ask(visitor, question="When?", **names).headers["location"])
        assert written(received) == dict.fromkeys("AB", "It runs from April [1]. 2 messages.")
        page = visitor.get(received[-1][1]["next"])
        for text in (json.dumps(received), page.text):
            assert "think>" not in text
            assert "Acme" not in text
        visitor.post(f"{received[-1][1]['next']}/vote", preference="tie", form_token=page.form_token)
        (vote,) = served.arena.store.votes()
        assert vote.first.n_words == vote.second.n_words


def test_chosen_systems_are_visible_and_the_vote_is_marked(tmp_path: Path) -> None:
    with live(tmp_path, "quick", "other") as (served, visitor, _):
        named = {"first": "secret quick", "second": "secret other"}
        address = ask(visitor, question="When?", **named).headers["location"]
        assert "secret quick" in visitor.get(address).text
        next_page = events(visitor, address)[-1][1]["next"]
        page = visitor.get(next_page)
        assert page.text.index("secret quick") < page.text.index("secret other")
        visitor.post(f"{next_page}/vote", preference="first", form_token=page.form_token)
        (vote,) = served.arena.store.votes()
        assert (vote.view, vote.first.system) == ("side_by_side", "secret quick")
        assert ask(visitor, question="When?", first="secret quick").status == 422


@pytest.mark.parametrize(
    ("model", "why"),
    [
        ("broken", "HTTP 500"),
        ("unknown", "does not exist in organization org-acme on gpu-7.internal"),
        ("stuck", "no complete answer within 1 seconds"),
        ("silent", "an empty answer"),
        ("stopping", "the reply reached the token limit"),
        ("erring", "an error in place of a reply: the model went away"),
    ],
)
def test_a_failure_is_reported_to_the_rater_and_its_reason_logged(
    tmp_path: Path, model: str, why: str, caplog: pytest.LogCaptureFixture
) -> None:
    patience = 1.0 if model == "stuck" else 60.0  # one second is too short for the others on a busy machine
    with live(tmp_path, "quick", model, patience_seconds=patience) as (served, visitor, _):
        address = ask(visitor, question="When?").headers["location"]
        assert events(visitor, address) == [("begin", {}), ("failed", {"why": "a system gave no answer"})]
        page = visitor.get(address).text
        assert "No battle: a system gave no answer." in page
        assert "It runs" not in page
        assert not any(text in page for text in ("secret", model, why, "HTTP 500", "acme"))
        assert list(served.arena.store.events()) == []
    logged = [record.getMessage() for record in caplog.records]
    assert any(f"secret {model}" in text and why in text for text in logged)


def test_a_failed_retriever_is_only_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def search(question: str) -> tuple[Passage, ...]:
        raise ConfigurationError("no index at /secret/place") if "index" in question else TypeError("of a plugin")

    with live(tmp_path, "quick", "other", search=search) as (_, visitor, _bodies):
        for question in ("Is there an index?", "When?"):
            received = events(visitor, ask(visitor, question=question).headers["location"])
            assert received == [("begin", {}), ("failed", {"why": "a system gave no answer"})]
    assert "no index at /secret/place" in caplog.text
    assert "of a plugin" in caplog.text


def test_the_api_returns_no_server_message(tmp_path: Path) -> None:
    with live(tmp_path, "quick", "unknown") as (_, visitor, _bodies):
        topic = {"system": "secret unknown", "query": {"qid": "t", "text": "When?"}}
        reply = visitor.ask("POST", "/api/answers", json.dumps(topic), Content_Type="application/json")
        assert reply.status == 502
        assert json.loads(reply.text) == {"detail": "secret unknown: a system gave no answer; see the server's log"}


def test_refused_questions_state_the_reason(tmp_path: Path) -> None:
    with live(tmp_path, "quick", "slow") as (_, visitor, _bodies):
        assert "Ask a question" in ask(visitor, question=" ").text
        assert "ends with the user" in ask(visitor, question="And?", earlier="When?").text
        assert "longer than" in ask(visitor, question="x" * 20_001).text
        assert ask(visitor, question="One?").status == 303
        assert "still being answered" in ask(visitor, question="Two?").text
        stranger = Visitor(visitor.port)
        stranger.enter("Bob")
        assert stranger.get("/live/000000000000000000000000").status == 404


def test_an_earlier_conversation_alternates_speakers() -> None:
    roles = [message.role for message in messages_of("One?\r\n\r\nYes.\n\n\nTwo?")]
    assert roles == [Role.USER, Role.ASSISTANT, Role.USER]
    assert messages_of(" ") == []


def test_invalid_systems_are_named() -> None:
    for texts, message in [
        (["{"], "not JSON"),
        (['{"name": "a", "retriever": "bm25"}'], "generator"),
        (['{"name": "a", "retriever": "bm25", "generator": "openai/x"}'] * 2, "different names"),
    ]:
        with pytest.raises(ConfigurationError, match=message):
            live_systems(texts, lambda _: lambda question: (), no_secrets)
