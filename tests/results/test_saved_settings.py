"""The settings that a results file may decide: a short, closed list."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragtasks.config import KEYS, config_from_options
from ragtasks.results import unused_note
from ragtasks.results._saved import HARMLESS, RECORDED, _merged_config, harmless, recorded, unused

NEVER = {"judges", "encoder_device", "retriever", "min_judge_coverage", "max_implausible"} | {
    "repeats",
    "anchors",
    "repeat_share",
    "price",
    "skip_settled",
}
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


def test_every_setting_is_harmless_recorded_or_never_used() -> None:
    groups = [set(HARMLESS), set(RECORDED), NEVER]
    assert set.union(*groups) == KEYS
    assert sum(map(len, groups)) == len(KEYS)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("data", "/home/user"),
        ("data", "samples"),
        ("encoder", "theirs/model"),
        ("encoder", "./minilm"),
        ("encoder", "roberta-large"),
        ("encoder_device", "cuda:7"),
        ("idk", "judges"),
        ("prompts", "/tmp/prompts"),
        ("retriever", "run:/etc/passwd"),
        ("retriever", "dense:theirs/model"),
        ("judges", [{"model": "m", "base_url": "http://example.org"}]),
        ("judges", [{"lm_eval": "hf", "model_args": {"pretrained": "x", "trust_remote_code": True}}]),
        ("min_judge_coverage", 0),
    ],
)
def test_risky_settings_are_not_used_and_are_listed(key: str, value: Any) -> None:
    assert harmless({key: value}) == {}
    assert unused({key: value}, {}) == {key: value}
    assert unused({key: value}, {key: "the user's own"}) == {}
    line = unused_note({key: value})
    assert json.dumps(value) in line
    assert "name them with --metadata to use them" in line


@given(st.dictionaries(st.sampled_from([*sorted(KEYS), "other"]), _JSON))
def test_any_file_gives_a_valid_configuration_and_one_printable_line(saved: dict[str, Any]) -> None:
    config = config_from_options(harmless(saved))
    assert config.judges == ()
    assert (config.encoder_device, config.retriever, config.system_prompt) == (None, "bm25", None)
    assert not set(unused(saved, {})) & (set(RECORDED) | {"other"})
    line = unused_note(unused(saved, {}))
    assert line.isascii()
    assert line.isprintable()
    assert len(line) < 600


def test_recorded_settings_of_the_generation_are_kept() -> None:
    saved = {"run": "../../x", "max_words": "many", "judges": ["openai/x"], "other": 1}
    assert recorded(saved) == {"run": "../../x", "max_words": "many"}


@pytest.mark.parametrize(
    ("judge", "saved", "used"),
    [
        ("mtrag-un-official,base_url=http://h/v1", "ours", "official"),
        ("openai/any,prompts=official", "ours", "official"),
        ("openai/any,prompts=ours", "official", "ours"),
        ("openai/any", "official", "official"),
    ],
)
def test_prompts_that_come_with_the_users_judges_replace_those_of_the_file(judge: str, saved: str, used: str) -> None:
    config = _merged_config(Path("results.json"), {"prompts": saved}, {"judges": [judge]})
    assert config.prompts == used
