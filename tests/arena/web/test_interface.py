"""The API for programs: systems, battles, votes, topics in TREC RAG's records, ratings."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.arena._made import vote
from tests.arena.web._served import Visitor, serving
from tests.arena.web.test_live import live

JSON = {"Content_Type": "application/json"}
TOKEN = "a-long-random-token"


def post(visitor: Visitor, path: str, content: Any, **headers: str) -> tuple[int, Any]:
    reply = visitor.ask("POST", path, json.dumps(content), **{**JSON, **headers})
    return reply.status, json.loads(reply.text)


def test_a_program_votes_like_a_person(tmp_path: Path) -> None:
    with serving(tmp_path) as served:
        visitor = Visitor(served.port)
        assert [system["name"] for system in json.loads(visitor.get("/api/systems").text)] == [
            "secret-one",
            "secret-two",
        ]
        status, battle = post(visitor, "/api/battles", {"rater": "robot"})
        assert status == 200
        assert "secret" not in json.dumps(battle)
        assert battle["answers"][0]["answer"][0] == {"text": "It runs from April.", "citations": [0]}
        assert post(visitor, "/api/battles", {"rater": "robot"})[1] == battle
        path = f"/api/battles/{battle['battle']}/votes"
        status, revealed = post(visitor, path, {"rater": "robot", "preference": "first"})
        assert status == 200
        assert {revealed["first"], revealed["second"]} == {"secret-one", "secret-two"}
        assert post(visitor, path, {"rater": "robot", "preference": "first"})[0] == 409
        assert post(visitor, path, {"rater": "other", "preference": "first"})[0] == 404
        assert post(visitor, path, {"rater": "robot", "preference": "best"})[0] == 422
        rated = json.loads(visitor.get("/api/ratings").text)
        assert {system["kind"] for system in rated} == {"human"}
        assert {system["elo"] for system in rated} == {None}
        assert {system["reason"] for system in rated} == {"votes on fewer than 10 conversations"}


def test_a_program_with_an_invitation_votes_as_the_invited_rater_and_its_read_answers_are_recorded(
    tmp_path: Path,
) -> None:
    with serving(tmp_path, types_names=False) as served:
        visitor = Visitor(served.port)
        _, token = served.arena.store.invite("Ann")
        for authorization in (f"Bearer {TOKEN}", "Bearer ", f"Basic {token}", token):
            assert visitor.ask("GET", "/api/systems", Authorization=authorization).status == 401
        invited = {"Authorization": f"Bearer {token}"}
        assert post(visitor, "/api/battles", {"rater": "Bob"}, **invited)[0] == 403
        status, battle = post(visitor, "/api/battles", {"rater": "Ann"}, **invited)
        assert status == 200
        for turn in (1, 2, 3):
            topic = {"system": "secret-one", "query": {"qid": f"c{turn}<::>{turn}", "text": "When?"}}
            assert post(visitor, "/api/answers", topic, **invited)[0] == 200
        path, vote = f"/api/battles/{battle['battle']}/votes", {"rater": "Ann", "preference": "first"}
        assert post(visitor, path, vote, **invited)[1]["view"] == "revealed"


def test_ratings_of_the_api_use_blinded_votes_separately_for_people_and_judges(tmp_path: Path) -> None:
    made = [("ann", "human", "blinded"), ("bob", "human", "blinded"), ("cem", "human", "side_by_side")]
    votes = [
        vote("secret-one", "secret-two", rater=rater, kind=kind, view=view, vote_id=rater)
        for rater, kind, view in (*made, ("dan", "human", "revealed"), ("j", "judge", "blinded"))
    ]
    with serving(tmp_path) as served:
        with served.arena.store.transaction() as connection:
            rows = [(stored_vote.vote_id, stored_vote.rater, stored_vote.model_dump_json()) for stored_vote in votes]
            connection.executemany("INSERT INTO votes (vote_id, rater, vote) VALUES (?, ?, ?)", rows)
        rated = json.loads(Visitor(served.port).get("/api/ratings").text)
    assert {(rating["kind"], rating["system"]): rating["n_votes"] for rating in rated} == {
        **{("human", "secret-one"): 2, ("human", "secret-two"): 2},
        **{("judge", "secret-one"): 1, ("judge", "secret-two"): 1},
    }


def test_saved_answers_come_in_the_records_of_trec_rag(tmp_path: Path) -> None:
    with serving(tmp_path) as served:
        visitor = Visitor(served.port)
        topic = {"system": "secret-one", "query": {"qid": "c1<::>1", "text": "When?"}}
        status, row = post(visitor, "/api/answers", topic)
        assert status == 200
        assert row["answer"][0] == {"text": "It runs from April.", "citations": [0]}
        assert row["references"] == ["p1", "p2"]
        assert (row["run_id"], row["topic_id"], row["response_length"]) == ("secret-one", "c1<::>1", 8)
        assert post(visitor, "/api/answers", {**topic, "system": "nobody"})[0] == 404
        assert post(visitor, "/api/answers", {"system": "secret-one"})[0] == 422


def test_a_pipeline_answers_a_topic_from_given_candidates(tmp_path: Path) -> None:
    with live(tmp_path, "quick", "broken") as (_, visitor, bodies):
        candidate = {"docid": "d7", "score": 1.5, "doc": {"title": "Boats", "segment": "A boat sails in June."}}
        topic = {"system": "secret quick", "query": {"qid": "t1", "text": "When?"}, "candidates": [candidate]}
        status, row = post(visitor, "/api/answers", topic)
        assert status == 200
        assert (row["topic_id"], row["topic"], row["references"]) == ("t1", "When?", ["d7"])
        assert "A boat sails in June." in bodies[-1]["messages"][0]["content"]
        assert post(visitor, "/api/answers", {**topic, "system": "secret broken"})[0] == 502


def test_the_token_and_the_content_type_are_required(tmp_path: Path) -> None:
    with serving(tmp_path, token=TOKEN) as served:
        visitor = Visitor(served.port)
        assert visitor.get("/api/systems").status == 401
        assert visitor.ask("GET", "/api/systems", Authorization="Bearer wrong").status == 401
        assert visitor.ask("GET", "/api/systems", Authorization=f"Bearer {TOKEN}").status == 200
        plain = {"Content_Type": "text/plain", "Authorization": f"Bearer {TOKEN}"}
        assert visitor.ask("POST", "/api/battles", '{"rater": "x"}', **plain).status == 415


def test_the_interface_is_described(tmp_path: Path) -> None:
    with serving(tmp_path) as served:
        paths = json.loads(Visitor(served.port).get("/api/openapi.json").text)["paths"]
        assert set(paths) == {
            *("/api/systems", "/api/battles", "/api/battles/{battle}/votes", "/api/answers", "/api/ratings"),
        }


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/api/battles", r'{"rater": "\ud800"}'),
        ("/api/battles", r'{"rater": "ann", "\udfff": 1}'),
        ("/api/battles", '{"rater": NaN}'),
        ("/api/battles", '{"rater": Infinity}'),
        ("/api/battles", '{"rater": ' + "9" * 5000 + "}"),
        ("/api/battles", "[" * 100_000),
        ("/api/battles/BATTLE/votes", r'{"rater": "ann", "preference": "first", "reason": "half \ud800"}'),
        ("/api/answers", r'{"system": "secret-one", "query": {"qid": "\ud800", "text": "x"}}'),
        ("/api/answers", r'{"system": "\ud800", "query": {"qid": "c1<::>1", "text": "x"}}'),
    ],
)
def test_json_that_no_file_can_encode_is_refused_and_changes_nothing(tmp_path: Path, path: str, body: str) -> None:
    with serving(tmp_path) as served:
        visitor = Visitor(served.port)
        battle = post(visitor, "/api/battles", {"rater": "ann"})[1]["battle"]
        reply = visitor.ask("POST", path.replace("BATTLE", battle), body, **JSON)
        assert reply.status == 400, reply.text
        assert json.loads(reply.text)["detail"]
        assert post(visitor, f"/api/battles/{battle}/votes", {"rater": "ann", "preference": "first"})[0] == 200
        assert len(served.arena.store.votes()) == 1
