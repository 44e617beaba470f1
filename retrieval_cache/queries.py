"""Query forms: the part of a conversation that is sent to a retriever, as one text per task.

A form that selects turns is a function of the task. It works for every benchmark and task, including tasks without
relevance judgements, because full RAG needs passages for all of them. MTRAG's official files of last turns and of all
questions contain exactly these texts (tested), so only the rewritten form is read from files.
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
    parse_rewrite,
    parse_searches,
    read_reply,
    retrieval_side,
)
from ragtasks.clients import Client, Outcome, Price, Prompt, Spending, joined_spending, spent_on
from ragtasks.errors import ConfigurationError, JudgeError, close_matches
from ragtasks.files import NO_CODE, file_hash, loading
from ragtasks.metrics import require_all_weights
from ragtasks.progress import Progress, no_progress
from ragtasks.prompts import shipped_template
from ragtasks.records import Role, Task
from ragtasks.requirements import importing

_REWRITE = "rewrite"
"""The form with the texts published by a benchmark."""

LLM_REWRITE = "llm_rewrite"
"""The form rewritten by a model."""

DECOMPOSE = "decompose"
"""The form split by a model: one search per fact required by the question."""

SEPARATOR = "/"
"""Separator of query forms whose rankings are fused."""

_LAST_K = re.compile(r"last_([1-9][0-9]*)_turns")
_LAST_K_NAME = "last_<k>_turns"
_ALIASES = {"contextualized": "last_turn", "decontextualized": _REWRITE, "context": "last_2_turns"}


@dataclass(frozen=True)
class Queries:
    """One text per task, and the tasks that fell back to the last turn."""

    form: str
    texts: Mapping[str, str]
    """Task id -> query, in the order of the tasks; blank only if the question is. A part may omit some tasks."""
    fallbacks: Mapping[str, str] = field(default_factory=dict)
    """Task id -> reason for the fallback to the last turn."""
    n_requests: int = 0
    """Number of questions to rewrite; 0 for a form that only selects turns."""
    n_unanswered: int = 0
    """Number of requests without a reply. The next call sends them again."""
    made_with: Mapping[str, Any] = field(default_factory=dict)
    """Model, decoding and prompt of the rewrites; empty if no model wrote them."""
    spending: Spending = field(default_factory=dict)
    parts: tuple[Queries, ...] = ()
    """Forms that are searched separately and fused; empty for a single form."""

    @property
    def searched(self) -> tuple[Queries, ...]:
        """The single forms: the parts, recursively, or this form itself."""
        return tuple(single for part in self.parts for single in part.searched) or (self,)

    def describe(self) -> dict[str, Any]:
        """Return the form as it enters the key of a run. The texts enter the key separately."""
        fusion = {"fusion": "reciprocal rank, k = 60", "of": [part.describe() for part in self.parts]}
        return {**self.made_with, "form": self.form, **(fusion if self.parts else {})}

    def content(self) -> Any:
        """Return the texts as JSON values: an object, or for several forms a list of objects."""
        return [dict(part.texts) for part in self.searched] if self.parts else dict(self.texts)

    def counts(self) -> dict[str, Any]:
        """Return the number of questions to rewrite, the fallbacks by reason, and the spending; {} without rewrites.

        These are part of the manifest of a run.
        """
        n_requests = sum(part.n_requests for part in self.searched)
        fallbacks = Counter(reason for part in self.searched for reason in part.fallbacks.values())
        spending = joined_spending(part.spending for part in self.searched)
        counted = {"asked": n_requests, "fallbacks": dict(fallbacks), **({"spending": spending} if spending else {})}
        return counted if n_requests else {}

    def require_share(self, least: float) -> None:
        """Raise JudgeError if too few questions are rewritten: a run of last turns would pass for a run of rewrites."""
        counts = self.counts()
        n_requests, fallbacks = counts.get("asked", 0), Counter[str](counts.get("fallbacks", {}))
        n_rewritten = n_requests - fallbacks.total()
        if n_rewritten < least * n_requests:
            reasons = "; ".join(f"{n}: {reason}" for reason, n in fallbacks.most_common(_MAX_REASONS))
            raise JudgeError(
                "rewriter",
                where=str(self.made_with["client"]["model"]),
                expected=f"at least {least:.0%} of the questions rewritten; nothing was stored",
                found=f"{n_rewritten} of {n_requests} ({reasons})",
                next_step="another model, or --min-rewritten; good replies are cached, the others are requested again",
            )


def needs_model(form: str) -> bool:
    """Return whether the form, or a fused part of it, requires a model at an endpoint."""
    is_folder = form.startswith(f"{LLM_REWRITE}:")  # the path of a trained rewriter contains the separator
    return not is_folder and not MODEL_FORMS.keys().isdisjoint(form.split(SEPARATOR))


def fused_queries(parts: Sequence[Queries]) -> Queries:
    """Return several forms of the same questions as a fused form, `last_turn/rewrite`, or the single form."""
    forms = [part.form for part in parts]
    meant = [_ALIASES.get(form, form) for form in forms]
    twice = sorted({form for form in meant if meant.count(form) > 1})
    if twice:
        raise ConfigurationError(f"query forms to fuse: {', '.join(twice)} more than once; name each once")
    return parts[0] if len(parts) == 1 else Queries(SEPARATOR.join(forms), parts[0].texts, parts=tuple(parts))


def all_questions(task: Task) -> str:
    """Return the questions so far on separate lines, without the replies."""
    return "\n".join(message.text for message in task.messages if message.role is Role.USER)


def full_conversation(task: Task) -> str:
    """Return all messages so far on separate lines."""
    return "\n".join(message.text for message in task.messages)


def last_k_turns(task: Task, k: int) -> str:
    """Return the last `k` turns, or all if fewer: questions with their replies, the last question without."""
    starts = [index for index, message in enumerate(task.messages) if message.role is Role.USER]
    begin = starts[-k] if k <= len(starts) else 0
    return "\n".join(message.text for message in task.messages[begin:])


FORMS: Mapping[str, Callable[[Task], str]] = {
    "last_turn": lambda task: task.question,
    "all_questions": all_questions,
    "full_conversation": full_conversation,
}
"""Name -> form, for the forms that are functions of a task; `last_<k>_turns` exists for every k."""


def selecting_form(name: str) -> Callable[[Task], str] | None:
    """Return the form with a name if it is a function of a task, else None.

    Names of the OR-CONVQA paper (section 4.2) are accepted: `context` for `last_2_turns` (the previous question and its
    answer, then the question), `contextualized` for `last_turn`, `decontextualized` for `rewrite`.
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
    """Return the queries of tasks in a form that only selects turns."""
    select = selecting_form(form)
    if _ALIASES.get(form, form) == _REWRITE:
        raise ConfigurationError(
            f"query form {form!r}: published rewrites belong to the benchmark's own history. Next step: "
            f"{LLM_REWRITE!r} with a model"
        )
    if select is None:
        known_forms = [*FORMS, _LAST_K_NAME, _REWRITE, LLM_REWRITE, DECOMPOSE, *_ALIASES]
        hint = f"{form!r} needs a model" if needs_model(form) else f"{form!r}: {close_matches(form, known_forms)}"
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


# Rewriting of questions by a model, so that they can be searched without their conversation. The format of replies is
# the paper's (MTRAG, appendix C.1): a JSON object with the class of the question and its rewrite. The prompt is our
# own. A first turn has no context, so no request is sent for it; in the official files too, every first turn is
# unchanged. An invalid reply falls back to the last turn, and its reason is stored and counted.

MIN_REWRITTEN = 0.95
"""Minimum share of rewritten questions for a run: below it, a run of last turns would pass for a run of rewrites."""

_MAX_REASONS = 3

MODEL_FORMS: Mapping[str, tuple[str, str, Callable[[str], Sequence[str]]]] = {
    LLM_REWRITE: ("rewrite", "rewrite/conversation", lambda text: parse_rewrite(text)[1:]),
    DECOMPOSE: ("decompose", "rewrite/decompose", parse_searches),
}
"""Form that requires a model -> type of its prompts in a reply cache, shipped prompt, parser of a reply.

A parser returns the searches. It raises ValueError for an invalid reply.
"""


def rewrite_queries(
    tasks: Sequence[Task],
    client: Client,
    progress: Progress = no_progress,
    price: Price | None = None,
    form: str = LLM_REWRITE,
) -> Queries:
    """Return a model's query for every task, or for `decompose` its searches, one per fact.

    `llm_rewrite` leaves first turns unchanged, without a request. The rankings of a question's searches are fused by
    reciprocal rank (k = 60, the first 100 of each). After an invalid reply, the question itself is searched. With a
    `CachedClient`, a killed call continues where it stopped.
    """
    tasks_to_send = [task for task in tasks if form == DECOMPOSE or len(task.messages) > 1]
    kind, template_name, read = MODEL_FORMS[form]
    template = shipped_template(template_name)
    prompts: list[Prompt] = []
    for task in tasks_to_send:
        history = [{"role": message.role.value, "content": message.text} for message in task.messages[:-1]]
        text = template.render(history=history, question=task.question, most=MOST_SEARCHES)
        prompts.append(Prompt.of(text, kind=kind, is_readable=lambda reply: bool(_searches(read, reply)[0])))
    replies = client.answer(prompts, progress)
    searches: dict[str, Sequence[str]] = {task.task_id: (task.question,) for task in tasks}
    fallbacks: dict[str, str] = {}
    for task, reply in zip(tasks_to_send, replies, strict=True):
        texts, problem = ((), reply.reason) if reply.text is None else _searches(read, reply.text)
        if texts:
            searches[task.task_id] = texts
        else:
            fallbacks[task.task_id] = problem
    spent = spent_on(replies, price)
    combined = Queries(
        form,
        {name: texts[0] for name, texts in searches.items()},
        fallbacks,
        n_requests=len(tasks_to_send),
        n_unanswered=sum(reply.outcome in {Outcome.FAILED, Outcome.MALFORMED} for reply in replies),
        made_with={
            "form": form,
            "client": dict(client.describe()),
            "prompt_sha256": template.sha256,
            "parser": PARSER_VERSION,
        },
        spending={f"rewriter {client.name}": spent} if spent else {},
    )
    further = itertools.zip_longest(*(texts[1:] for texts in searches.values()))
    further_searches = [
        {name: text for name, text in zip(searches, row, strict=True) if text is not None} for row in further
    ]
    if not further_searches:
        return combined
    parts = [replace(combined, form=f"{form} 1", made_with={})]
    parts += [Queries(f"{form} {number}", part) for number, part in enumerate(further_searches, start=2)]
    return replace(combined, fallbacks={}, n_requests=0, spending={}, parts=tuple(parts))


def _searches(read: Callable[[str], Sequence[str]], reply: str) -> tuple[Sequence[str], str]:
    """Return the searches in a reply, or () and the problem."""
    try:
        return read(reply), ""
    except ValueError as error:
        return (), f"invalid reply: {error}"


# A trained query rewriter: a small model in a folder, run in this process. It reads the question and the conversation,
# latest message first, so that truncation removes the oldest. A conditional rewriter first decides whether the question
# needs rewriting: after `no_rewrite` generation stops, and the question is the query (OR-CONVQA paper, section 4.7).
# The folder's recipe contains the input format.

RECIPE = "ragtasks_rewriter.json"
"""File in a trained rewriter's folder with its input format."""
REWRITE = "rewrite:"
"""Prefix of a rewritten question. `no_rewrite` is a token added to the vocabulary."""

_DECISIVE = {".json", ".safetensors", ".model", ".txt"}
_SPEAKERS = {Role.USER: "user", Role.ASSISTANT: "system"}


@dataclass(frozen=True, slots=True)
class Recipe:
    """Input format of a trained rewriter."""

    kind: Literal["seq2seq", "causal"]
    """Architecture of the model: encoder-decoder such as T5, or causal such as GPT-2 and Mamba."""
    is_conditional: bool
    """Whether a reply begins with `rewrite:` or `no_rewrite`."""
    max_source_tokens: int
    """Maximum tokens of question and conversation."""
    max_new_tokens: int


def write_recipe(folder: Path, recipe: Recipe) -> None:
    """Write a recipe to the folder of the weights."""
    (folder / RECIPE).write_bytes(orjson.dumps(asdict(recipe), option=orjson.OPT_INDENT_2) + b"\n")


def source_text(task: Task) -> str:
    """Return the input of a rewriter for a task: the question, then the conversation in reverse order."""
    history = [f"{_SPEAKERS[message.role]}: {message.text}" for message in reversed(task.messages[:-1])]
    return " ".join(" ".join([f"question: {task.question}", *history]).split())


def encoded(tokenizer: Any, recipe: Recipe, text: str) -> list[int]:
    """Return the tokens of an input, truncated at its end, with the start marker of the query for a causal model."""
    ending = [] if recipe.kind == "seq2seq" else list(tokenizer(" query:", add_special_tokens=False)["input_ids"])
    most = recipe.max_source_tokens - len(ending)
    special = recipe.kind == "seq2seq"
    ids = tokenizer(text, truncation=True, max_length=most, add_special_tokens=special, verbose=False)["input_ids"]
    return [*ids, *ending]


class TrainedRewriter:
    """A rewriter in a folder. Weights are loaded at first use."""

    def __init__(self, folder: Path, *, batch_size: int = 16) -> None:
        self.folder = folder
        try:
            self.recipe = Recipe(**orjson.loads((folder / RECIPE).read_bytes()))
        except (OSError, ValueError, TypeError) as error:
            raise ConfigurationError(
                "rewriter",
                where=str(folder),
                expected=_EXPECTED,
                found=f"no {RECIPE} that can be read",
                next_step=_NEXT_STEP,
            ) from error
        self._batch_size = batch_size

    def describe(self) -> dict[str, Any]:
        """Return the inputs that determine the queries as JSON values: weights and recipe, not the path."""
        files = sorted(path for path in self.folder.iterdir() if path.suffix in _DECISIVE)
        digest = hashlib.sha256()
        for path in files:
            digest.update(f"{path.name} {file_hash(path)}\n".encode())
        return {"form": LLM_REWRITE, "client": {"model": self.folder.name, "sha256": digest.hexdigest()}}

    def rewrite(self, tasks: Sequence[Task], progress: Progress = no_progress) -> Queries:
        """Return a query for every task. First turns and questions with an invalid reply are unchanged."""
        later = [task for task in tasks if len(task.messages) > 1]
        replies: list[str] = []
        for start in range(0, len(later), self._batch_size):
            replies += self.generate([source_text(task) for task in later[start : start + self._batch_size]])
            progress("rewrite questions", len(replies), len(later))
        texts = {task.task_id: task.question for task in tasks}
        fallbacks: dict[str, str] = {}
        for task, reply in zip(later, replies, strict=True):
            if self.recipe.is_conditional:
                reading = read_reply(CONDITIONAL_CONTRACT, reply, task.question)
                query, problem = reading.query, reading.problem
            else:
                query = " ".join(reply.split())
                problem = "" if query else "an empty reply"
            texts[task.task_id] = query or task.question
            fallbacks |= {task.task_id: problem} if problem else {}
        return Queries(LLM_REWRITE, texts, fallbacks, len(later), made_with=self.describe())

    def generate(self, sources: Sequence[str]) -> list[str]:
        """Return the model's greedy replies to inputs, in order; [] without inputs."""
        if not sources:
            return []
        import torch

        tokenizer, model = self._loaded
        rows = [{"input_ids": encoded(tokenizer, self.recipe, text)} for text in sources]
        batch = tokenizer.pad(rows, return_tensors="pt").to(model.device)
        # `no_rewrite` ends a reply; later tokens are ignored.
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
        tokenizer, model = load_language_model(str(self.folder), self.recipe.kind)
        tokenizer.padding_side = "right" if self.recipe.kind == "seq2seq" else "left"
        import torch

        return tokenizer, model.to("cuda" if torch.cuda.is_available() else "cpu").eval()


def load_language_model(name: str, architecture: str) -> tuple[Any, Any]:
    """Return tokenizer and model of a folder or a name on the Hugging Face hub."""
    with importing("transformers", "train", "a trained rewriter"):
        import transformers
    loader = transformers.AutoModelForSeq2SeqLM if architecture == "seq2seq" else transformers.AutoModelForCausalLM
    instead = "take a folder with a trained rewriter, or a language model"
    with (
        loading("rewriter", name, expected=_EXPECTED, next_step=_NEXT_STEP),
        require_all_weights("rewriter", name, instead),
    ):
        tokenizer = transformers.AutoTokenizer.from_pretrained(name, **NO_CODE)
        return tokenizer, loader.from_pretrained(name, **NO_CODE)


_EXPECTED = "a folder with a trained rewriter, or a language model to train"
_NEXT_STEP = "check the name; without a network, name a folder"
