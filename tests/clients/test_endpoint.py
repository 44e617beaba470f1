from __future__ import annotations

import traceback
from typing import Any

import pytest

from ragtasks.clients import OPENAI_URL, Endpoint, endpoint_of
from ragtasks.errors import ConfigurationError
from tests._messages import raises


def test_a_line_names_an_openai_model() -> None:
    endpoint = endpoint_of("openai/gpt-4o-mini")
    assert (endpoint.address, endpoint.server_model) == (OPENAI_URL, "gpt-4o-mini")
    assert endpoint.token_limit_field == "max_completion_tokens"


def test_a_mapping_names_a_model_elsewhere() -> None:
    endpoint = endpoint_of({"model": "openai/gpt-oss-20b", "base_url": "http://localhost:8001/v1"})
    assert endpoint.server_model == "openai/gpt-oss-20b"  # the model's own name, not OpenAI's prefix
    assert endpoint.token_limit_field == "max_tokens"


@pytest.mark.parametrize(
    ("named", "message"),
    [
        ("gpt-4o-mini", "needs base_url"),
        ({"model": "m", "base_ulr": "http://h"}, "did you mean 'base_url'"),
        ({"base_url": "http://h"}, "model"),
        ({"model": "openai/m", "api_version": "1"}, "api_version needs base_url"),
        ({"model": "m", "base_url": "localhost:8001"}, "http://"),
        ({"model": "m", "base_url": "http://h", "slots": 0}, "slots"),
    ],
)
def test_invalid_endpoints_are_refused(named: object, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        endpoint_of(named)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "named",
    ["mtrag-un-official,base_url=http://h:8001/v1", {"model": "mtrag-un-official", "base_url": "http://h:8001/v1"}],
)
def test_a_preset_is_the_official_judge_at_the_users_address(named: Any) -> None:
    endpoint = endpoint_of(named)
    assert (endpoint.address, endpoint.server_model) == ("http://h:8001/v1", "openai/gpt-oss-120b")
    assert (endpoint.temperature, endpoint.max_tokens) == ("server", 8192)
    assert endpoint_of("mtrag-un-official,base_url=http://h/v1,temperature=0.5").temperature == 0.5


def test_a_preset_without_an_address_is_refused() -> None:
    """Otherwise its requests would be sent to OpenAI."""
    with raises(ConfigurationError) as caught:
        endpoint_of("mtrag-un-official")
    assert "base_url" in str(caught.value)


def test_a_failure_is_reported_in_our_own_words() -> None:
    calls = "endpoint: base_url must begin with http:// or https:// and name a host"
    with pytest.raises(ConfigurationError, match=f"^{calls}$"):
        endpoint_of({"model": "m", "base_url": "foo"})
    with raises(ConfigurationError):
        endpoint_of({"model": "m", "base_url": "http://h", "slots": 0})


@pytest.mark.parametrize("url", ["http://user:hunter2@host/v1", "http://host/v1?api-key=hunter2", "ftp://hunter2"])
def test_an_address_with_a_secret_is_refused_without_showing_it(url: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        endpoint_of({"model": "m", "base_url": url})
    assert "hunter2" not in "".join(traceback.format_exception(caught.value))


def elsewhere(**options: Any) -> Endpoint:
    return endpoint_of({"model": "m", "base_url": "http://h:8001/v1", **options})


@pytest.mark.parametrize(
    ("line", "fields"),
    [
        ("m,base_url=http://h", {"model": "m", "base_url": "http://h"}),
        (" m , base_url = http://h/a=b ", {"model": "m", "base_url": "http://h/a=b"}),
        (
            "m,base_url=http://h,slots=3,temperature=0.5,structured=true",
            {"slots": 3, "temperature": 0.5, "structured": True},
        ),
        ('m,base_url=http://h,temperature="server"', {"temperature": "server"}),
        ("m,base_url=http://h,temperature=server", {"temperature": "server"}),
        (' {"model": "m", "base_url": "http://h", "price": [1, 2]}', {"model": "m", "price": (1.0, 2.0)}),
    ],
)
def test_a_line_names_a_model_and_its_options(line: str, fields: dict[str, Any]) -> None:
    endpoint = endpoint_of(line)
    assert {name: getattr(endpoint, name) for name in fields} == fields


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("m,base_url", "each option once, or a JSON object"),
        ("m,base_url=http://h,base_url=http://i", "each option once"),
        ("m,model=n", "each option once"),
        ('{"model": ', r"expected a JSON object, found broken JSON \(Expecting value, character 10\)"),
        ('{"a": ' * 2000, "found broken JSON"),
        ("openai/m,slost=3", "unknown key 'slost': did you mean 'slots'"),
    ],
)
def test_an_invalid_line_is_refused(line: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        endpoint_of(line)


@pytest.mark.parametrize(
    ("named", "shown"), [("gpt-4o", "gpt-4o"), ("sk-secret-0123456789", "NAME"), ("http://me:pw@host/v1", "NAME")]
)
def test_a_model_without_an_address_is_reported_with_both_forms_and_shown_only_as_a_plain_name(
    named: str, shown: str
) -> None:
    with raises(ConfigurationError):
        endpoint_of({"model": named})


@pytest.mark.parametrize(
    ("address", "origin"),
    [
        ("http://h/v1", "http://h:80/v1"),
        ("https://h/v1/", "https://h:443/v1"),
        ("http://H:8001", "http://h:8001"),
        ("http://[::1]:8001/v1", "http://[::1]:8001/v1"),
    ],
)
def test_cached_replies_belong_to_an_address_in_any_spelling(address: str, origin: str) -> None:
    assert elsewhere(base_url=address).origin == origin
    assert elsewhere(base_url=address, shared_replies=True).origin == ""
    assert endpoint_of("openai/m").origin == "https://api.openai.com:443/v1"


@pytest.mark.parametrize(
    ("options", "reply", "prompt"),
    [
        ({}, 180, 360),
        ({"reasoning_effort": "low"}, 600, 1200),
        ({"reasoning_effort": "none"}, 180, 360),
        ({"reasoning_effort": "minimal"}, 180, 360),
        ({"timeout_seconds": 5}, 5, 10),
        ({"timeout_seconds": 5, "reasoning_effort": "high", "patience_seconds": 7}, 5, 7),
    ],
)
def test_a_thinking_model_has_a_longer_timeout(options: dict[str, Any], reply: float, prompt: float) -> None:
    endpoint = elsewhere(**options)
    assert (endpoint.longest_reply_seconds, endpoint.longest_prompt_seconds) == (reply, prompt)
    assert endpoint.thinks == (options.get("reasoning_effort") in {"low", "high"})


def test_the_name_of_the_reply_limit_can_be_set() -> None:
    assert elsewhere(token_limit="max_completion_tokens").token_limit_field == "max_completion_tokens"
    assert endpoint_of("openai/m,token_limit=max_tokens").token_limit_field == "max_tokens"


def test_extra_fields_are_one_object_in_every_notation() -> None:
    given = [{"top_p": 0.9, "a": [1]}, '{"a": [1], "top_p": 0.9}']
    (first, second) = (elsewhere(extra_body=fields) for fields in given)
    assert first == second
    assert first.extra_fields == given[0]
    assert first.model_dump()["extra_body"] == given[0]
    assert elsewhere().extra_fields == {}


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ([1], 'extra_body: must be an object, such as {"top_p": 0.9}'),
        ("[1]", "extra_body: expected a JSON object"),
        ({1: 2}, 'extra_body: must be an object, such as {"top_p": 0.9}'),
        ({"stream": True, "n": 2, "a": 1}, "extra_body: must not contain n, stream"),
        ({"a": float("nan")}, "extra_body: must contain plain JSON values"),
        ({"a": {1, 2}}, "extra_body: must contain plain JSON values"),
    ],
)
def test_extra_fields_that_cannot_be_sent_are_refused(fields: Any, message: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        elsewhere(extra_body=fields)
    assert str(caught.value) == f"endpoint: {message}"


@pytest.mark.parametrize("name", ["sk-1234567890", "MY KEY", "1KEY"])
def test_a_key_is_named_by_its_variable(name: str) -> None:
    with pytest.raises(ConfigurationError, match="api_key_env: "):
        elsewhere(api_key_env=name)
    assert elsewhere(api_key_env="_MY_KEY2").api_key_env == "_MY_KEY2"


@pytest.mark.parametrize("address", ["http://h/v1#part", "http://user@h/v1", "http://", "http:///v1", "HTTPS//h"])
def test_an_address_is_plain(address: str) -> None:
    with raises(ConfigurationError):
        elsewhere(base_url=address)
