from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from lm_eval.tasks import TaskManager

from ragtasks.benchmarks import benchmark_folder, open_benchmark
from ragtasks.errors import ConfigurationError
from ragtasks.harness import group_metrics
from ragtasks.harness.conversation_task import ConversationTask
from ragtasks.harness.prompts import YAML_KEYS
from ragtasks.harness.tasks import task_folder
from ragtasks.metrics import Metric
from ragtasks.suites import suite_named
from tests._messages import raises
from tests.harness.conftest import SAMPLE

SNAPSHOTS = Path(__file__).parent / "snapshots"
DOMAINS = ("clapnq", "fiqa", "govt", "cloud")
SETTINGS = ("reference", "reference_rag", "full_rag")
SETTING_GROUPS = {f"mtrag_{setting}": ("mtrag", setting) for setting in SETTINGS} | {
    "mtrag_un_reference": ("mtrag_un", "reference"),
}
TASKS = [f"{group}_{domain}" for group in SETTING_GROUPS for domain in DOMAINS]
GROUPS = ["mtrag", *SETTING_GROUPS]
ON_RUNS = (
    "mtrag_un_full_rag",
    "inscit_full",
    "inscit_dev_full",
    "ikat23_full",
    "ikat24_full",
    "ikat25_full",
)
"""Prefixes of tasks whose benchmark publishes no passages for them."""
LIVE = "mtrag_live_"
"""Prefixes of tasks whose prompts are built while the model answers; other files of tests/harness test them."""
SNAPSHOT_TASK = "mtrag_reference_govt"


def files() -> dict[str, Path]:
    """Return the YAML file of every harness task and group."""
    return {path.stem: path for path in task_folder().rglob("*.yaml") if not path.name.startswith("_")}


@cache
def merged(path: Path) -> dict[str, Any]:
    """Return a YAML file with its includes, without `!function` tags; it is read-only."""
    text = path.read_text(encoding="utf-8").replace("!function ", "")
    content = yaml.safe_load(text)
    include = content.pop("include", None)
    return {**(merged(path.parent / include) if include else {}), **content}


def load_tasks() -> list[str]:
    """Return the harness tasks with fixed prompts that need no stored run, of every benchmark."""
    contents = {name: merged(path) for name, path in files().items()}
    return sorted(
        name
        for name, content in contents.items()
        if content.get("output_type") == "generate_until" and not name.startswith((*ON_RUNS, LIVE))
    )


def metrics_of(name: str) -> tuple[Metric, ...]:
    options = merged(files()[name])["dataset_kwargs"]
    root = benchmark_folder(options["benchmark"], "sample", Path()).resolve()
    return suite_named(options.get("suite", open_benchmark(options["benchmark"], root).suite)).metrics


@pytest.fixture(scope="module")
def load_task(load_task: Callable[..., ConversationTask]) -> Callable[..., ConversationTask]:
    """Load each harness task once, because no test here changes a task."""
    return cache(load_task)


@pytest.fixture(scope="module")
def oracle_results(evaluate: Callable[..., dict[str, Any]]) -> dict[str, Any]:
    return evaluate("ragtasks-oracle", "mtrag", "mtrag_un_reference", limit=1)


def test_every_file_is_a_task_or_group_of_the_same_name() -> None:
    paths = files()
    assert paths.keys() >= {*TASKS, *GROUPS}
    for name, path in paths.items():
        content = merged(path)
        assert content["group" if "group" in content else "task"] == name


def test_include_path_finds_every_task() -> None:
    manager = TaskManager(include_path=task_folder(), include_defaults=False)
    groups = {name for name, path in files().items() if "group" in merged(path)}
    assert set(manager.all_groups) == groups
    assert set(manager.all_subtasks) == files().keys() - groups


@pytest.mark.parametrize("name", load_tasks())
def test_a_task_takes_its_metrics_from_its_suite(name: str, load_task: Callable[..., ConversationTask]) -> None:
    assert "metric_list" not in merged(files()[name])
    listed = {entry["metric"]: entry["higher_is_better"] for entry in load_task(name).config.metric_list}
    assert listed == {metric.name: metric.higher_is_better for metric in metrics_of(name) if not metric.needs_judges}


@pytest.mark.parametrize("path", sorted(task_folder().rglob("*yaml")), ids=lambda path: path.name)
def test_yamls_name_no_metric(path: Path) -> None:
    lists = [line for line in path.read_text(encoding="utf-8").splitlines() if "metric_list:" in line]
    assert all(re.search(r"!function (ragtasks\.harness\.group_metrics|task)\.\w+$", line) for line in lists)


def test_a_metric_list_in_a_users_yaml_must_equal_the_suites(
    tmp_path: Path, load_task: Callable[..., ConversationTask]
) -> None:
    listed = [{"metric": metric.name} for metric in suite_named("mtrag").metrics]
    content = f"include: {task_folder() / 'mtrag/mtrag_reference_govt.yaml'}\ntask: own\nmetric_list: "

    def load(metrics: list[dict[str, str]]) -> ConversationTask:
        (tmp_path / "own.yaml").write_text(content + json.dumps(metrics), encoding="utf-8")
        manager = TaskManager(include_path=tmp_path, include_defaults=False, metadata=SAMPLE)
        task = manager.load(["own"])["tasks"]["own"]
        assert isinstance(task, ConversationTask)
        return task

    assert load(listed).config.metric_list == load_task("mtrag_reference_govt").config.metric_list
    with raises(ConfigurationError):
        load([*listed[2:], {"metric": "rouge_m"}])


@pytest.mark.parametrize("name", load_tasks())
def test_every_prompt_contains_every_passage(name: str, load_task: Callable[..., ConversationTask]) -> None:
    task = load_task(name)
    docs = list(task.dataset["test"])
    for doc in (docs[0], max(docs, key=lambda doc: len(json.dumps(doc)))):
        messages = task.fewshot_context(doc, apply_chat_template=True, chat_template=lambda chat: chat)
        assert messages[-1]["role"] == "user"
        assert all(passage["text"].strip() in messages[0]["content"] for passage in doc["passages"])
        assert all(passage["text"].strip() in task.fewshot_context(doc) for passage in doc["passages"])


@pytest.mark.parametrize("name", GROUPS)
def test_a_group_has_existing_tasks_and_declared_metrics(name: str) -> None:
    group = merged(files()[name])
    children = [f"mtrag_{s}" for s in SETTINGS] if name == "mtrag" else [f"{name}_{domain}" for domain in DOMAINS]
    assert sorted(group["task"]) == sorted(children)
    loaded = TaskManager(include_path=task_folder(), include_defaults=False, metadata=SAMPLE).load([name])["groups"]
    averaged = [entry.metric for entry in loaded[name].aggregate_metric_list or ()]
    assert averaged == [metric.name for metric in suite_named("mtrag").metrics if metric.in_groups] * (name != "mtrag")


def test_a_group_has_the_version_of_its_newest_task() -> None:
    def version(name: str) -> float:
        content = merged(files()[name])
        return float(content["metadata"]["version"])

    groups = {name: merged(path)["task"] for name, path in files().items() if "group" in merged(path)}
    assert len(groups) > 10
    for name, tasks in groups.items():
        assert version(name) == max(map(version, tasks)), name


def test_group_metrics_belong_to_an_existing_suite() -> None:
    assert [metric["metric"] for metric in group_metrics.rewriting][:2] == ["ndcg_5", "recall_5"]
    with raises(AttributeError):
        assert group_metrics.rewritin


@pytest.mark.parametrize("name", TASKS)
def test_a_task_loads_the_docs_of_its_setting_and_domain(name: str, load_task: Callable[..., ConversationTask]) -> None:
    docs = list(load_task(name).dataset["test"])
    group, domain = name.rsplit("_", 1)
    benchmark, setting = SETTING_GROUPS[group]
    assert {(doc["setting"], doc["domain"], doc["benchmark"], doc["is_sample"]) for doc in docs} == {
        (setting, domain, benchmark, True)
    }
    few = setting == "reference_rag"
    expected = [
        task.task_id
        for task in open_benchmark(benchmark, benchmark_folder(benchmark, "sample", Path()).resolve()).tasks
        if task.domain == domain
        and task.answerability.value != "CONVERSATIONAL"
        and (not few or len(task.references) <= 2)
    ]
    assert [doc["task_id"] for doc in docs] == expected


@pytest.mark.parametrize("name", TASKS)
def test_a_task_renders_its_first_and_its_longest_doc(name: str, load_task: Callable[..., ConversationTask]) -> None:
    task = load_task(name)
    docs = list(task.dataset["test"])
    for doc in (docs[0], max(docs, key=lambda doc: len(json.dumps(doc)))):
        plain = task.fewshot_context(doc)
        messages = task.fewshot_context(doc, apply_chat_template=True, chat_template=lambda chat: chat)
        assert plain.endswith(f"User: {doc['question']}\nAssistant:")
        assert messages[1:] == [*doc["history"], {"role": "user", "content": doc["question"]}]
        for number, passage in enumerate(doc["passages"], start=1):
            block = f"Passage {number}:\n{passage['text']}".strip()
            assert block in plain
            assert block in messages[0]["content"]


@pytest.mark.parametrize("name", TASKS)
def test_a_task_returns_exactly_the_metrics_that_need_no_judge(name: str, oracle_results: dict[str, Any]) -> None:
    # Judges run only if the metadata names some; here it does not.
    expected = {
        metric.name: metric.higher_is_better for metric in suite_named("mtrag").metrics if not metric.needs_judges
    }
    row = oracle_results["results"][name]
    returned = {key.split(",")[0] for key in row if "," in key and "_stderr" not in key}
    assert returned == set(expected)
    assert oracle_results["samples"][name][0]["metrics"] == list(expected)
    assert oracle_results["higher_is_better"][name] == expected


@pytest.mark.parametrize("name", load_tasks())
def test_a_yaml_names_its_templates_and_doc_to_text_renders_them(
    name: str, load_task: Callable[..., ConversationTask]
) -> None:
    content, task = merged(files()[name]), load_task(name)
    doc = task.dataset["test"][0]
    assert task.doc_to_text(doc) == task.fewshot_context(doc)
    prompts = task.config.metadata["ragtasks"]["prompts"]
    named = {
        key: [content[key]] if isinstance(content[key], str) else content[key]
        for key in content.keys() & set(YAML_KEYS)
    }
    assert prompts["system"].partition(" (")[0] == " + ".join(named["prompt"])
    assert prompts["plain"].partition(" (")[0] == content["plain_prompt"]
    readme = (files()[name].parent / "README.md").read_text(encoding="utf-8")
    for template in (template_name for names in named.values() for template_name in names):
        assert f"`{template}`" in readme


def own_yaml(folder: Path, content: str) -> Callable[..., ConversationTask]:
    """Return a loader for a custom task that includes one of MTRAG's, with the stock harness's own manager."""
    included = f"include: {task_folder() / 'mtrag/mtrag_reference_govt.yaml'}\ntask: own\n"
    (folder / "own.yaml").write_text(included + content, encoding="utf-8")

    def load(**metadata: Any) -> ConversationTask:
        manager = TaskManager(include_path=folder, include_defaults=False, metadata={**SAMPLE, **metadata})
        task = manager.load(["own"])["tasks"]["own"]
        assert isinstance(task, ConversationTask)
        return task

    return load


def test_repeats_above_one_are_rejected(tmp_path: Path) -> None:
    assert own_yaml(tmp_path, "repeats: 1\n")().config.repeats == 1
    with pytest.raises(ConfigurationError) as caught:
        own_yaml(tmp_path, "repeats: 3\n")()
    text = str(caught.value)
    assert "repeats of task own" in text
    assert "found: 3" in text
    assert "remove `repeats` from the YAML" in text


def test_a_users_yaml_names_a_template_file_that_changes_the_cache_key(tmp_path: Path) -> None:
    (tmp_path / "mine.jinja").write_text("Mine, {{ max_words }} words: {{ passages|length }}", encoding="utf-8")
    (tmp_path / "plain.jinja").write_text("{{ system }} Q: {{ question }} A:", encoding="utf-8")
    load = own_yaml(tmp_path, "prompt: mine.jinja\nplain_prompt: plain.jinja\n")
    task = load()
    doc = task.dataset["test"][0]
    assert task.messages(doc)[0]["content"] == f"Mine, 150 words: {len(doc['passages'])}"
    assert task.doc_to_text(doc) == f"Mine, 150 words: {len(doc['passages'])} Q: {doc['question']} A:"
    before = task.fingerprint()
    assert load().fingerprint() == before
    (tmp_path / "mine.jinja").write_text("Mine: {{ passages|length }}", encoding="utf-8")
    assert load().fingerprint() != before


def test_metadata_overrides_the_yaml_and_closed_book_has_its_own_template(tmp_path: Path) -> None:
    for name in ("yaml", "closed", "given"):
        (tmp_path / f"{name}.jinja").write_text(f"{name} {{{{ passages|length }}}}", encoding="utf-8")
    options = {"system_prompt": str(tmp_path / "given.jinja")}

    def first_word(load: Callable[..., ConversationTask], **metadata: Any) -> str:
        task = load(**metadata)
        return task.messages(task.dataset["test"][0])[0]["content"].split()[0]

    load = own_yaml(tmp_path, "prompt: yaml.jinja\nclosed_book_prompt: closed.jinja\n")
    assert first_word(load) == "yaml"
    assert first_word(load, run="closed_book") == "closed"
    assert first_word(load, **options) == first_word(load, run="closed_book", **options) == "given"
    load = own_yaml(
        tmp_path, f"prompt: yaml.jinja\nmetadata: {{version: 1.0, system_prompt: {tmp_path}/closed.jinja}}\n"
    )
    assert first_word(load) == "closed"
    assert first_word(load, **options) == "given"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("prompt: generation/sytem\n", "the name of a shipped template"),
        ("prompt: 3\n", "the name of a shipped template"),
        ("prompt: []\n", "the name of a shipped template"),
        ("prompt: [generation/system, 3]\n", "the name of a shipped template"),
        ("plain_prompt: nowhere.jinja\n", "nowhere.jinja"),
        ("dataset_kwargs: {benchmark: mtrag, setting: reference, prompt: generation/system}\n", "move these lines out"),
    ],
)
def test_a_yaml_with_an_invalid_template_is_rejected_with_its_path(tmp_path: Path, content: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message) as caught:
        own_yaml(tmp_path, content)()
    assert str(tmp_path) in str(caught.value)


def test_prompts_equal_the_snapshots(load_task: Callable[..., ConversationTask]) -> None:
    """A change here changes every score: raise `metadata.version`, add it to the changelog, and renew the files."""
    task = load_task(SNAPSHOT_TASK)
    doc = task.dataset["test"][1]
    messages = task.fewshot_context(doc, apply_chat_template=True, chat_template=lambda chat: chat)
    recorded = json.loads((SNAPSHOTS / f"{SNAPSHOT_TASK}_chat.json").read_text(encoding="utf-8"))
    assert messages == recorded
    assert task.fewshot_context(doc) == (SNAPSHOTS / f"{SNAPSHOT_TASK}_plain.txt").read_text(encoding="utf-8")


ASKS_BACK = "ask the user what is meant"
ASKING = [
    name for name, path in files().items() if path.parent.name in {"mtrag_un", "inscit"} and "task" in merged(path)
    and "group" not in merged(path)
]  # fmt: skip


@pytest.mark.parametrize("name", [*ASKING, "mtrag_reference_govt", "mtrag_agentic_govt"])
def test_only_benchmarks_with_underspecified_questions_request_clarification(name: str) -> None:
    content = merged(files()[name])
    for key in ("prompt", "closed_book_prompt"):
        assert ("generation/clarification" in content[key]) is (name in ASKING)


@pytest.mark.parametrize(
    ("name", "metadata", "then"),
    [
        ("mtrag_un_reference_govt", {}, "Answer the user's last message from the numbered passages"),
        ("mtrag_un_reference_govt", {"run": "closed_book"}, "Answer the user's last message from what you know"),
        ("mtrag_un_agentic_govt", {}, "Answer the user's last message. You can search"),
        ("inscit_reference", {}, "Answer the user's last message from the numbered passages"),
        ("mtrag_reference_govt", {}, ""),
    ],
)
def test_the_logged_prompt_allows_clarification_questions(
    name: str, metadata: dict[str, str], then: str, evaluate: Callable[..., dict[str, Any]]
) -> None:
    results = evaluate("ragtasks-refuse", name, metadata=metadata, limit=1, log_samples=True)
    (sample,) = results["samples"][name]
    logged = sample["arguments"][0][0]
    first, _, remainder = logged.partition("\n\n")
    if not then:
        assert ASKS_BACK not in logged
        return
    assert ASKS_BACK in first
    assert first.count(".") == 1, "one sentence"
    assert remainder.startswith(then)


def test_a_list_of_templates_is_joined_and_a_users_template_replaces_it(tmp_path: Path) -> None:
    (tmp_path / "first.jinja").write_text("First, {{ max_words }}.", encoding="utf-8")
    load = own_yaml(tmp_path, "prompt: [first.jinja, generation/system]\n")
    task = load()
    doc = task.dataset["test"][0]
    first, remainder = task.messages(doc)[0]["content"].split("\n", 1)
    assert (first, remainder) == ("First, 150.", own_yaml(tmp_path, "")().messages(doc)[0]["content"])
    before = task.fingerprint()
    (tmp_path / "first.jinja").write_text("Other.", encoding="utf-8")
    assert load().fingerprint() != before
    replaced = load(system_prompt=str(tmp_path / "first.jinja"))
    assert replaced.messages(doc)[0]["content"] == "Other."
