"""Query forms: what of a conversation is sent to a retriever, as one text for each task.

A form that only selects turns is a function of the task, so it works for every benchmark and every task, those
without relevance judgements included: full RAG needs contexts for all of them. MTRAG's official files of last turns
and of all questions hold exactly these texts (tested), so only the rewritten form is read from files.
"""

from __future__ import annotations

import hashlib
import itertools
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Literal

import orjson

from ragtasks.benchmarks import (
    CONDITIONAL_CONTRACT,
    MOST_SEARCHES,
    NO_REWRITE,
    PARSER_VERSION,
    Benchmark,
    QuestionClass,
    parse_rewrite,
    parse_searches,
    read_reply,
    retrieval_side,
)
from ragtasks.clients import Client, Outcome, Price, Prompt, Reply, Spending, joined_spending, spent_on
from ragtasks.errors import ConfigurationError, JudgeError, close_matches
from ragtasks.files import NO_CODE, loading
from ragtasks.metrics import check_device, whole_weights
from ragtasks.progress import Progress, no_progress
from ragtasks.prompts import PromptTemplate, shipped_template
from ragtasks.records import Role, Task
from ragtasks.requirements import importing

_REWRITE = "rewrite"
"""The form that a benchmark publishes as texts of its own."""

LLM_REWRITE = "llm_rewrite"
"""The form that `retrieval_cache.queries` makes with a model."""

DECOMPOSE = "decompose"
"""The form that a model makes of a question by splitting it: one search for each fact that it takes."""

SEPARATOR = "/"
"""What stands between the names of query forms that are fused."""

_LAST_K = re.compile(r"last_([1-9][0-9]*)_turns")
_LAST_K_NAME = "last_<k>_turns"
_ALIASES = {"contextualized": "last_turn", "decontextualized": _REWRITE, "context": "last_2_turns"}


@dataclass(frozen=True)
class Queries:
    """One text for each task, and where a text is not what the form asks for."""

    form: str
    texts: Mapping[str, str]
    """Task id -> query, in the order of the tasks; never blank where the question is not. A part may lack some."""
    fallbacks: Mapping[str, str] = field(default_factory=dict)
    """Task id -> why its text is the last turn instead."""
    n_requests: int = 0
    """How many were to be rewritten; 0 for a form that only selects turns."""
    made_with: Mapping[str, Any] = field(default_factory=dict)
    """What the rewrites were made with, such as model and prompt; nothing where no model was asked."""
    spending: Spending = field(default_factory=dict)
    parts: tuple[Queries, ...] = ()
    """Forms that are searched for one by one and fused, each with texts of its own; none for a single form."""

    @property
    def searched(self) -> tuple[Queries, ...]:
        """The single forms: its parts, down to those without parts, or itself."""
        return tuple(single for part in self.parts for single in part.searched) or (self,)

    def describe(self) -> dict[str, Any]:
        """Return what the run's key says about the form; the texts go into the key on their own."""
        fusion = {"fusion": "reciprocal rank, k = 60", "of": [part.describe() for part in self.parts]}
        return {**self.made_with, "form": self.form, **(fusion if self.parts else {})}

    def content(self) -> Any:
        """Return the texts as JSON values: an object of them, or for several forms a list of such objects."""
        return [dict(part.texts) for part in self.searched] if self.parts else dict(self.texts)

    def counts(self) -> dict[str, Any]:
        """Return how many were to be rewritten, how many are the last turn instead, by reason, and what it took.

        The manifest of a run keeps it; {} for no rewrites.
        """
        n_requests = sum(part.n_requests for part in self.searched)
        fallbacks = Counter(reason for part in self.searched for reason in part.fallbacks.values())
        spending = joined_spending(part.spending for part in self.searched)
        counted = {"asked": n_requests, "fallbacks": dict(fallbacks), **({"spending": spending} if spending else {})}
        return counted if n_requests else {}


def needs_model(form: str) -> bool:
    """Return whether a query form, or one of several that are fused, is made by a model at an endpoint."""
    is_folder = form.startswith(f"{LLM_REWRITE}:")  # of a trained rewriter: its path holds the sign between forms
    return not is_folder and bool({LLM_REWRITE, DECOMPOSE} & set(form.split(SEPARATOR)))


def fused_queries(parts: Sequence[Queries]) -> Queries:
    """Return several forms of the same questions as one, `last_turn/rewrite`; one form stays as it is."""
    forms = [part.form for part in parts]
    meant = [_ALIASES.get(form, form) for form in forms]
    twice = sorted({form for form in meant if meant.count(form) > 1})
    if twice:
        raise ConfigurationError(f"query forms to fuse: {', '.join(twice)} more than once; name each once")
    return parts[0] if len(parts) == 1 else Queries(SEPARATOR.join(forms), parts[0].texts, parts=tuple(parts))


def last_turn(task: Task) -> str:
    """Return the question alone (paper, section 5)."""
    return task.question


def all_questions(task: Task) -> str:
    """Return the questions so far, one below the other, without the replies."""
    return _joined(message.text for message in task.messages if message.role is Role.USER)


def full_conversation(task: Task) -> str:
    """Return everything said so far, one message below the other."""
    return _joined(message.text for message in task.messages)


def last_k_turns(task: Task, k: int) -> str:
    """Return the last `k` turns (questions with their replies, the last one without); all where there are fewer."""
    if k < 1:
        raise ValueError(f"at least one turn is needed, asked for {k}")
    starts = [index for index, message in enumerate(task.messages) if message.role is Role.USER]
    begin = starts[-k] if k <= len(starts) else 0
    return _joined(message.text for message in task.messages[begin:])


def _joined(texts: Any) -> str:
    return "\n".join(texts)


FORMS: Mapping[str, Callable[[Task], str]] = {
    "last_turn": last_turn,
    "all_questions": all_questions,
    "full_conversation": full_conversation,
}
"""Name -> form, for the forms that are functions of a task; `last_<k>_turns` joins them for every k."""


def selecting_form(name: str) -> Callable[[Task], str] | None:
    """Return the form of that name if it is a function of a task, else None.

    The OR-CONVQA paper's names (section 4.2) mean ours: `context` for `last_2_turns` (the question behind the
    previous one and its answer), `contextualized` for `last_turn`, `decontextualized` for `rewrite`.
    """
    name = _ALIASES.get(name, name)
    match = _LAST_K.fullmatch(name)
    return partial(last_k_turns, k=int(match[1])) if match else FORMS.get(name)


def build_queries(benchmark: Benchmark, form: str, tasks: Sequence[Task] | None = None) -> Queries:
    """Return the queries of a benchmark's tasks in a form that needs no model."""
    chosen = benchmark.tasks if tasks is None else tasks
    if _ALIASES.get(form, form) == _REWRITE:
        return replace(_official_rewrites(benchmark, chosen), form=form)
    return select_queries(chosen, form)


def select_queries(tasks: Sequence[Task], form: str) -> Queries:
    """Return the queries of some tasks in a form that only selects turns."""
    select = selecting_form(form)
    if _ALIASES.get(form, form) == _REWRITE:
        raise ConfigurationError(
            f"query form {form!r}: a benchmark's own rewrites are of its own history; take {LLM_REWRITE!r} with a model"
        )
    if select is None:
        known = [*FORMS, _LAST_K_NAME, _REWRITE, LLM_REWRITE, DECOMPOSE, *_ALIASES]
        hint = f"{form!r} needs a model" if needs_model(form) else f"{form!r}: {close_matches(form, known)}"
        raise ConfigurationError(f"query form {hint}")
    return Queries(form, {task.task_id: select(task) for task in tasks})


def _official_rewrites(benchmark: Benchmark, tasks: Sequence[Task]) -> Queries:
    """Return the rewritten queries of the official files, by domain."""
    load = retrieval_side(benchmark.name).load_rewrites
    if load is None:
        raise ConfigurationError(
            f"{benchmark.name} publishes no rewritten queries; use {LLM_REWRITE!r} with a model, or 'last_turn'"
        )
    official: dict[str, str] = {}
    for domain in dict.fromkeys(task.domain for task in tasks):
        official |= load(benchmark.root, domain)
    fallbacks = {task.task_id: "not in the official file" for task in tasks if task.task_id not in official}
    texts = {task.task_id: official.get(task.task_id, task.question) for task in tasks}
    return Queries(_REWRITE, texts, fallbacks, len(tasks))


# Rewrites each question with a model, so that it can be searched for without its conversation.
# The contract is the paper's (MTRAG, appendix C.1): a JSON object with the class of the question and its reworded
# version. The wording of the prompt is ours. A first turn has no conversation to lean on, so nothing is asked for
# it; in the official files, too, every first turn stands unchanged. A reply that breaks the contract gives the last
# turn, and the reason is kept and counted.

MIN_REWRITTEN = 0.95
"""Share of the questions asked about below which there is no run: one of last turns would pass for one of rewrites."""

_MAX_REASONS = 3

_TEMPLATES = {LLM_REWRITE: "rewrite/conversation", DECOMPOSE: "rewrite/decompose"}
"""Form -> its shipped prompt."""
_KINDS = {LLM_REWRITE: "rewrite", DECOMPOSE: "decompose"}
"""Form -> what its prompts are called in a reply cache."""


@dataclass(frozen=True, slots=True)
class Rewrite:
    """The query of one task."""

    task_id: str
    query: str
    """The reworded question, or the last turn where there is a `fallback_reason`."""
    question_class: QuestionClass | None
    """None where no valid reply came."""
    fallback_reason: str = ""
    """Why the query is the last turn; empty where the reply was valid, or the task is a first turn."""
    outcome: Outcome | None = None
    """What became of the prompt; None for a first turn, which is not rewritten."""
    further: tuple[str, ...] = ()
    """What is searched for beside `query`, where the question was split."""


@dataclass(frozen=True)
class Rewrites:
    """The rewritten queries of many tasks and what they were made with."""

    rewrites: tuple[Rewrite, ...]
    spec: Mapping[str, Any]
    """Model, decoding, hash of the prompt, version of the parser."""
    spending: Spending = field(default_factory=dict)

    def describe(self) -> dict[str, Any]:
        """Return what the run's key says about the rewriting; the texts go into the key on their own."""
        return dict(self.spec)

    def queries(self) -> Queries:
        """Return the texts as a query form: where questions were split, one part for the first searches, and so on."""
        form = str(self.spec["form"])
        texts = {rewrite.task_id: rewrite.query for rewrite in self.rewrites}
        fallbacks = {rewrite.task_id: rewrite.fallback_reason for rewrite in self.rewrites if rewrite.fallback_reason}
        further = itertools.zip_longest(*(rewrite.further for rewrite in self.rewrites))
        names = list(texts)
        rest = [{name: text for name, text in zip(names, row, strict=True) if text is not None} for row in further]
        if not rest:
            return Queries(form, texts, fallbacks, self.n_requests, self.spec, spending=self.spending)
        parts = [Queries(f"{form} 1", texts, fallbacks, self.n_requests, spending=self.spending)]
        parts += [Queries(f"{form} {number}", part) for number, part in enumerate(rest, start=2)]
        return Queries(form, texts, made_with=self.spec, parts=tuple(parts))

    def fallback_counts(self) -> Counter[str]:
        """Return reason -> number of tasks that fell back to the last turn."""
        return Counter(rewrite.fallback_reason for rewrite in self.rewrites if rewrite.fallback_reason)

    @property
    def n_requests(self) -> int:
        """Tasks that a model was asked about: all but first turns."""
        return sum(rewrite.outcome is not None for rewrite in self.rewrites)

    @property
    def n_unanswered(self) -> int:
        """Tasks whose prompt got no reply: the next call asks them again before there can be a run."""
        return sum(rewrite.outcome in {Outcome.FAILED, Outcome.MALFORMED} for rewrite in self.rewrites)

    def require_share(self, least: float) -> None:
        """Return where enough of the questions that were asked about are rewritten: last turns are no rewrites."""
        counts = self.fallback_counts()
        n_rewritten = self.n_requests - counts.total()
        if n_rewritten >= least * self.n_requests:
            return
        reasons = "; ".join(f"{n}: {reason}" for reason, n in counts.most_common(_MAX_REASONS))
        raise JudgeError(
            "rewriter",
            where=str(self.spec["client"]["model"]),
            expected=f"at least {least:.0%} of the questions rewritten; nothing is stored",
            found=f"{n_rewritten} of {self.n_requests} ({reasons})",
            next_step="another model, or --min-rewritten; good replies are cached, the others are requested again",
        )


def rewrite_queries(
    tasks: Sequence[Task], client: Client, progress: Progress = no_progress, price: Price | None = None
) -> Rewrites:
    """Return a rewritten query for every task; no tasks give none.

    Give it a `CachedClient`, and a killed call goes on where it was.
    """
    later = [task for task in tasks if len(task.messages) > 1]
    found = _replied_queries(LLM_REWRITE, later, client, _rewrite, progress=progress, price=price)
    by_task = {rewrite.task_id: rewrite for rewrite in found.rewrites}
    return replace(found, rewrites=tuple(by_task.get(task.task_id) or _first_turn(task) for task in tasks))


def split_questions(tasks: Sequence[Task], client: Client, progress: Progress = no_progress) -> Rewrites:
    """Return the searches that each question takes, one a fact; first turns are split too.

    The lists of a question's searches are fused by reciprocal rank (k = 60, the first 100 of each). A reply that breaks
    the form leaves the question whole.
    """
    return _replied_queries(DECOMPOSE, tasks, client, _split, progress=progress)


def _replied_queries(
    form: str,
    tasks: Sequence[Task],
    client: Client,
    read: Callable[[Task, str], Rewrite],
    *,
    progress: Progress,
    price: Price | None = None,
) -> Rewrites:
    """Return what a model replies to the prompts of a form; `read` raises ValueError for a broken reply."""
    template = shipped_template(_TEMPLATES[form])
    prompts = [_prompt(form, task, template, read) for task in tasks]
    replies = client.answer(prompts, progress)
    spec = {
        "form": form,
        "client": dict(client.describe()),
        "prompt_sha256": template.sha256,
        "parser": PARSER_VERSION,
    }
    spent = spent_on(replies, price)
    rewrites = tuple(_read(task, reply, read) for task, reply in zip(tasks, replies, strict=True))
    return Rewrites(rewrites, spec, {f"rewriter {client.name}": spent} if spent else {})


def _prompt(form: str, task: Task, template: PromptTemplate, read: Callable[[Task, str], Rewrite]) -> Prompt:
    history = [{"role": message.role.value, "content": message.text} for message in task.messages[:-1]]
    text = template.render(history=history, question=task.question, most=MOST_SEARCHES)
    return Prompt.of(
        text, kind=_KINDS[form], is_readable=lambda reply: not _read_text(task, reply, read).fallback_reason
    )


def _read(task: Task, reply: Reply, read: Callable[[Task, str], Rewrite]) -> Rewrite:
    if reply.text is None:
        return Rewrite(task.task_id, task.question, None, reply.reason, reply.outcome)
    return replace(_read_text(task, reply.text, read), outcome=reply.outcome)


def _read_text(task: Task, text: str, read: Callable[[Task, str], Rewrite]) -> Rewrite:
    """Return what a reply says, or the question as it is with what is wrong with the reply."""
    try:
        return read(task, text)
    except ValueError as error:
        return Rewrite(task.task_id, task.question, None, f"invalid reply: {error}")


def _rewrite(task: Task, text: str) -> Rewrite:
    question_class, query = parse_rewrite(text)
    return Rewrite(task.task_id, query, question_class)


def _split(task: Task, text: str) -> Rewrite:
    first, *further = parse_searches(text)
    return Rewrite(task.task_id, first, None, further=tuple(further))


def _first_turn(task: Task) -> Rewrite:
    return Rewrite(task.task_id, task.question, QuestionClass.STANDALONE)


# A trained query rewriter: a small model in a folder, which runs in this process.
# It reads the question and the conversation, latest message first, so that what is cut off is the oldest. A
# conditional one says first whether the question needs rewriting: after `no_rewrite` nothing more is generated, and
# the question is the query (OR-CONVQA paper, section 4.7). The folder's recipe says how a model is asked.

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
        later = [task for task in tasks if len(task.messages) > 1]
        replies: list[str] = []
        for start in range(0, len(later), self._batch_size):
            replies += self.generate([source_text(task) for task in later[start : start + self._batch_size]])
            progress("rewrite questions", len(replies), len(later))
        found = {task.task_id: self._read(task, reply) for task, reply in zip(later, replies, strict=True)}
        return Rewrites(tuple(found.get(task.task_id) or _first_turn(task) for task in tasks), self.describe())

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
    with importing("transformers", "train", "a trained rewriter"):
        import transformers
    loader = transformers.AutoModelForSeq2SeqLM if kind == "seq2seq" else transformers.AutoModelForCausalLM
    instead = "take a folder with a trained rewriter, or a language model"
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
        raise ConfigurationError(
            "rewriter",
            where=str(folder),
            expected=_EXPECTED,
            found=f"no {RECIPE} that can be read",
            next_step=_NEXT_STEP,
        ) from error


_EXPECTED = "a folder with a trained rewriter, or a language model to train"
_NEXT_STEP = "check the name; without a network, name a folder"
