"""Cookies and forms: signed by this server, bound to one browser, and expired with their invitation."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path

import pytest

from ragtasks.arena.store import VoteStore
from ragtasks.arena.web import Identity
from ragtasks.arena.web._site import Session


@pytest.fixture
def store(tmp_path: Path) -> Iterator[VoteStore]:
    vote_store = VoteStore(tmp_path / "arena.sqlite")
    yield vote_store
    vote_store.close()


TYPED = Identity(b"secret")


@pytest.mark.parametrize("rater", ["Ann", "Ann: the second", "Åse 北京", "x" * 60])
def test_a_cookie_returns_its_rater(rater: str) -> None:
    cookie = TYPED.cookie(rater)
    session = TYPED.session(cookie)
    assert session.rater == rater
    assert "=" not in cookie
    assert cookie.isascii()


def test_a_cookie_with_a_foreign_signature_is_invalid() -> None:
    cookie = TYPED.cookie("ann")
    body, _, signature = cookie.partition(".")
    other_body = base64.urlsafe_b64encode(b"0:0:bob").decode().rstrip("=")
    for wrong in (
        *(None, "", ".", "ann", body, f"{body}.", f".{signature}", f"{other_body}.{signature}", f"{body}.{signature}0"),
        *(f"{body}.{signature[:-1]}{'0' if signature[-1] != '0' else '1'}", f"{body}.é", f"{body} .{signature}"),
    ):
        assert TYPED.session(wrong) is None, wrong
    assert Identity(b"another secret").session(cookie) is None


def test_every_browser_has_its_own_session_and_forms() -> None:
    first, second = (TYPED.session(TYPED.cookie("ann")) for _ in range(2))
    assert first.number != second.number
    assert len(first.number) == 32
    token = TYPED.form_token(first)
    assert TYPED.is_valid_form(first, token)
    for wrong in (TYPED.form_token(second), "", token[:-1], token.upper(), f"{token} ", "é", "\ud800"):
        assert not TYPED.is_valid_form(first, wrong)
    assert not TYPED.is_valid_form(Session("bob", first.number), token)
    assert not Identity(b"another secret").is_valid_form(first, token)


def test_a_form_s_token_signs_no_cookie() -> None:
    number = TYPED.session(TYPED.cookie("ann"))
    body = base64.urlsafe_b64encode(f"{number.number}:ann".encode()).decode().rstrip("=")
    assert TYPED.session(f"{body}.{TYPED.form_token(number)}") is None


def test_a_cookie_expires_with_its_invitation(store: VoteStore) -> None:
    identity = Identity(b"secret", None, store)
    _, token = store.invite("ann")
    store.invite("bob")
    assert (identity.invited(token), identity.invited("another"), identity.invited("")) == ("ann", None, None)
    cookie = identity.cookie("ann")
    assert identity.session(cookie) is not None
    assert identity.session(identity.cookie("nobody")) is None
    store.invite("bob")
    assert identity.session(cookie) is not None, "bob's new link is none of ann's business"
    store.invite("ann")
    assert identity.session(cookie) is None, "ann's new link ends what the old one began"
    assert identity.invited(token) is None
    assert identity.session(identity.cookie("ann")) is not None


def test_a_typed_name_is_not_an_invitation(store: VoteStore) -> None:
    store.invite("ann")
    identity = Identity(b"secret", None, store)
    assert identity.session(TYPED.cookie("ann")) is None
    assert TYPED.session(identity.cookie("ann")) is None
    assert TYPED.invited("anything") is None


@pytest.mark.parametrize(
    ("token", "is_invited", "types_names", "needs_token"),
    [(None, False, True, False), ("t", False, True, True), (None, True, False, False), ("t", True, False, False)],
)
def test_names_are_typed_without_invitations_and_a_configured_token_is_required(
    token: str | None, is_invited: bool, types_names: bool, needs_token: bool, store: VoteStore
) -> None:
    identity = Identity(b"secret", token, store if is_invited else None)
    assert (identity.types_names, identity.needs_token) == (types_names, needs_token)
    tokens = ("t", "", "T", "tt", "é")
    assert [identity.admits(typed_token) for typed_token in tokens] == (
        [types_names] * 5 if token is None else [True, False, False, False, False]
    )
