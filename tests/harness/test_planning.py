"""What an evaluation will take, counted on the sample before any model runs."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragtasks.cli import main
from ragtasks.config import config_from_metadata
from ragtasks.errors import ConfigurationError
from ragtasks.harness.planning import JudgingPlan, SettingPlan, counter, estimated_tokens, judges_table, plan


def test_every_prompt_of_a_group_is_counted_by_setting() -> None:
    plans, judging = plan(["mtrag"], {"data": "sample"}, estimated_tokens)
    assert [(item.name, len(item.tokens)) for item in plans] == [
        ("mtrag (sample), reference", 108),
        ("mtrag (sample), reference_rag", 79),
        ("mtrag (sample), full_rag", 108),
    ]
    assert all(item.reply_tokens == 1024 and item.context == item.tokens[-1] + 1024 for item in plans)
    n_answers = 108 + 79 + 108
    n_without_passages = 16  # of the reference setting: nothing can support a statement there, and no judge is asked
    assert judging.n_calls == 4 * n_answers - n_without_passages, "rb_llm and idk once, rl_f twice"
    assert judging.tokens > judging.n_calls


def test_what_judges_are_asked_again_is_counted() -> None:
    _, once = plan(["mtrag_full_rag_fiqa"], {"data": "sample"}, estimated_tokens)
    _, again = plan(["mtrag_full_rag_fiqa"], {"data": "sample", "repeats": 3, "repeat_share": 0.5}, estimated_tokens)
    assert (again.n_calls, again.tokens) == (2 * once.n_calls, 2 * once.tokens)
    _, anchored = plan(["mtrag_full_rag_fiqa"], {"data": "sample", "anchors": 40}, estimated_tokens)
    assert 40 * 3 <= anchored.n_calls - once.n_calls <= 40 * 4, "rb_llm and idk once, rl_f once or twice"


def test_the_second_step_of_rl_f_is_counted_with_the_prompt_that_it_sends() -> None:
    def count(messages: list[dict[str, str]]) -> int:
        sent.append(messages[0]["content"])
        return len(messages[0]["content"])

    sent: list[str] = []
    (setting,), judging = plan(["mtrag_full_rag_fiqa"], {"data": "sample"}, count)
    asked = sent[len(setting.tokens) :]
    second = [text for text in asked if "numbered statements" in text]
    assert (len(asked), len(second)) == (4 * len(setting.tokens), len(setting.tokens))
    assert judging.tokens == sum(map(len, asked))
    assert all("evidence: passage 5]" in text and "statements]\n1. " in text for text in second)
    first = [text for text in asked if "List what the answer claims" in text]
    assert sum(map(len, second)) > 1.3 * sum(map(len, first)), "it shows five passages, however short the sample's are"


def test_limits_of_an_account_say_how_long_judging_takes_at_least() -> None:
    for limits, hours in (
        ({}, "-"),
        ({"requests_per_minute": 10}, "0.50"),
        ({"requests_per_minute": 10, "tokens_per_minute": 100}, "1.00"),
    ):
        judge = {"model": "m", "base_url": "http://localhost:1/v1", **limits}
        (row,) = judges_table(JudgingPlan(300, 6000), config_from_metadata({"judges": [judge]})).rows
        assert row[-1] == hours


def test_a_task_named_twice_counts_once() -> None:
    ((once,), _), ((twice,), _) = (
        plan(names, {"data": "sample"}, estimated_tokens)
        for names in (["mtrag_full_rag_fiqa"], ["mtrag_full_rag_fiqa", "mtrag_full_rag_fiqa"])
    )
    assert once == twice


@given(st.lists(st.integers(1, 9999), min_size=1), st.integers(0, 2000), st.integers(0, 12_000))
def test_a_context_holds_what_fits_into_it(tokens: list[int], reply: int, context: int) -> None:
    item = SettingPlan("x", tuple(sorted(tokens)), reply)
    assert item.share_within(item.context) == 1
    assert item.share_within(context) == sum(n + reply <= context for n in tokens) / len(tokens)
    assert item.quantile(0) <= item.quantile(0.5) <= item.quantile(0.99) <= item.quantile(1) == max(tokens)


def test_a_tokeniser_is_counted_with(tmp_path: Path) -> None:
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    words = Tokenizer(models.WordLevel({"a": 0, "[UNK]": 1}, unk_token="[UNK]"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, unk_token="[UNK]")
    messages = [{"role": "user", "content": "a b c"}, {"role": "assistant", "content": "d"}]
    tokenizer.save_pretrained(tmp_path / "plain")
    assert counter(str(tmp_path / "plain"))(messages) == 4
    tokenizer.chat_template = "{% for m in messages %}start {{ m.content }} {% endfor %}go"
    tokenizer.save_pretrained(tmp_path / "chat")
    assert counter(str(tmp_path / "chat"))(messages) == 7
    with pytest.raises(ConfigurationError, match="leave it out for an estimate"):
        counter(str(tmp_path / "none"))


def test_the_command_prints_prompts_and_judges(capsys: pytest.CaptureFixture[str]) -> None:
    judge = json.dumps({"model": "m", "base_url": "http://localhost:1/v1", "price": [1, 2], "max_tokens": 10})
    options = ["run", "--dry-run", "--model", "hf", "--tasks", "mtrag_full_rag_fiqa", "--data", "sample"]
    with pytest.raises(SystemExit) as stop:
        main([*options, "--encoder", "none", "--prompts-per-minute", "27", "--judge", judge])
    assert not stop.value.code
    out = capsys.readouterr().out
    assert "answers take: 0.0 hours at 27 prompts a minute" in out
    assert "| mtrag (sample), full_rag |      27 |" in out
    assert re.search(r"\| m +\| +108 \|", out)
    assert out.splitlines()[-1].endswith("nothing was evaluated (--dry-run)")


def test_a_task_without_conversations_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="Tasks not found"):
        plan(["mtrag_nothing"], {"data": "sample"}, estimated_tokens)
