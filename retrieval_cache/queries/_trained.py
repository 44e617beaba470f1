"""A query rewriter that `ragtasks train rewriter` made: a small model in a folder, asked in this process.

It reads the question and the conversation, latest message first, so that what is cut off is the oldest. A conditional
one says first whether the question needs rewriting: after `no_rewrite` nothing more is generated, and the question is
the query (OR-CONVQA paper, section 4.7). The folder's recipe says how a model is asked.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import orjson

from ragtasks.benchmarks import CONDITIONAL_CONTRACT, NO_REWRITE, QuestionClass, read_reply
from ragtasks.clients import Outcome, Progress, no_progress
from ragtasks.errors import ConfigurationError, MissingExtraError, clear_error
from ragtasks.files import NO_CODE, loading
from ragtasks.metrics import check_device, whole_weights
from ragtasks.records import Role, Task
from retrieval_cache.queries._forms import LLM_REWRITE
from retrieval_cache.queries._rewriting import Rewrite, Rewrites

RECIPE = "ragtasks_rewriter.json"
"""File beside a trained rewriter's weights that says how it is asked."""
REWRITE = "rewrite:"
"""The word before a rewritten question; with `no_rewrite` the vocabulary's own token."""

_DECISIVE = {".json", ".safetensors", ".model", ".txt"}
_SPEAKERS = {Role.USER: "user", Role.ASSISTANT: "system"}


@dataclass(frozen=True, slots=True)
class Recipe:
    """How a trained rewriter is asked."""

    kind: Literal["seq2seq", "causal"]
    """Class of model: T5 and its like, or GPT-2, Mamba and theirs."""
    is_conditional: bool
    """Whether a reply begins with `rewrite:` or `no_rewrite`."""
    max_source_tokens: int
    """Tokens that are read of question and conversation."""
    max_new_tokens: int
    """Longest query."""


def write_recipe(folder: Path, recipe: Recipe) -> None:
    """Write a recipe beside the weights."""
    (folder / RECIPE).write_bytes(orjson.dumps(asdict(recipe), option=orjson.OPT_INDENT_2) + b"\n")


def source_text(task: Task) -> str:
    """Return what a rewriter reads of a task: the question, then the conversation backwards."""
    history = [f"{_SPEAKERS[message.role]}: {message.text}" for message in reversed(task.messages[:-1])]
    return " ".join(" ".join([f"question: {task.question}", *history]).split())


def encoded(tokenizer: Any, recipe: Recipe, text: str) -> list[int]:
    """Return the tokens of a source, cut at its end; a causal model is then told that the query follows."""
    ending = [] if recipe.kind == "seq2seq" else list(tokenizer(" query:", add_special_tokens=False)["input_ids"])
    most = recipe.max_source_tokens - len(ending)
    special = recipe.kind == "seq2seq"
    ids = tokenizer(text, truncation=True, max_length=most, add_special_tokens=special, verbose=False)["input_ids"]
    return [*ids, *ending]


class TrainedRewriter:
    """A rewriter in a folder; its weights are read when they are needed."""

    def __init__(self, folder: Path, *, batch_size: int = 16, device: str | None = None) -> None:
        """Name the folder."""
        self.folder = folder
        self.recipe = _read_recipe(folder)
        self._batch_size, self._device = batch_size, device

    def describe(self) -> dict[str, Any]:
        """Return what decides the queries, as JSON values: weights and recipe, not the place."""
        files = sorted(path for path in self.folder.iterdir() if path.suffix in _DECISIVE)
        digest = hashlib.sha256()
        for path in files:
            digest.update(f"{path.name} {hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
        return {"form": LLM_REWRITE, "client": {"model": self.folder.name, "sha256": digest.hexdigest()}}

    def rewrite(self, tasks: Sequence[Task], progress: Progress = no_progress) -> Rewrites:
        """Return a query for every task; a first turn stands as it is, and so does one whose reply is no query."""
        asked = [task for task in tasks if len(task.messages) > 1]
        replies: list[str] = []
        for start in range(0, len(asked), self._batch_size):
            replies += self.generate([source_text(task) for task in asked[start : start + self._batch_size]])
            progress("rewrite questions", len(replies), len(asked))
        found = {task.task_id: self._read(task, reply) for task, reply in zip(asked, replies, strict=True)}
        first = (Rewrite(task.task_id, task.question, QuestionClass.STANDALONE) for task in tasks)
        rewrites = tuple(found.get(rewrite.task_id, rewrite) for rewrite in first)
        return Rewrites(rewrites, self.describe())

    def _read(self, task: Task, reply: str) -> Rewrite:
        if self.recipe.is_conditional:
            reading = read_reply(CONDITIONAL_CONTRACT, reply, task.question)
            return Rewrite(task.task_id, reading.query, reading.question_class, reading.problem, Outcome.ANSWERED)
        text = " ".join(reply.split())
        if not text:
            return Rewrite(task.task_id, task.question, None, "an empty reply", Outcome.EMPTY)
        label = QuestionClass.STANDALONE if text == task.question else QuestionClass.NON_STANDALONE
        return Rewrite(task.task_id, text, label, outcome=Outcome.ANSWERED)

    def generate(self, sources: Sequence[str]) -> list[str]:
        """Return the model's replies to sources, greedily, in order; no sources give none."""
        if not sources:
            return []
        import torch

        tokenizer, model = self._loaded
        rows = [{"input_ids": encoded(tokenizer, self.recipe, text)} for text in sources]
        batch = tokenizer.pad(rows, return_tensors="pt").to(model.device)
        # `no_rewrite` ends a reply: what follows it is never read.
        ends = [
            tokenizer.eos_token_id,
            *([tokenizer.convert_tokens_to_ids(NO_REWRITE)] if self.recipe.is_conditional else []),
        ]
        with torch.no_grad():
            made = model.generate(
                input_ids=batch["input_ids"],
                attention_mask=batch["attention_mask"],
                max_new_tokens=self.recipe.max_new_tokens,
                do_sample=False,
                num_beams=1,
                eos_token_id=ends,
                pad_token_id=tokenizer.pad_token_id,
            )
        new = made if self.recipe.kind == "seq2seq" else made[:, batch["input_ids"].shape[1] :]
        texts: list[str] = tokenizer.batch_decode(new, skip_special_tokens=True)
        return texts

    @cached_property
    def _loaded(self) -> tuple[Any, Any]:
        check_device(self._device, purpose="a trained rewriter", option="device")
        tokenizer, model = load_language_model(str(self.folder), self.recipe.kind)
        tokenizer.padding_side = "right" if self.recipe.kind == "seq2seq" else "left"
        device = self._device or best_device()
        return tokenizer, model.to(device).eval()


def load_language_model(name: str, kind: str) -> tuple[Any, Any]:
    """Return tokeniser and model of a folder or a name on the Hugging Face hub."""
    try:
        import transformers
    except ImportError as error:
        raise MissingExtraError("transformers", "train", "a trained rewriter") from error
    loader = transformers.AutoModelForSeq2SeqLM if kind == "seq2seq" else transformers.AutoModelForCausalLM
    instead = "take a folder that `ragtasks train rewriter` wrote, or a language model"
    with loading("rewriter", name, expected=_EXPECTED, next_step=_NEXT_STEP), whole_weights("rewriter", name, instead):
        tokenizer = transformers.AutoTokenizer.from_pretrained(name, **NO_CODE)
        return tokenizer, loader.from_pretrained(name, **NO_CODE)


def best_device() -> str:
    """Return `cuda` where there is a GPU, else `cpu`."""
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def _read_recipe(folder: Path) -> Recipe:
    try:
        return Recipe(**orjson.loads((folder / RECIPE).read_bytes()))
    except (OSError, ValueError, TypeError) as error:
        raise ConfigurationError(_no_model(str(folder), f"no {RECIPE} that can be read")) from error


_EXPECTED = "a folder that `ragtasks train rewriter` wrote, or a language model to train"
_NEXT_STEP = "check the name; without a network, name a folder"


def _no_model(where: str, found: str) -> str:
    return clear_error(
        "rewriter",
        where=where,
        expected=_EXPECTED,
        found=found,
        next_step=_NEXT_STEP,
    )
