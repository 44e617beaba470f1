from __future__ import annotations

import traceback

import pytest

from ragtasks.clients import OPENAI_URL, endpoint_of
from ragtasks.errors import ConfigurationError


def test_one_line_names_an_openai_model() -> None:
    endpoint = endpoint_of("openai/gpt-4o-mini")
    assert (endpoint.address, endpoint.model_there) == (OPENAI_URL, "gpt-4o-mini")
    assert endpoint.token_limit_there == "max_completion_tokens"


def test_mapping_names_a_model_elsewhere() -> None:
    endpoint = endpoint_of({"model": "openai/gpt-oss-20b", "base_url": "http://localhost:8001/v1"})
    assert endpoint.model_there == "openai/gpt-oss-20b"  # its own name there, not OpenAI's prefix
    assert endpoint.token_limit_there == "max_tokens"


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
def test_what_cannot_be_used_is_refused(named: object, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        endpoint_of(named)  # type: ignore[arg-type]


def test_a_failure_is_told_in_our_words_alone() -> None:
    told = "endpoint: base_url must begin with http:// or https:// and name a host"
    with pytest.raises(ConfigurationError, match=f"^{told}$"):
        endpoint_of({"model": "m", "base_url": "foo"})
    with pytest.raises(ConfigurationError, match=r"^endpoint: slots: Input should be greater than or equal to 1$"):
        endpoint_of({"model": "m", "base_url": "http://h", "slots": 0})


@pytest.mark.parametrize("url", ["http://user:hunter2@host/v1", "http://host/v1?api-key=hunter2", "ftp://hunter2"])
def test_address_with_a_secret_is_refused_without_showing_it(url: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        endpoint_of({"model": "m", "base_url": url})
    assert "hunter2" not in "".join(traceback.format_exception(caught.value))
