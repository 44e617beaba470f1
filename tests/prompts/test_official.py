"""`system_prompt: official`: the wording comes from the user's checkout, and any other file is refused.

The checkouts here contain wording of our own. Tests of the real wording skip without official checkouts.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from lm_eval.tasks import TaskManager

from perf.official_agreement import MULTIHOP_SAMPLE, RAGNAROK_MODES, multihop_agreement, ragnarok_agreement
from ragtasks.config import EvaluationConfig, config_from_options
from ragtasks.errors import ConfigurationError
from ragtasks.harness.conversation_task import ConversationTask
from ragtasks.harness.prompts import TaskPrompts
from ragtasks.harness.tasks import task_folder
from ragtasks.prompts import _official, official_prompt
from tests._messages import raises
from tests.conftest import REAL_DATA
from tests.synthesis._documents import pdf

SAMPLES = Path(_official.__file__).parents[1] / "benchmarks" / "sample"
INSTRUCTION = 'Stand-in: answer, or reply "no {{ x }}" , briefly.'
PAPER = [
    "We accommodate the pos-",
    "sibility of underspecified questions:",
    "Stand-in: answer briefly,",
    'or say "nothing".',
    "In the reference task we send passages.",
]
PAPER_TEXT = 'Stand-in: answer briefly, or say "nothing".'
SYSTEM = "Stand-in: a helpful assistant."
SOURCES = {
    "multihop_rag": f"prefix = {INSTRUCTION!r}\n".encode(),
    "mtrag_un": pdf(*PAPER),
    "trec_rag24": json.dumps({"system_message": SYSTEM, "instruction": INSTRUCTION}).encode(),
}
TEXTS = {"multihop_rag": INSTRUCTION, "mtrag_un": PAPER_TEXT, "trec_rag24": f"{SYSTEM}\n{INSTRUCTION}"}
TASKS = {"multihop_rag": "multihop_rag_gold", "mtrag_un": "mtrag_un_reference_govt", "trec_rag24": "trec_rag24"}
CHAT = {"apply_chat_template": True, "chat_template": lambda messages: messages}


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Return a function that adds a file with our wording to a copy of a sample, and makes it the official one."""

    def make(name: str) -> Path:
        root = tmp_path / name
        shutil.copytree(SAMPLES / name, root)
        if name == "mtrag_un":
            shutil.copytree(SAMPLES / "mtrag", tmp_path / "mtrag")
        wording = _official._SOURCES[name]
        (root / wording.file).parent.mkdir(parents=True, exist_ok=True)
        (root / wording.file).write_bytes(SOURCES[name])
        sha256 = hashlib.sha256(TEXTS[name].encode()).hexdigest()
        monkeypatch.setitem(_official._SOURCES, name, replace(wording, sha256=sha256))
        return root

    return make


def load(task: str, **metadata: Any) -> ConversationTask:
    metadata = {"encoder": "none", **metadata}
    manager = TaskManager(include_path=task_folder(), include_defaults=False, metadata=metadata)
    loaded = manager.load([task])["tasks"][task]
    assert isinstance(loaded, ConversationTask)
    return loaded


def test_the_official_instruction_precedes_the_passages_and_the_conversation(checkout: Callable[[str], Path]) -> None:
    root = checkout("mtrag_un")
    task = load("mtrag_un_reference_govt", data=str(root), system_prompt="official")
    doc = next(doc for doc in task.dataset["test"] if doc["history"] and doc["passages"])
    system, *turns = task.fewshot_context(doc, **CHAT)
    blocks = [f"PASSAGE {n}\n{passage['text']}" for n, passage in enumerate(doc["passages"], start=1)]
    assert system == {"role": "system", "content": "\n\n".join([PAPER_TEXT, *blocks]).strip()}
    assert turns == [*doc["history"], {"role": "user", "content": doc["question"]}]


def test_an_official_prompt_with_the_question_is_one_user_message(checkout: Callable[[str], Path]) -> None:
    root = checkout("multihop_rag")
    task = load("multihop_rag_gold", data=str(root), system_prompt="official")
    doc = next(doc for doc in task.dataset["test"] if len(doc["passages"]) > 1)
    context = "--------------".join(passage["text"] for passage in doc["passages"])
    content = f"{INSTRUCTION}\n\nQuestion:{doc['question']}\n\nContext:\n\n{context}"
    assert task.fewshot_context(doc, **CHAT) == [{"role": "user", "content": content}]
    assert task.fewshot_context(doc) == f"User: {content}\nAssistant:"
    instructed = task.fewshot_context(doc, system_instruction="Be kind.", **CHAT)
    assert instructed == [{"role": "system", "content": "Be kind."}, {"role": "user", "content": content}]
    folded = load("multihop_rag_gold", data=str(root), system_prompt="official", system_role="user")
    assert folded.fewshot_context(doc, **CHAT) == [{"role": "user", "content": content}]


def test_a_prompt_with_a_system_message_numbers_documents_and_keeps_their_citations_apart(
    checkout: Callable[[str], Path],
) -> None:
    root = checkout("trec_rag24")
    task = load("trec_rag24", data=str(root), system_prompt="official")
    doc = dict(task.dataset["test"][0])
    doc["passages"] = [{"title": "A", "text": "One [1].\n Two [b]."}, {"title": "", "text": "Three."}]
    documents = "[1] Title: A Content: One (1). Two [b].\n\n[2] Three."
    parts = [f"Documents: {documents}", f"Query: {doc['question']}", f"Instruction: {INSTRUCTION}", "Answer:"]
    content = "\n\n".join([f"Instruction: {INSTRUCTION}", *parts])
    messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": content}]
    assert task.fewshot_context(doc, **CHAT) == messages
    instructed = task.fewshot_context(doc, system_instruction="Be kind.", **CHAT)
    assert instructed[0]["content"] == f"Be kind.\n\n{SYSTEM}"


@pytest.mark.parametrize(("name", "task"), TASKS.items())
def test_the_official_prompt_changes_results_and_cache_keys(
    checkout: Callable[[str], Path], name: str, task: str
) -> None:
    root = str(checkout(name))
    ours, official, judges_only = (
        load(task, data=root, **options) for options in ({}, {"system_prompt": "official"}, {"prompts": "official"})
    )
    recorded = official.config.metadata["ragtasks"]
    assert recorded["prompts"]["system"].startswith(f"official/{name} (")
    assert recorded["configuration"]["system_prompt"] == "official"
    assert ours.fingerprint() != official.fingerprint()
    assert ours.fingerprint() == judges_only.fingerprint(), "official prompts of judges change no prompt of a model"


def test_the_hash_in_results_covers_the_wording(
    checkout: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    root = checkout("multihop_rag")
    before = official_prompt("multihop_rag", root).template.sha256
    (root / "qa_llama.py").write_text("prefix = 'Other'", encoding="utf-8")
    wording = replace(_official._SOURCES["multihop_rag"], sha256=hashlib.sha256(b"Other").hexdigest())
    monkeypatch.setitem(_official._SOURCES, "multihop_rag", wording)
    assert official_prompt("multihop_rag", root).template.sha256 != before


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("multihop_rag", b"prefix = 'Another wording'"),
        ("multihop_rag", b"other = 1"),
        ("multihop_rag", b"def broken(:"),
        ("mtrag_un", pdf("Another paper")),
        ("mtrag_un", pdf(*PAPER[:2], "Another wording", *PAPER[4:])),
        ("mtrag_un", b"no PDF"),
        ("trec_rag24", b"instruction: only this"),
        ("trec_rag24", b"- instruction"),
        ("trec_rag24", b"a: [b"),
        ("trec_rag24", None),
        ("mtrag_un", None),
    ],
    ids=[
        "wording",
        "name",
        "syntax",
        "paper",
        "wording of the paper",
        "broken paper",
        "key",
        "list",
        "YAML",
        "no YAML",
        "no paper",
    ],
)
def test_a_changed_file_is_refused_without_messages_of_a_library(
    checkout: Callable[[str], Path], name: str, content: bytes | None, caplog: pytest.LogCaptureFixture
) -> None:
    root = checkout(name)
    path = root / _official._SOURCES[name].file
    path.unlink() if content is None else path.write_bytes(content)
    with raises(ConfigurationError):
        official_prompt(name, root)
    assert not caplog.records


HASH = "0123456789abcdef0123456789abcdef01234567"


@pytest.mark.parametrize("form", ["detached", "branch", "packed", "worktree"])
def test_an_error_names_the_commit_of_another_checkout(checkout: Callable[[str], Path], form: str) -> None:
    root = checkout("multihop_rag")
    (root / "qa_llama.py").write_text("prefix = 'Another wording'", encoding="utf-8")
    git = shared = root / ".git"
    if form == "worktree":  # its own `HEAD`, and the branches of the repository
        shared = root.parent / "repository"
        git = shared / "worktrees" / "mine"
        git.mkdir(parents=True)
        (git / "commondir").write_text("../..\n", encoding="utf-8")
        (root / ".git").write_text(f"gitdir: {git}\n", encoding="utf-8")
    (shared / "refs" / "heads").mkdir(parents=True)
    (git / "HEAD").write_text(HASH if form == "detached" else "ref: refs/heads/main\n", encoding="utf-8")
    if form in {"branch", "worktree"}:
        (shared / "refs" / "heads" / "main").write_text(f"{HASH}\n", encoding="utf-8")
    if form == "packed":
        (shared / "packed-refs").write_text(f"# pack-refs\n{HASH} refs/heads/main\n", encoding="utf-8")
    (shared / "config").write_text("[remote]\n\turl = https://github.com/yixuantt/MultiHop-RAG.git\n", encoding="utf-8")
    with pytest.raises(ConfigurationError, match="another text; the checkout is at commit 0123456") as caught:
        official_prompt("multihop_rag", root)
    assert "at commit 3dd4d4e" in str(caught.value)
    (git / "HEAD").write_text("3dd4d4e79fc9843008b8f832da99086a82f1a805", encoding="utf-8")
    with pytest.raises(ConfigurationError, match="another text\n"):
        official_prompt("multihop_rag", root)
    (git / "HEAD").write_text(HASH, encoding="utf-8")
    (shared / "config").write_text("[remote]\n\turl = https://github.com/mine/results.git\n", encoding="utf-8")
    with pytest.raises(ConfigurationError, match="another text\n"):
        official_prompt("multihop_rag", root)


@pytest.mark.parametrize(
    "name", ["mtrag", "inscit", "ikat23", "multidoc2dial", "custom", "agentic tasks", "rewriting tasks"]
)
def test_a_benchmark_without_an_official_prompt_is_an_error(name: str, tmp_path: Path) -> None:
    with raises(ConfigurationError):
        official_prompt(name, tmp_path)


def test_a_searching_model_has_no_official_prompt(checkout: Callable[[str], Path]) -> None:
    root = checkout("mtrag_un")
    with pytest.raises(ConfigurationError, match="official prompt of agentic tasks"):
        load("mtrag_un_agentic_govt", data=str(root), system_prompt="official")


def test_a_rewriting_model_has_no_official_prompt_of_answers() -> None:
    with pytest.raises(ConfigurationError, match=r"(?s)official prompt of rewriting tasks.*appendix C\.1"):
        load("mtrag_rewrite_govt", data="sample", system_prompt="official")


@pytest.mark.parametrize("options", [{"max_words": 50}, {"run": "closed_book"}])
def test_options_that_an_official_prompt_ignores_are_refused(options: dict[str, Any]) -> None:
    with raises(ConfigurationError):
        config_from_options({"system_prompt": "official", **options})


PAGE = Path(__file__).parents[2] / "docs" / "background" / "official.md"


def recipe() -> str:
    return PAGE.read_text(encoding="utf-8").partition("```jinja\n")[2].partition("```")[0]


def test_a_users_file_with_the_papers_wording_needs_the_passages_only(tmp_path: Path) -> None:
    """The recipe of docs/background/official.md."""
    (tmp_path / "paper.jinja").write_text(recipe(), encoding="utf-8")
    doc = {"passages": [{"text": "One."}, {"text": "Two."}], "history": [], "question": "Q?"}
    prompts = TaskPrompts(EvaluationConfig(system_prompt=str(tmp_path / "paper.jinja")), {})
    text = prompts.system_text(doc, None)
    assert text.partition("\n\n")[2] == "PASSAGE 1\nOne.\n\nPASSAGE 2\nTwo."


def test_the_page_names_the_hash_of_the_papers_wording(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    papers = sorted((REAL_DATA.parent / "papers").glob("000_*.txt"))
    if not papers:
        pytest.skip(f"no papers next to {REAL_DATA}")
    paper = papers[0].read_text(encoding="utf-8")
    wording = paper.partition("without need for truncation:")[2].partition("PASSAGE 1")[0]
    monkeypatch.chdir(tmp_path)
    Path("mtrag.jinja").write_text(recipe().replace("(the text)", " ".join(wording.split())), encoding="utf-8")
    label = TaskPrompts(EvaluationConfig(system_prompt="mtrag.jinja"), {}).provenance()["system"]
    assert f"`{label}`" in PAGE.read_text(encoding="utf-8")


def test_multihop_rags_prompts_equal_those_of_its_script_byte_by_byte(multihop_checkout: Path) -> None:
    equal, n_prompts = multihop_agreement(multihop_checkout, MULTIHOP_SAMPLE)
    assert equal == n_prompts > 0


@pytest.mark.parametrize("name", RAGNAROK_MODES)
def test_trec_rags_prompts_equal_those_of_ragnarok_byte_by_byte(ragnarok_checkout: Path, name: str) -> None:
    equal, n_prompts = ragnarok_agreement(ragnarok_checkout, name)
    assert equal == n_prompts > 0


def test_mtrag_uns_wording_is_read_from_the_official_paper(mtrag_checkout: Path) -> None:
    template = official_prompt("mtrag_un", mtrag_checkout).template
    first, _, remainder = template.render(passages=[{"text": "One."}]).partition("\n\n")
    assert len(first.split()) > 50
    assert remainder.strip() == "PASSAGE 1\nOne."
