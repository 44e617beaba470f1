from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from lm_eval.api.instance import Instance
from lm_eval.api.model import LM
from lm_eval.utils import make_table

from ragtasks.benchmarks import Benchmark
from ragtasks.errors import ConfigurationError, RagtasksError
from ragtasks.harness.conversation_task import ConversationTask, _warn, _warn_of_prompts_without_judges
from ragtasks.records import Role, Task
from tests.harness._endpoint import Endpoint, Request
from tests.harness.conftest import CHATML, NO_SYSTEM, QUESTION_ONLY

Evaluate = Callable[..., dict[str, Any]]
TinyModel = Callable[[str], Path]
TASK = "mtrag_reference_cloud"
SEMANTIC = ("rb_alg", "rb_alg_raw", "rb_alg_ibm", "bert_recall", "bert_precision", "bert_k_precision")
SECRETS = {
    "auth_token": "hf-token-31337",
    "header": {"Authorization": "Bearer sk-header-31337"},
    "api_key": "sk-argument-31337",
}


class Scripted(LM):  # type: ignore[misc]  # the harness has no types
    """A harness model with a separate reply for each doc."""

    def __init__(self, reply: Callable[[dict[str, Any]], Any]) -> None:
        super().__init__()
        self._reply = reply

    def generate_until(self, requests: list[Instance]) -> list[Any]:
        return [self._reply(request.doc) for request in requests]

    def loglikelihood(self, requests: list[Instance]) -> list[tuple[float, bool]]:
        raise NotImplementedError

    def loglikelihood_rolling(self, requests: list[Instance]) -> list[float]:
        raise NotImplementedError


def real_turns(task: Task) -> list[dict[str, str]]:
    """Return the benchmark's conversation as chat messages."""
    names = {Role.USER: "user", Role.ASSISTANT: "assistant"}
    return [{"role": names[message.role], "content": message.text} for message in task.messages]


def chat_arguments(endpoint: Endpoint, **more: Any) -> dict[str, Any]:
    return {"base_url": endpoint.chat_url, "model": "loopback", "eos_string": "</s>", **more}


def scores(results: dict[str, Any], task: str) -> dict[str, float]:
    """Return metric -> value of one harness task."""
    row = results["results"][task].items()
    return {key.split(",")[0]: value for key, value in row if "," in key and "_stderr" not in key}


@pytest.fixture(scope="module")
def conversations(benchmark_sample: Benchmark) -> dict[str, Task]:
    """Last question -> task, for one domain."""
    return {task.question: task for task in benchmark_sample.tasks if task.domain == "cloud"}


def test_a_chat_endpoint_gets_the_real_conversation(
    evaluate: Evaluate, endpoint: Endpoint, conversations: dict[str, Task]
) -> None:
    evaluate("local-chat-completions", TASK, model_args=chat_arguments(endpoint), apply_chat_template=True, limit=5)
    assert len(endpoint.requests) == 5
    assert max(len(request.body["messages"]) for request in endpoint.requests) > 4
    for request in endpoint.requests:
        assert request.path == "/v1/chat/completions"
        system, *turns = request.body["messages"]
        task = conversations[turns[-1]["content"]]
        assert turns == real_turns(task)
        assert system["role"] == "system"
        for number, passage in enumerate(task.references, start=1):
            assert f"Passage {number}:\n{passage.text}" in system["content"]
        assert request.body["max_tokens"] == 1024
        assert request.body["temperature"] == 0
        assert request.body["stop"]


def test_a_completions_endpoint_gets_plain_text(
    evaluate: Evaluate, endpoint: Endpoint, conversations: dict[str, Task]
) -> None:
    arguments = {"base_url": endpoint.completions_url, "model": "loopback", "tokenizer_backend": None}
    evaluate("local-completions", TASK, model_args=arguments, limit=4)
    assert len(endpoint.requests) == 4
    for request in endpoint.requests:
        assert request.path == "/v1/completions"
        prompt = request.body["prompt"]
        assert isinstance(prompt, str)
        question = prompt.removesuffix("\nAssistant:").rsplit("\nUser: ", 1)[1]
        task = conversations[question]
        names = {"user": "User", "assistant": "Assistant"}
        lines = [f"{names[turn['role']]}: {turn['content']}" for turn in real_turns(task)]
        assert prompt.endswith("\n" + "\n".join([*lines, "Assistant:"]))
        assert all(passage.text.strip() in prompt for passage in task.references)


def test_a_system_instruction_precedes_ours(evaluate: Evaluate, endpoint: Endpoint) -> None:
    evaluate(
        "local-chat-completions",
        TASK,
        model_args=chat_arguments(endpoint),
        apply_chat_template=True,
        system_instruction="Be brief.",
        limit=1,
    )
    assert endpoint.requests[0].body["messages"][0]["content"].startswith("Be brief.\n\nAnswer the user")


@pytest.mark.parametrize("template", [CHATML, NO_SYSTEM], ids=["system role", "no system role"])
def test_a_local_model_gets_every_passage_and_turn(
    template: str, evaluate: Evaluate, tiny_model: TinyModel, conversations: dict[str, Task]
) -> None:
    arguments = {"pretrained": str(tiny_model(template)), "dtype": "float32"}
    options = {"device": "cpu", "apply_chat_template": True, "gen_kwargs": {"max_gen_toks": 2}}
    results = evaluate("hf", TASK, model_args=arguments, limit=3, **options)
    for sample in results["samples"][TASK]:
        prompt = sample["arguments"][0][0]
        task = conversations[sample["doc"]["question"]]
        first, *later = real_turns(task)
        assert prompt.startswith("<|system|>" if template is CHATML else "<|user|>Answer the user")
        assert all(passage.text.strip() in prompt for passage in task.references)
        assert "".join(f"<|{turn['role']}|>{turn['content']}</s>" for turn in later) in prompt
        assert f"{first['content']}</s>" in prompt
        assert prompt.endswith("<|assistant|>")


def test_a_chat_template_that_drops_passages_is_rejected(evaluate: Evaluate, tiny_model: TinyModel) -> None:
    arguments = {"pretrained": str(tiny_model(QUESTION_ONLY)), "dtype": "float32"}
    with pytest.raises(ConfigurationError, match="leaves out the passages"):
        evaluate("hf", TASK, model_args=arguments, device="cpu", apply_chat_template=True)


def test_without_a_chat_template_a_local_model_gets_plain_text(evaluate: Evaluate, tiny_model: TinyModel) -> None:
    arguments = {"pretrained": str(tiny_model(CHATML)), "dtype": "float32"}
    results = evaluate("hf", TASK, model_args=arguments, device="cpu", gen_kwargs={"max_gen_toks": 2}, limit=1)
    assert results["samples"][TASK][0]["arguments"][0][0].startswith("Answer the user's last message")


def test_keys_in_model_arguments_are_reported_by_name(
    evaluate: Evaluate, endpoint: Endpoint, caplog: pytest.LogCaptureFixture
) -> None:
    _warn.cache_clear()
    arguments = chat_arguments(endpoint, **SECRETS)
    results = evaluate("local-chat-completions", TASK, model_args=arguments, apply_chat_template=True, limit=1)
    (warning,) = [record.getMessage() for record in caplog.records if "--model_args" in record.getMessage()]
    assert warning.startswith("--model_args api_key, auth_token, header: lm_eval prints this")
    ours = {key: value for key, value in results.items() if key != "config"}
    assert "31337" not in json.dumps(ours, default=str) + warning


def test_official_prompts_of_judges_without_judges_log_the_option_of_models(
    load_task: Callable[..., ConversationTask], caplog: pytest.LogCaptureFixture
) -> None:
    _warn_of_prompts_without_judges.cache_clear()
    judge = {"model": "m", "base_url": "http://127.0.0.1:9/v1"}
    with pytest.raises(ConfigurationError, match="official prompt of rb_llm"):  # the sample has no official files
        load_task(TASK, prompts="official", judges=[judge])
    assert "prompts=official" not in caplog.text
    load_task(TASK, prompts="official")
    load_task(TASK, prompts="official")
    assert caplog.text.count("for the prompt of the model, system_prompt=official") == 1


@pytest.mark.parametrize(
    ("reply", "answer"),
    [
        ("<think>Is it three? Or four?</think>\n\nThree days.", "Three days."),
        ("no opening tag, four?</think>Three days.", "Three days."),
        ("<think>It says three days. So", ""),
        ("", ""),
        (" \n ", ""),
        (None, ""),
    ],
)
def test_only_the_answer_is_scored(reply: str | None, answer: str, evaluate: Evaluate) -> None:
    results = evaluate(Scripted(lambda _: reply), TASK, limit=2)
    plain = evaluate(Scripted(lambda _: answer), TASK, limit=2)
    assert str(scores(results, TASK)) == str(scores(plain, TASK))
    assert scores(results, TASK)["empty"] == float(not answer)
    for sample in results["samples"][TASK]:
        assert [text.strip() for text in sample["filtered_resps"]] == [answer]
        assert sample["resps"] == [[reply]]


def test_a_null_reply_of_an_endpoint_is_an_empty_answer(evaluate: Evaluate, endpoint: Endpoint) -> None:
    endpoint.answer = lambda request: None if len(request.body["messages"]) == 2 else "It takes three days."
    results = evaluate(
        "local-chat-completions", TASK, model_args=chat_arguments(endpoint), apply_chat_template=True, limit=4
    )
    n_null = sum(len(request.body["messages"]) == 2 for request in endpoint.requests)
    assert 0 < n_null < 4
    assert scores(results, TASK)["empty"] == n_null / 4


def test_every_row_of_sample_scores_is_marked(evaluate: Evaluate) -> None:
    results = evaluate("ragtasks-oracle", "mtrag_reference", limit=1)
    for table in ("results", "groups"):
        rows = [line for line in make_table(results, table).splitlines()[2:] if line.strip()]
        assert rows
        assert all("|sample|" in row for row in rows)
    for config in results["configs"].values():
        ours = config["metadata"]["ragtasks"]
        assert ours["benchmark"] == "mtrag (sample)"
        assert ours["configuration"]["data"] == "sample"
        assert ours["scoring"]["encoder"] == "none"


def test_real_scores_are_not_marked_as_sample(evaluate: Evaluate, mtrag_root: Path) -> None:
    results = evaluate("ragtasks-refuse", TASK, metadata={"data": str(mtrag_root)}, limit=2)
    assert "sample" not in make_table(results)
    assert results["configs"][TASK]["metadata"]["ragtasks"]["benchmark"] == "mtrag"


def test_conversational_tasks_are_included_only_on_request(load_task: Callable[..., ConversationTask]) -> None:
    def labels(**metadata: Any) -> list[str]:
        return [
            doc["answerability"]
            for domain in ("clapnq", "fiqa", "govt", "cloud")
            for doc in load_task(f"mtrag_reference_{domain}", **metadata).dataset["test"]
        ]

    assert "CONVERSATIONAL" not in labels()
    assert labels(conversational=True).count("CONVERSATIONAL") == 4


def test_a_misspelt_key_is_rejected_with_a_suggestion(load_task: Callable[..., ConversationTask]) -> None:
    with pytest.raises(ConfigurationError, match=r"'encodr'.*'encoder'"):
        load_task(TASK, encodr="minilm")


def test_keys_of_the_model_are_ignored(load_task: Callable[..., ConversationTask]) -> None:
    task = load_task(TASK, pretrained="x/y", dtype="bfloat16", tensor_parallel_size=2, max_length=8192, **SECRETS)
    assert set(task.config.metadata) == {"version", "config_source", "ragtasks"}


@pytest.mark.parametrize(
    "metadata",
    [
        {"data": "/nowhere"},
        {"max_words": 0},
        {"system_prompt": "/nowhere.jinja"},
        {"encoder": "deberta-xlarge-mnli"},
    ],
)
def test_a_bad_option_stops_before_the_model_runs(
    metadata: dict[str, Any], load_task: Callable[..., ConversationTask]
) -> None:
    with pytest.raises(RagtasksError):
        load_task(TASK, **metadata)


def test_a_users_template_with_an_unknown_field_stops_before_the_model_runs(
    tmp_path: Path, load_task: Callable[..., ConversationTask]
) -> None:
    template = tmp_path / "system.jinja"
    template.write_text("{{ passages[0].text }} {{ wordcount }}")
    with pytest.raises(ConfigurationError, match="wordcount"):
        load_task(TASK, system_prompt=str(template))


@pytest.fixture
def broken_encoder(tmp_path: Path) -> Path:
    """An encoder whose tokenizer has words without vectors in the model: it loads, and fails midway."""
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import BertConfig, BertModel, BertTokenizerFast

    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "the", "a", "it"]
    core = Tokenizer(models.WordLevel({word: index for index, word in enumerate(words)}, unk_token="[UNK]"))
    core.pre_tokenizer = pre_tokenizers.Whitespace()
    BertTokenizerFast(tokenizer_object=core).save_pretrained(tmp_path)
    torch.manual_seed(0)
    config = BertConfig(vocab_size=4, hidden_size=8, num_hidden_layers=1, num_attention_heads=1, intermediate_size=8)
    BertModel(config).save_pretrained(tmp_path)
    return tmp_path


def test_a_failing_encoder_keeps_other_scores_and_gives_the_reason(evaluate: Evaluate, broken_encoder: Path) -> None:
    results = evaluate("ragtasks-oracle", "mtrag_reference", metadata={"encoder": str(broken_encoder)}, limit=2)
    values = scores(results, TASK)
    assert values["rouge_l"] == 1.0
    assert values["coverage"] == 0.0
    assert all(math.isnan(values[name]) for name in SEMANTIC)
    for sample in results["samples"][TASK]:
        unscored = sample["doc"]["scoring"]["unscored"]
        assert set(unscored) == {*SEMANTIC, "declined"}
        assert all("encoder failed" in unscored[name] for name in SEMANTIC)
    assert "mtrag_reference" in make_table(results, "groups")


def test_the_oracle_reaches_the_ceiling(evaluate: Evaluate) -> None:
    results = evaluate("ragtasks-oracle", "mtrag", limit=None)
    rows = [scores(results, name) for name in results["configs"]]
    assert len(rows) == 12
    assert all(row["rouge_l"] == pytest.approx(1.0) and row["token_recall"] == 1.0 for row in rows)
    samples = [sample for rows in results["samples"].values() for sample in rows]
    assert sum(sample["ans_acc"] for sample in samples) / len(samples) > 0.95
    assert results["groups"]["mtrag_reference"]["rouge_l,sample"] == pytest.approx(1.0)


@pytest.fixture(scope="module")
def by_label(load_task: Callable[..., ConversationTask]) -> Callable[[str, str], list[int]]:
    """Return a function (harness task, label) -> indexes of the task's docs with the label."""
    return lambda name, label: [
        number for number, doc in enumerate(load_task(name).dataset["test"]) if doc["answerability"] == label
    ]


def test_refusing_scores_the_share_of_unanswerable_tasks(
    evaluate: Evaluate, by_label: Callable[[str, str], list[int]]
) -> None:
    chosen = sorted(
        [*by_label(TASK, "UNANSWERABLE")[:2], *by_label(TASK, "ANSWERABLE")[:2], *by_label(TASK, "PARTIAL")[:1]]
    )
    results = evaluate("ragtasks-refuse", TASK, metadata={"encoder": "minilm"}, limit=None, samples={TASK: chosen})
    assert scores(results, TASK)["rb_alg"] == pytest.approx(2 / 5)
    assert scores(results, TASK)["ans_acc"] == pytest.approx(2 / 5)
    assert scores(results, TASK)["idk_yes"] == 1.0


def test_only_the_verdict_matters_on_unanswerable_tasks(
    evaluate: Evaluate, by_label: Callable[[str, str], list[int]]
) -> None:
    """The official evaluation's invariant: for any raw score, the conditioned score is 1 or 0."""
    name = "mtrag_full_rag_cloud"
    refuses = itertools.cycle([True, False])
    results = evaluate(
        Scripted(lambda doc: doc["target"] if next(refuses) else doc["passages"][0]["text"]),
        name,
        metadata={"encoder": "minilm"},
        limit=None,
        samples={name: by_label(name, "UNANSWERABLE")[:4]},
    )
    raw: dict[float, set[float]] = {0.0: set(), 1.0: set()}
    for sample in results["samples"][name]:
        assert sample["rb_alg"] == float(sample["doc"]["scoring"]["idk"] == "yes")
        raw[sample["rb_alg"]].add(sample["rb_alg_raw"])
    assert len(raw[0.0]) == 2
    assert len(raw[1.0]) == 2


def test_the_default_metrics_are_logged_with_every_sample(evaluate: Evaluate) -> None:
    results = evaluate("ragtasks-extractive", TASK, limit=3)
    for sample in results["samples"][TASK]:
        assert sample["doc"]["scoring"]["idk"] in {"yes", "no", "partial"}
        assert 0 <= sample["rouge_l"] <= 1
    logged = [sample["rouge_l"] for sample in results["samples"][TASK]]
    assert scores(results, TASK)["rouge_l"] == pytest.approx(sum(logged) / 3)


def test_an_evaluation_scores_only_its_own_answers(
    evaluate: Evaluate, load_task: Callable[..., ConversationTask]
) -> None:
    """Tasks of predictions or of an aborted evaluation in the same process have no effect."""
    left = load_task(TASK)
    left.build_all_requests(limit=2)
    for instance in left.instances:
        instance.resps.append("left behind")
    results = evaluate("ragtasks-oracle", TASK)
    assert scores(results, TASK)["rouge_l"] == 1.0
    assert [sample["rouge_l"] for sample in results["samples"][TASK]] == [1.0, 1.0]


def test_a_second_run_with_the_answer_cache_sends_no_request(
    evaluate: Evaluate, endpoint: Endpoint, tmp_path: Path
) -> None:
    options = {"model_args": chat_arguments(endpoint), "apply_chat_template": True, "use_cache": str(tmp_path / "c")}
    first = evaluate("local-chat-completions", TASK, **options)
    assert len(endpoint.requests) == 2
    second = evaluate("local-chat-completions", TASK, **options)
    assert len(endpoint.requests) == 2
    assert str(scores(second, TASK)) == str(scores(first, TASK))
    evaluate("local-chat-completions", TASK, metadata={"max_words": 60}, **options)
    assert len(endpoint.requests) == 4


@pytest.fixture
def request_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The harness's request cache, in a folder of this test."""
    monkeypatch.setattr("lm_eval.caching.cache.PATH", str(tmp_path / "requests"))
    return tmp_path / "requests"


def cached_prompts(evaluate: Evaluate, **options: Any) -> list[str]:
    results = evaluate("ragtasks-oracle", TASK, cache_requests=True, **options)
    assert scores(results, TASK)["rouge_l"] == 1.0
    return [sample["arguments"][0][0] for sample in results["samples"][TASK]]


def test_the_request_cache_is_used_for_the_same_requests(evaluate: Evaluate, request_cache: Path) -> None:
    prompts = cached_prompts(evaluate)
    (file,) = request_cache.iterdir()
    written = file.stat().st_mtime_ns
    assert cached_prompts(evaluate) == prompts
    assert [path.stat().st_mtime_ns for path in request_cache.iterdir()] == [written]


def test_other_requests_have_their_own_cache(evaluate: Evaluate, request_cache: Path, tmp_path: Path) -> None:
    template = tmp_path / "plain.jinja"
    template.write_text("{{ system }}\nQ: {{ question }}\nA:")
    prompts = cached_prompts(evaluate)
    variants: list[dict[str, Any]] = [
        {"metadata": {"max_words": 60}},
        {"metadata": {"plain_prompt": str(template)}},
        {"metadata": {"conversational": True}},
        {"system_instruction": "Be brief."},
        {"apply_chat_template": True},
        {"limit": None, "samples": {TASK: [4, 9]}},
        {"gen_kwargs": {"max_gen_toks": 5}},
    ]
    for n_files, options in enumerate(variants, start=2):
        fresh = cached_prompts(evaluate, **options)
        assert len(list(request_cache.iterdir())) == n_files, options
        same_prompts = "conversational" in options.get("metadata", {}) or "gen_kwargs" in options
        assert (fresh == prompts) is same_prompts, options
    assert cached_prompts(evaluate) == prompts


def test_the_request_cache_key_depends_on_the_rendered_template(evaluate: Evaluate, request_cache: Path) -> None:
    class Named(Scripted):
        tokenizer_name = "the same name"

        def __init__(self, mark: str) -> None:
            super().__init__(lambda doc: doc["target"])
            self._mark = mark

        def apply_chat_template(self, chat_history: list[dict[str, str]], **_: Any) -> str:
            return "".join(f"{self._mark}{message['content']}" for message in chat_history)

    options = {"apply_chat_template": True, "cache_requests": True}
    for mark in ("#", "##"):
        results = evaluate(Named(mark), TASK, **options)
        prompts = [sample["arguments"][0][0] for sample in results["samples"][TASK]]
        assert all(prompt.startswith(f"{mark}Answer") for prompt in prompts)


def test_a_cached_request_of_other_data_is_never_used(
    evaluate: Evaluate, request_cache: Path, mtrag_root: Path
) -> None:
    sample_prompts = cached_prompts(evaluate)
    real_prompts = cached_prompts(evaluate, metadata={"data": str(mtrag_root)})
    assert not set(sample_prompts) & set(real_prompts)


def test_the_test_endpoint_records_requests(endpoint: Endpoint) -> None:
    import requests

    assert requests.get(f"{endpoint.address}/v1/models", timeout=5).json()["data"] == [{"id": "loopback"}]
    endpoint.answer = lambda request: request.body["prompt"].upper()
    done = requests.post(endpoint.completions_url, json={"prompt": "abc"}, timeout=5)
    assert done.json()["choices"] == [{"index": 0, "text": "ABC"}]
    (request,) = endpoint.requests
    assert isinstance(request, Request)
    assert request.body == {"prompt": "abc"}


@pytest.mark.parametrize("task", ["mtrag_full_rag_govt", TASK])
def test_closed_book_prompts_have_no_passage_and_request_knowledge(
    task: str, load_task: Callable[..., ConversationTask]
) -> None:
    closed, usual = load_task(task, run="closed_book"), load_task(task)
    ids = [doc["task_id"] for doc in usual.dataset["test"]]
    assert [doc["task_id"] for doc in closed.dataset["test"]] == ids
    assert all(doc["passages"] == [] and doc["run"] == "closed_book" for doc in closed.dataset["test"])
    prompt = closed.fewshot_context(closed.dataset["test"][0])
    assert "from what you know" in prompt
    assert "passage" not in prompt.lower()
    assert closed.fingerprint() != usual.fingerprint()
