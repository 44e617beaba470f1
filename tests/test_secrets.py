"""What may hold a key is masked, wherever in a value it stands, and nothing else is."""

from __future__ import annotations

import pytest

from ragtasks.errors import is_secret_name, masked, masked_text

PLAIN = {
    "pretrained": "a/b",
    "max_tokens": 5,
    "think_end_token": "</think>",
    "eos_token": "x",
    "base_url": "http://h/v1",
}


@pytest.mark.parametrize(
    "secret",
    [
        {"api_key": "sk-4711"},
        {"OPENAI_API_KEY": "sk-4711"},
        {"azure-api-key": "sk-4711"},
        {"auth_token": "sk-4711"},
        {"token": "sk-4711"},
        {"header": {"Authorization": "Bearer sk-4711"}},
        {"header": '{"Authorization": "Bearer sk-4711"}'},
        {"extra": {"deep": [{"Authorization": "sk-4711"}]}},
        {"extra": "Authorization: Bearer sk-4711"},
        {"base_url": "https://user:sk-4711@host/v1"},
        {"base_url": "https://host/v1?api-key=sk-4711&x=1"},
    ],
)
def test_a_secret_is_masked_and_masked_again_it_stays(secret: dict[str, object]) -> None:
    found = masked({**PLAIN, **secret})
    assert "4711" not in str(found)
    assert "***" in str(found)
    assert {key: found[key] for key in PLAIN.keys() - secret.keys()} == {
        key: value for key, value in PLAIN.items() if key not in secret
    }
    assert masked(found) == found


def test_what_is_no_secret_stays_as_it_is() -> None:
    assert masked(PLAIN) == PLAIN
    assert not any(map(is_secret_name, PLAIN))
    assert masked({"token": None, "use_auth_token": False}) == {"token": None, "use_auth_token": False}
    for text in ("a@b.org", "http://host/@x", "see https://host/a?b=c", "the bearer of news"):
        assert masked_text(text) == text
