"""Keys and headers reach only the addresses that they belong to."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest

from ragtasks.clients import Credentials, OpenAIClient, Prompt, credentials_for, endpoint_of
from ragtasks.clients._credentials import is_open_to_others
from ragtasks.clients._openai_client import _warn_of_plain_http
from ragtasks.errors import ConfigurationError, JudgeError
from tests._messages import raises
from tests.clients._server import Action, ChatServer, chat_server, completion

OWN, OTHER = "sk-own-0123456789abcdef", "other-0123456789abcdef"
ENVIRONMENT = {
    "OPENAI_API_KEY": OWN,
    "OPENAI_ORG_ID": "our-organisation",
    "OPENAI_PROJECT_ID": "our-project",
    "OTHER_KEY": OTHER,
}
HEADERS = ("authorization", "openai-organization", "openai-project")


def sent_headers(monkeypatch: pytest.MonkeyPatch, own_address: bool = False, **options: Any) -> list[str | None]:
    """Return the headers that reach a loopback server, although the SDK could read all variables itself."""
    with chat_server(lambda *_: completion()) as server:
        secrets = {**ENVIRONMENT, "OPENAI_BASE_URL": server.base_url} if own_address else ENVIRONMENT
        for name, value in secrets.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", f"X-Secret: {OWN}")
        endpoint = endpoint_of({"model": "m", "base_url": server.base_url, **options})
        OpenAIClient(endpoint, credentials_for(endpoint, secrets.get)).answer([Prompt.of("q")])
    (headers,) = server.headers
    assert OWN in str(headers) or not own_address
    return [headers.get(name) for name in HEADERS]


def test_a_server_without_a_named_key_gets_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    assert sent_headers(monkeypatch) == ["Bearer no-key", None, None]


def test_the_named_key_is_sent_without_openai_headers(monkeypatch: pytest.MonkeyPatch) -> None:
    assert sent_headers(monkeypatch, api_key_env="OTHER_KEY") == [f"Bearer {OTHER}", None, None]


def test_openai_key_and_headers_are_sent_to_the_address_in_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = [f"Bearer {OWN}", "our-organisation", "our-project"]
    assert sent_headers(monkeypatch, own_address=True) == expected


@pytest.mark.parametrize(
    ("address", "key"),
    [
        (None, OWN),
        ("https://api.openai.com/v1", OWN),
        ("https://api.openai.com:443/v2", OWN),
        ("http://api.openai.com/v1", None),
        ("https://api.openai.com:8443/v1", None),
        ("https://api.openai.com.example/v1", None),
        ("https://proxy.example/v1", OWN),
        ("https://proxy.example:444/v1", None),
        ("http://proxy.example/v1", None),
        ("http://localhost:8001/v1", None),
    ],
)
def test_the_default_key_is_sent_to_two_addresses(address: str | None, key: str | None) -> None:
    secrets = {**ENVIRONMENT, "OPENAI_BASE_URL": "https://proxy.example/v1"}
    found = credentials_for(endpoint_of({"model": "openai/m", "base_url": address}), secrets.get)
    assert (found.key, bool(found.organization), bool(found.project)) == (key, bool(key), bool(key))


def test_an_unset_named_key_is_reported_before_any_request() -> None:
    endpoint = endpoint_of({"model": "m", "base_url": "http://localhost/v1", "api_key_env": "MISSING"})
    with raises(ConfigurationError):
        credentials_for(endpoint, ENVIRONMENT.get)


@pytest.mark.parametrize(
    ("address", "is_open"),
    [
        ("http://judge.example/v1", True),
        ("http://10.0.0.7:8001/v1", True),
        ("https://judge.example/v1", False),
        ("http://localhost:8001/v1", False),
        ("http://127.0.0.1/v1", False),
        ("http://[::1]:8001/v1", False),
    ],
)
def test_plain_http_to_another_machine_is_readable_by_others(address: str, is_open: bool) -> None:
    assert is_open_to_others(address) is is_open


def test_plain_http_is_warned_of_once(caplog: pytest.LogCaptureFixture) -> None:
    _warn_of_plain_http.cache_clear()
    # An unusual name of this machine; no request leaves it.
    client = OpenAIClient({"model": "m", "base_url": "http://0.0.0.0:9/v1", "attempts": 1})
    with caplog.at_level(logging.WARNING, "ragtasks"):
        for _ in range(2):
            with pytest.raises(JudgeError, match="no server answers"):
                client.answer([Prompt.of("q")])
    assert caplog.text.count("http://0.0.0.0:9/v1: prompts, and the key if one is set, are sent unencrypted") == 1


def test_a_redirect_to_another_host_is_refused_with_the_host_name() -> None:
    with chat_server(lambda *_: completion()) as other, ChatServer(lambda *_: completion()).running() as server:
        location = other.base_url.replace("127.0.0.1", "localhost")
        server.script = lambda *_: Action(b"{}", 307, {"Location": f"{location}/chat/completions"})
        with raises(JudgeError):
            OpenAIClient({"model": "m", "base_url": server.base_url}, OTHER).answer([Prompt.of("q")])
    assert (len(server.asked), other.asked) == (1, [])


@pytest.mark.parametrize("key", ["a", "e", "no", "1", "EMPTY", "no-key", "token", "placeholder", "aaaaaaaaaaaaaaaa1"])
def test_a_placeholder_key_changes_no_reply(key: str) -> None:
    text = "No, EMPTY is a placeholder token: no-key 1 aaaaaaaaaaaaaaaa1"
    with chat_server(lambda *_: completion(text)) as server:
        (reply,) = OpenAIClient({"model": "m", "base_url": server.base_url}, key).answer([Prompt.of("q")])
    assert reply.text == text
    assert json_of(reply.raw) == text


def test_a_likely_secret_is_masked_in_a_reply() -> None:
    assert Credentials(OTHER).without_key(f"it is {OTHER}".encode()) == b"it is ***"


def json_of(raw: str) -> Any:
    return json.loads(raw)["choices"][0]["message"]["content"]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (f"key {OTHER} is wrong", "key *** is wrong"),
        ("key sk-ab*.cd-0123 is wrong", "key *** is wrong"),
        ("sk-short and task-0123456789", "sk-short and task-0123456789"),
        ("nothing", "nothing"),
    ],
)
def test_a_message_is_masked_for_the_key_and_similar_texts(text: str, shown: str) -> None:
    assert Credentials(OTHER).masked(text) == shown
    assert OTHER not in repr(Credentials(OTHER, "org", "project"))


@pytest.mark.parametrize(("key", "shown"), [("abcdef", "a *** z"), ("abcde", "a abcde z"), (None, "a abcdef z")])
def test_a_key_that_may_be_a_word_is_kept_in_a_message(key: str | None, shown: str) -> None:
    assert Credentials(key).masked(f"a {key or 'abcdef'} z") == shown


@pytest.mark.parametrize(
    ("key", "is_secret"),
    [
        ("abcdefgh1234", True),
        ("abcdefgh123", False),
        ("abcdefghijkl", False),
        ("123456789012", False),
        ("aaaabbbb1234", False),
    ],
)
def test_a_secret_is_long_and_mixed(key: str, is_secret: bool) -> None:
    assert (Credentials(key).without_key(key.encode()) == b"***") == is_secret


@pytest.mark.parametrize("key", ["sk-with a\nline", "schlüssel-0123456789"])
@pytest.mark.parametrize("variable", ["OPENAI_API_KEY", "OTHER_KEY"])
def test_a_key_unfit_for_a_header_is_reported_by_its_variable(key: str, variable: str) -> None:
    named = {"api_key_env": "OTHER_KEY"} if variable == "OTHER_KEY" else {}
    with pytest.raises(
        ConfigurationError, match=f"^{variable} contains characters that an HTTP header cannot contain"
    ) as caught:
        credentials_for(endpoint_of({"model": "openai/m", **named}), {variable: key}.get)
    assert key not in str(caught.value)


def test_an_invalid_address_in_the_variable_gets_no_key() -> None:
    endpoint = endpoint_of({"model": "m", "base_url": "http://[::1]:8001/v1"})
    for odd in ("http://[::1", "http://h:port/v1", "nothing", ""):
        assert credentials_for(endpoint, {**ENVIRONMENT, "OPENAI_BASE_URL": odd}.get) == Credentials()
