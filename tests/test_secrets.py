"""Possible keys are masked anywhere in a value, and other text is not."""

from __future__ import annotations

import pytest

from ragtasks.errors import is_secret_name, masked, masked_text
from tests._commands import run_command

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
        {"data": "https:/user:sk-4711@host/corpus.jsonl"},
        {"data": "https://user:sk@4711@host/v1"},
        {"data": "s3://user:a?4711#b@host/v1"},
        {"data": "https://host/v1#access_token=4711"},
        {"data": "https://host/v1?X-Amz-Credential=4711/us"},
    ],
)
def test_masking_a_secret_is_idempotent(secret: dict[str, object]) -> None:
    found = masked({**PLAIN, **secret})
    assert "4711" not in str(found)
    assert "***" in str(found)
    assert {key: found[key] for key in PLAIN.keys() - secret.keys()} == {
        key: value for key, value in PLAIN.items() if key not in secret
    }
    assert masked(found) == found


def test_other_text_is_not_masked() -> None:
    assert masked(PLAIN) == PLAIN
    assert not any(map(is_secret_name, PLAIN))
    assert masked({"token": None, "use_auth_token": False}) == {"token": None, "use_auth_token": False}
    for text in (
        *("a@b.org", "http://host/@x", "see https://host/a?b=c", "the bearer of news"),
        *("C:/a@b/c", "https://host/a?author=b", "https://host/a?mail=b@c.org", "https://host/a/b:c@d"),
    ):
        assert masked_text(text) == text


@pytest.mark.parametrize("address", ["https://ann:pa55@host/a", "https://host/a?token=pa55", "s3://ann:p@pa55@host/a"])
@pytest.mark.parametrize(
    "words",
    [
        ("report", "{}"),
        ("score", "{}", "--benchmark", "mtrag"),
        ("check", "{}"),
        ("gate", "{}", "--baseline", "{}", "--margin", "rouge_l=0.1"),
        ("eval", "{}"),
        ("evaluate-run", "{}", "--qrels", "{}"),
        ("data", "duplicates", "{}"),
    ],
)
def test_the_password_in_an_address_passed_as_path_is_not_printed(address: str, words: tuple[str, ...]) -> None:
    done = run_command(*(word.format(address) for word in words))
    assert done.status in {1, 2}
    assert "pa55" not in done.out + done.err
