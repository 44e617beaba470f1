"""The server without a browser: entry, content before the vote, one vote per pair, hostile requests."""

from __future__ import annotations

import select
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from ragtasks.arena.battles import AnswerPool, Battle
from ragtasks.arena.store import Assignment, VoteStore
from ragtasks.arena.web import Identity, _guard, serve
from ragtasks.arena.web._comparing import DisplayedAnswer, DisplayedBattle
from ragtasks.arena.web._guard import BURST, MOST_BYTES
from ragtasks.errors import ConfigurationError
from tests.arena._made import answer
from tests.arena.web._served import Visitor, serving, small_pool

TOKEN = "a-long-random-token"


def test_nothing_that_the_browser_receives_before_the_vote_names_a_system(tmp_path: Path) -> None:
    """Two servers send the same pages, though their systems differ in name, length and order."""
    with serving(tmp_path / "1") as first, serving(tmp_path / "2", small_pool("a", "zzzz-secret-zzzz")) as second:
        received = []
        for served in (first, second):
            visitor = Visitor(served.port)
            visitor.enter()
            address, shown = visitor.next()
            pages = [shown, visitor.get(f"{address}?form=json"), visitor.get("/"), visitor.get("/static/arena.js")]
            received.append(pages)
            for page in pages:
                everything = f"{page.headers} {page.text}"
                assert not any(name in everything for name in ("secret", "zzzz", "v.sqlite")), everything
            assignment = address.rpartition("/")[2]
            assert len(assignment) == 24
        assert [len(page.text) for page in received[0]] == [len(page.text) for page in received[1]]


def test_equal_texts_are_not_offered_to_raters(tmp_path: Path) -> None:
    texts = {"a": "It runs from April.", "b": "It runs from May.", "twin": "It runs from April."}
    with serving(tmp_path, AnswerPool([answer(name, text) for name, text in texts.items()])) as served:
        visitor = Visitor(served.port)
        visitor.enter()
        for _ in range(2):
            page = visitor.get(visitor.vote()).text
            assert "<strong>b</strong>" in page
        assert "All done" in visitor.get(visitor.get("/battles").headers.get("location", "/battles")).text


def test_the_display_order_is_random_and_persistent(tmp_path: Path) -> None:
    with serving(tmp_path, small_pool(n=40)) as served:
        visitor = Visitor(served.port)
        visitor.enter()
        turned = []
        for _ in range(40):
            address, shown = visitor.next()
            assert visitor.get(address).text == shown.text
            turned.append(shown.text.index("Number 1 it is") < shown.text.index("Number 0 it is"))
            visitor.post(f"{address}/skip", form_token=shown.form_token)
        assert 5 < sum(turned) < 35
        assert "All done" in visitor.get("/battles").text


def test_a_vote_reveals_the_names_and_an_undone_vote_is_no_longer_blinded(tmp_path: Path) -> None:
    with serving(tmp_path) as served:
        visitor = Visitor(served.port)
        visitor.enter()
        address = visitor.vote("second", "shorter")
        shown = visitor.get(address)
        assert "You preferred <strong>secret-" in shown.text
        (vote,) = served.arena.store.votes()
        assert (vote.preference, vote.reason, vote.rater, vote.kind) == ("second", "shorter", "Ann", "human")
        back = visitor.post("/undo", form_token=shown.form_token)
        assert back.headers["location"] == address
        assert served.arena.store.votes() == []
        assert "secret" not in visitor.get(address).text
        assert "You have seen the system of at least one" in visitor.get(address).text
        assert visitor.vote("tie") == address
        assert [(vote.preference, vote.view) for vote in served.arena.store.votes()] == [("tie", "revealed")]


def test_a_displayed_name_unblinds_the_other_pairs_with_its_answer(tmp_path: Path) -> None:
    with serving(tmp_path, small_pool("secret-one", "secret-two", "secret-three", n=2), raters=2) as served:
        visitor = Visitor(served.port)
        visitor.enter()
        for _ in range(6):
            visitor.vote()
        votes = served.arena.store.votes()
        assert [vote.view for vote in votes] == ["blinded"] * 2 + ["revealed"] * 4
        assert len({vote.task_id for vote in votes[:2]}) == 2, "what is still blinded comes first"
        other_visitor = Visitor(served.port)
        other_visitor.enter("Bob")
        other_visitor.vote()
        assert served.arena.store.votes()[-1].view == "blinded"


def test_a_skip_names_no_system_and_can_be_undone(tmp_path: Path) -> None:
    with serving(tmp_path) as served:
        visitor = Visitor(served.port)
        visitor.enter()
        address, shown = visitor.next()
        assert visitor.post(f"{address}/skip", form_token=shown.form_token).headers["location"] == "/battles"
        page = visitor.get(address)
        assert "You skipped this pair" in page.text
        assert "secret" not in page.text
        assert "Undo" in visitor.next()[1].text
        assert visitor.post("/undo", form_token=page.form_token).headers["location"] == address
        assert "You have seen" not in visitor.get(address).text
        assert visitor.vote() == address
        assert [vote.view for vote in served.arena.store.votes()] == ["blinded"]
        other_visitor = Visitor(served.port)
        other_visitor.enter("Bob")
        refused = other_visitor.post("/undo", form_token=other_visitor.next()[1].form_token)
        assert refused.status == 409
        assert "You have no vote or skip to undo" in refused.text
        assert len(served.arena.store.votes()) == 1


def test_only_invited_raters_enter_and_typed_names_are_refused(tmp_path: Path) -> None:
    with serving(tmp_path, types_names=False) as served:
        visitor = Visitor(served.port)
        assert visitor.enter("Ann").status == 403
        assert visitor.enter("Ann", token="", invitation="").status == 403
        assert not visitor.cookie
        _, token = served.arena.store.invite("Ann")
        page = visitor.get(f"/enter?invitation={token}")
        assert "You are <strong>Ann</strong>" in page.text
        assert "name=" not in page.text.replace('name="invitation"', "").replace('name="viewport"', "")
        assert visitor.get("/enter?invitation=other").status == 403
        assert visitor.enter("Bob", invitation=token).status == 303
        visitor.vote()
        assert [vote.rater for vote in served.arena.store.votes()] == ["Ann"], "the invitation names the rater"
        served.arena.store.invite("Ann")
        assert visitor.get("/battles").headers["location"] == "/enter", "a new link ends what the old one began"
        assert visitor.enter(invitation=token).status == 403


def test_an_empty_token_admits_no_rater(tmp_path: Path) -> None:
    identity = Identity(b"secret", TOKEN)
    assert [identity.admits(token) for token in ("", TOKEN[:-1], TOKEN + "x", TOKEN)] == [False, False, False, True]
    store = VoteStore(tmp_path / "arena.sqlite")
    for invited in (Identity(b"secret", None, store), Identity(b"secret", "", store)):
        assert invited.invited("") is None
    assert not Identity(b"secret", None, store).admits(""), "without typed names no empty token does"
    store.close()


def test_two_tabs_of_one_rater_cannot_vote_twice(tmp_path: Path) -> None:
    with serving(tmp_path) as served:
        visitor = Visitor(served.port)
        visitor.enter()
        address, shown = visitor.next()
        replies: list[int] = []

        def vote() -> None:
            reply = visitor.post(f"{address}/vote", preference="first", form_token=shown.form_token)
            replies.append(reply.status)

        threads = [threading.Thread(target=vote) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(replies) == [303, *[409] * 7]
        assert len(served.arena.store.votes()) == 1


def test_a_restarted_server_restores_raters_votes_and_open_pairs(tmp_path: Path) -> None:
    with serving(tmp_path) as served:
        visitor = Visitor(served.port)
        visitor.enter()
        visitor.vote()
        address, _ = visitor.next()
    with serving(tmp_path) as served:
        visitor.port = served.port
        assert visitor.next()[0] == address
        assert "1 voted, 2 left" in visitor.get(address).text


def test_requests_without_session_or_with_foreign_forms_are_refused(tmp_path: Path) -> None:
    with serving(tmp_path, token=TOKEN) as served:
        stranger = Visitor(served.port)
        for path in ("/", "/battles", "/ratings", "/side-by-side", "/battles/0123"):
            assert stranger.get(path).headers["location"] == "/enter"
        assert stranger.enter("Eve", "wrong token").status == 403
        assert not stranger.cookie
        stranger.cookie = "arena=QW5u.0000"
        assert stranger.get("/battles").headers["location"] == "/enter"
        visitor = Visitor(served.port)
        assert visitor.enter("Ann", TOKEN).status == 303
        address, shown = visitor.next()
        for token in ("", "0" * 64):
            assert visitor.post(f"{address}/vote", preference="first", form_token=token).status == 403
        other_visitor = Visitor(served.port)
        other_visitor.enter("Bob", TOKEN)
        assert other_visitor.get(address).status == 404
        own = other_visitor.next()[1].form_token
        assert other_visitor.post(f"{address}/vote", preference="first", form_token=own).status == 404
        assert visitor.post(f"{address}/vote", preference="best", form_token=shown.form_token).status == 422
        assert served.arena.store.votes() == []


def test_hostile_texts_never_become_markup(tmp_path: Path) -> None:
    hostile = "<script>window.harmed=1</script><img src=x onerror='window.harmed=1'>"
    with serving(tmp_path, small_pool(f"x{hostile}", f"y{hostile}", text=hostile)) as served:
        visitor = Visitor(served.port)
        visitor.enter(f"Ann{hostile}")
        address = visitor.vote("first", hostile)
        for path in (address, f"{address}?form=json", "/ratings", "/side-by-side", "/battles"):
            page = visitor.get(path)
            assert "<script>w" not in page.text
            assert "<img" not in page.text
            assert page.headers["content-security-policy"].startswith("default-src 'none'")
            assert page.headers["cache-control"] == "no-store"


def test_sizes_hosts_and_other_sites_are_restricted(tmp_path: Path) -> None:
    with serving(tmp_path) as served:
        visitor = Visitor(served.port)
        assert visitor.ask("GET", "/enter", Host="evil.example").status == 421
        assert visitor.ask("GET", "/enter", Host="LocalHost:8765").status == 200
        assert visitor.ask("POST", "/enter", "x" * (MOST_BYTES + 1)).status == 413
        assert visitor.get("/enter").status == 200
        # Requests are refilled while they are counted, so a slow machine needs more of them.
        assert any(visitor.get("/enter").status == 429 for _ in range(20 * int(BURST)))


def raw(port: int, *parts: bytes) -> bytes:
    """Send bytes, and return the response until the server closes the connection."""
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        for part in parts:
            connection.sendall(part)
        response = b""
        with suppress(ConnectionResetError):
            while part := connection.recv(65536):
                response += part
        return response


def test_a_slow_request_is_disconnected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_guard, "SLOWEST_SECONDS", 0.5)
    monkeypatch.setattr(_guard, "BODY_SECONDS", 0.5)
    with serving(tmp_path) as served:
        assert raw(served.port) == raw(served.port, b"GET /enter HTTP/1.1\r\nHo") == b""
        head = b"POST /enter HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nContent-Length: 100\r\n\r\n"
        assert raw(served.port, head, b"name=").startswith(b"HTTP/1.1 408")
        assert Visitor(served.port).get("/enter").status == 200


def test_a_client_that_does_not_read_is_disconnected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_guard, "SLOWEST_SECONDS", 0.5)
    with serving(tmp_path, small_pool(n=1, text="word " * 100_000)) as served:
        visitor = Visitor(served.port)
        visitor.enter()
        path = visitor.get("/battles").headers["location"]
        head = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nCookie: {visitor.cookie}\r\n\r\n"
        with socket.socket() as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.connect(("127.0.0.1", served.port))
            connection.sendall(8 * head.encode())  # more than the system's buffer for a connection
            gone = select.poll()
            gone.register(connection, select.POLLHUP | select.POLLERR)
            assert gone.poll(30_000), "the server closes, though there is more to read"
        assert visitor.get("/enter").status == 200


def test_a_cookie_is_http_only_and_same_site(tmp_path: Path) -> None:
    with serving(tmp_path) as served:
        flags = Visitor(served.port).enter().headers["set-cookie"].lower().split("; ")
    assert {"httponly", "samesite=strict"} <= set(flags)


def test_a_long_reason_is_truncated_and_the_vote_counts(tmp_path: Path) -> None:
    with serving(tmp_path) as served:
        visitor = Visitor(served.port)
        visitor.enter()
        visitor.vote("first", " " + "x" * 2_500)
        assert [vote.reason for vote in served.arena.store.votes()] == ["x" * 2_000]


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("It runs.\n[1]\n\nAnd on.", [[("It runs.", (0,))], [("And on.", ())]]),
        ("[1]\nIt runs.", [[("It runs.", (0,))]]),
        ("It runs [1].\n\n[2]", [[("It runs.", (0, 1))]]),
        ("It runs. It stops [2].", [[("It runs.", ()), ("It stops.", (1,))]]),
        ("It runs. It stops [2].\n[1]", [[("It runs.", ()), ("It stops.", (1, 0))]]),
        ("[1]", []),
    ],
)
def test_a_line_of_citations_belongs_to_the_adjacent_text(
    text: str, lines: list[list[tuple[str, tuple[int, ...]]]]
) -> None:
    shown = DisplayedAnswer("A", answer("a", text).response)
    assert [[(sentence.text, sentence.citations) for sentence in line] for line in shown.lines] == lines


def test_other_machines_need_a_token(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="expected: a token"):
        serve(small_pool(), tmp_path / "arena.sqlite", host="0.0.0.0", types_names=True)
    with pytest.raises(ConfigurationError, match="at least 12 characters"):
        serve(small_pool(), tmp_path / "arena.sqlite", host="0.0.0.0", token="short", types_names=True)
    assert not (tmp_path / "arena.sqlite").exists()


def test_names_are_visible_side_by_side_and_the_vote_is_marked(tmp_path: Path) -> None:
    with serving(tmp_path) as served:
        visitor = Visitor(served.port)
        visitor.enter()
        shown = visitor.get("/side-by-side?first=secret-one&second=secret-two")
        item = "mtrag (sample)\tfull_rag\tc2<::>2"
        chosen = {"first": "secret-one", "second": "secret-two", "item": item, "form_token": shown.form_token}
        address = visitor.post("/side-by-side", **chosen).headers["location"]
        page = visitor.get(address)
        assert "secret-one" in page.text
        visitor.post(f"{address}/vote", preference="tie", form_token=page.form_token)
        assert [vote.view for vote in served.arena.store.votes()] == ["side_by_side"]
        assert visitor.post("/side-by-side", **{**chosen, "item": "x"}).status == 404


def test_pages_are_created_in_sequence_and_a_vote_does_not_wait(tmp_path: Path) -> None:
    with serving(tmp_path, raters=9) as served:
        voter, readers = Visitor(served.port), [Visitor(served.port) for _ in range(4)]
        for number, visitor in enumerate((voter, *readers)):
            visitor.enter(f"rater {number}")
        address, shown = voter.next()
        opened = [reader.get("/battles").headers["location"] for reader in readers]
        begun: list[str] = []
        goes_on, show = threading.Event(), served.arena.displayed

        def held(assignment: Assignment, battle: Battle) -> DisplayedBattle:
            begun.append(assignment.rater)
            assert goes_on.wait(20)
            return show(assignment, battle)

        served.arena.displayed = held  # type: ignore[method-assign]
        with ThreadPoolExecutor(len(readers)) as several:
            pages = [several.submit(reader.get, path) for reader, path in zip(readers, opened, strict=True)]
            while not begun:
                time.sleep(0.005)
            done = voter.post(f"{address}/vote", preference="first", form_token=shown.form_token)
            assert done.status == 303
            assert not any(page.done() for page in pages)
            assert len(begun) == 1
            goes_on.set()
            assert [page.result().status for page in pages] == [200] * len(readers)
