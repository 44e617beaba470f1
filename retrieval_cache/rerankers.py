"""Reranking: a first retriever selects candidates, and a slower model reorders them.

A cross-encoder scores the candidates of one query at a time. A language model orders windows of the candidates of all
queries, and returns no scores.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import Enum
from functools import cached_property, partial
from pathlib import Path
from typing import IO, Any, TypeAlias

import orjson

from ragtasks.clients import (
    Client,
    Endpoint,
    Prompt,
    Reply,
    Secrets,
    Spending,
    endpoint_requirements,
    spent_on,
    summed_calls,
)
from ragtasks.errors import CacheError, ConfigurationError, JudgeError, RagtasksError
from ragtasks.files import Ranked, Run, atomic_file, in_rank_order
from ragtasks.progress import Progress, no_progress
from ragtasks.prompts import shipped_template
from ragtasks.records import Passage
from ragtasks.requirements import Requirement
from retrieval_cache.retrievers.encoders import (
    BATCH_TOKENS,
    described_name,
    length_batches,
    library_versions,
    load_model,
    model_hash,
    model_requirements,
    passage_text,
    read_lengths,
)
from retrieval_cache.retrievers.protocol import (
    Retriever,
    canonical,
    not_indexed,
    repeatable,
    searched,
    spending_of,
    statistics_of,
)

Ranking: TypeAlias = tuple[Ranked, ...]
Candidates: TypeAlias = tuple[str, Ranking]
"""A query with the passages found by the first retriever."""
PassagesOf: TypeAlias = Callable[[Ranking], list[Passage]]
"""Function that returns the passages of a ranking, in its order."""


class CrossEncoderReranker:
    """Scores pairs of query and passage by a sentence-transformers cross-encoder with one output."""

    def __init__(
        self, model: str, *, max_length: int | None = None, batch_tokens: int = BATCH_TOKENS, device: str | None = None
    ) -> None:
        """Set the model. Weights are loaded at first use."""
        self.model = model
        self._n_truncated = 0
        self._max_length = max_length
        self._batch_tokens = batch_tokens
        self._device = device

    @property
    def name(self) -> str:
        """`cross-encoder:MODEL`, with the maximum length if it is set."""
        return canonical("cross-encoder", self.model, max_length=self._max_length)

    def requirements(self, secrets: Secrets) -> list[Requirement]:
        """Return the requirements: library and weights."""
        return model_requirements(self.model, f"cross-encoder {self.model}")

    def describe(self) -> Mapping[str, Any]:
        """Return the inputs that determine the scores. Loads the model."""
        return self._description

    def statistics(self) -> Mapping[str, Any]:
        """Return the number of truncated pairs so far; {} if 0."""
        return {"truncated": self._n_truncated} if self._n_truncated else {}

    @cached_property
    def _description(self) -> dict[str, Any]:
        return {
            "reranker": "cross-encoder",
            "model": described_name(self.model),
            "weights": model_hash(self._encoder),
            "activation": str(self._encoder.activation_fn),
            "max_length": self._encoder.max_seq_length,
            "versions": library_versions(),
        }

    @cached_property
    def _encoder(self) -> Any:
        encoder = load_model("CrossEncoder", self.model, "reranking", self._max_length, device=self._device)
        if encoder.num_labels != 1:
            raise ConfigurationError(
                "cross-encoder",
                where=self.name,
                expected="a model with a single output, the relevance",
                found=f"{encoder.num_labels} outputs",
                next_step="choose a model that was trained to rank",
            )
        return encoder

    def rerank(self, query: str, passages: Sequence[Passage]) -> Sequence[float]:
        """Return the model's output for each pair, in order, after its own activation; higher is better."""
        pairs = [(query, passage_text(passage)) for passage in passages]
        lengths, cut = read_lengths(self._encoder, pairs)
        self._n_truncated += len(cut)
        scores = [0.0] * len(pairs)
        for positions in length_batches(lengths, self._batch_tokens):
            batch = [pairs[position] for position in positions]
            outputs = self._encoder.predict(batch, batch_size=len(batch), show_progress_bar=False)
            for position, score in zip(positions, outputs, strict=True):
                scores[position] = float(score)
        return scores

    def ranked(self, lists: Sequence[Candidates], passages_of: PassagesOf, progress: Progress) -> Iterator[Ranking]:
        """Yield the candidates of each query ordered by score."""
        computed: dict[Candidates, Ranking] = {}
        for number, candidates in enumerate(lists, start=1):
            if candidates not in computed:
                query, ranking = candidates
                scores = self.rerank(query, passages_of(ranking))
                if not all(map(math.isfinite, scores)):
                    raise RagtasksError(
                        f"scores of {self.name}",
                        where=f"query {query!r:.80}",
                        expected=f"{len(scores)} finite numbers",
                        found=f"{sum(map(math.isfinite, scores))} of them finite",
                        next_step="the reranker is broken: try another model",
                    )
                computed[candidates] = in_rank_order(
                    Ranked(candidate.passage_id, score) for candidate, score in zip(ranking, scores, strict=True)
                )
            progress("rerank", number, len(lists))
            yield computed[candidates]


class RerankedRetriever:
    """Ranks the candidates of a first retriever by a reranker.

    The passages are stored as JSON lines and found through byte offsets, so that corpora larger than memory can be
    reranked.
    """

    def __init__(self, first: Retriever, reranker: CrossEncoderReranker | ListwiseReranker, depth: int = 100) -> None:
        if depth < 1:
            raise ConfigurationError(f"depth of a reranker must be at least 1, found {depth}")
        self.retrievers = (first,)
        self._first, self._reranker, self._depth = first, reranker, depth
        self._path: Path | None = None
        self._offsets: dict[str, int] = {}

    @property
    def name(self) -> str:
        """`rerank(FIRST,RERANKER,depth=N)`, with the reranker's options that are not the default."""
        return f"rerank({self._first.name},{self._reranker.name},depth={self._depth})"

    def requirements(self, secrets: Secrets) -> list[Requirement]:
        """Return the requirements of the reranker."""
        return self._reranker.requirements(secrets)

    def index_bytes(self, n_passages: float, n_bytes: float) -> float:
        """Return the size of the passages in bytes."""
        return n_bytes

    def describe(self) -> Mapping[str, Any]:
        """Return the inputs that determine the rankings: both parts and the depth."""
        return {
            "retriever": "rerank",
            "first": dict(self._first.describe()),
            "reranker": dict(self._reranker.describe()),
            "depth": self._depth,
        }

    def statistics(self) -> Mapping[str, Any]:
        """Return the counts of the reranker, and those of the first retriever under `first`."""
        first = statistics_of(self._first)
        return {**self._reranker.statistics(), **({"first": dict(first)} if first else {})}

    def spending(self) -> Spending:
        """Return the spending on the reranker's replies."""
        return spending_of(self._reranker)

    def index(self, passages: Iterable[Passage], folder: Path, progress: Progress = no_progress) -> None:
        """Index the first retriever and store the passages for the reranker."""
        path, offsets = folder / "passages.jsonl", dict[str, int]()
        again = repeatable(passages)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with atomic_file(path) as file:
                for passage in again:
                    offsets[passage.passage_id] = file.tell()
                    file.write(orjson.dumps(passage) + b"\n")
        except OSError as error:
            raise CacheError(f"cannot write {path}: {error.strerror or error}") from error
        self._first.index(again, folder / "first", progress)
        self._path, self._offsets = path, offsets

    def search(self, queries: Mapping[str, str], k: int, progress: Progress = no_progress) -> Run:
        """Return the best `k` of the first `depth` candidates of each query."""
        if self._path is None:
            raise not_indexed(self.name)
        if not 1 <= k <= self._depth:
            raise ConfigurationError(
                self.name,
                where="k",
                expected=f"1 to {self._depth}, the candidates that are reranked",
                found=str(k),
                next_step=f"request fewer passages, or set depth to at least {max(k, 1)}",
            )
        first = searched(self._first, queries, self._depth, progress)
        lists = [(queries[query_id], ranking) for query_id, ranking in first.items()]
        with self._path.open("rb") as file:

            def passages_of(ranking: Ranking) -> list[Passage]:
                return [self._read(file, candidate.passage_id) for candidate in ranking]

            reranked = self._reranker.ranked(lists, passages_of, progress)
            return {query_id: ranking[:k] for query_id, ranking in zip(first, reranked, strict=True)}

    def _read(self, file: IO[bytes], passage_id: str) -> Passage:
        file.seek(self._offsets[passage_id])
        return Passage(**orjson.loads(file.readline()))


# Listwise reranking: a language model orders windows of the candidates, from the end of the list to its front. Windows
# overlap, so the best passages of each window reach the next and can climb to the top (RankZephyr, Pradeep,
# Sharifymoghaddam and Lin 2023; Ragnarök's pipeline for TREC RAG). Windows of one query are sequential; the current
# windows of all queries are sent to the client in one call. With a caching client, a killed call continues where it
# stopped. The model returns no scores: the passage at each rank gets the score of the first retriever at that rank, so
# scores only encode the order. Equal scores are separated by the smallest step that trec_eval distinguishes, because it
# would order equal scores by id.

_KIND = "listwise"
"""Name of the prompts in a reply cache."""

TEMPLATE = "rerank/listwise"
"""The shipped prompt; its fields are `query` and `passages`."""

READER_VERSION = 1
"""Version of the parser; raised when the same reply is parsed differently."""


@dataclass(frozen=True, slots=True)
class ListwiseOptions:
    """Options of the windows shown to the model."""

    window: int = 20
    """Passages per window, at least 2."""
    stride: int = 10
    """Ranks between two windows, 1 to `window`."""
    passes: int = 1
    """Number of passes over the list, each starting from the previous order (3 is RankZephyr-rho)."""
    words: int = 300
    """Maximum words shown of a passage, including its title."""
    max_unanswered: float = 0.05
    """Maximum share of windows without a reply, 0 to 1. These keep their order; a larger share is an error."""

    def __post_init__(self) -> None:
        for name, value, least, most in (
            ("window", self.window, 2, None),
            ("stride", self.stride, 1, self.window),
            ("passes", self.passes, 1, None),
            ("words", self.words, 1, None),
        ):
            if isinstance(value, bool) or not isinstance(value, int) or value < least or value > (most or value):
                raise _refused(name, f"a whole number from {least}" + (f" to {most}" if most else ""), value)
        share = self.max_unanswered
        if isinstance(share, bool) or not isinstance(share, int | float) or not 0 <= share <= 1:
            raise _refused("max_unanswered", "a share from 0 to 1", share)


DEFAULT_OPTIONS = ListwiseOptions()
_DEFAULTS = asdict(DEFAULT_OPTIONS)
_UNNAMED = frozenset({"model", "price"})


def _refused(option: str, expected: str, found: object) -> ConfigurationError:
    return ConfigurationError(
        "listwise reranking",
        where=option,
        expected=expected,
        found=repr(found),
        next_step="write it such as rerank(bm25,listwise:openai/NAME,window=20,stride=10,depth=100)",
    )


class ListwiseReranker:
    """Orders lists of passages by a language model."""

    def __init__(self, client: Client, endpoint: Endpoint, options: ListwiseOptions = DEFAULT_OPTIONS) -> None:
        """Set the client, the endpoint and the windows."""
        self._client, self._endpoint, self._options = client, endpoint, options
        self._template = shipped_template(TEMPLATE)
        self._spent: list[dict[str, Any]] = []
        self._counts: Counter[str] = Counter()
        self._reasons: Counter[str] = Counter()

    @property
    def name(self) -> str:
        """`listwise:MODEL`, with the set options of the windows and the endpoint."""
        windows = {name: value for name, value in asdict(self._options).items() if value != _DEFAULTS[name]}
        named = {name: getattr(self._endpoint, name) for name in self._endpoint.model_fields_set - _UNNAMED}
        return canonical("listwise", self._endpoint.model, **windows, **named)

    def requirements(self, secrets: Secrets) -> list[Requirement]:
        """Return the requirements: libraries, key and a reply of the endpoint."""
        return endpoint_requirements(self._endpoint, "reranker", secrets)

    def describe(self) -> Mapping[str, Any]:
        """Return the inputs that determine the order: model, decoding, prompt, windows and parser version."""
        options = self._options
        return {
            "reranker": "listwise",
            "client": dict(self._client.describe()),
            "prompt_sha256": self._template.sha256,
            "reader": READER_VERSION,
            "window": options.window,
            "stride": options.stride,
            "passes": options.passes,
            "words": options.words,
        }

    def statistics(self) -> Mapping[str, Any]:
        """Return counts over all windows so far: sent, without a reply (by reason), and reply formats."""
        return {**self._counts, "reasons": dict(self._reasons)} if self._counts else {}

    def spending(self) -> Spending:
        """Return the spending on all replies so far."""
        return {f"reranker {self._client.name}": self._spent} if self._spent else {}

    def order(
        self, lists: Sequence[tuple[str, Sequence[Passage]]], progress: Progress = no_progress
    ) -> list[list[Passage]]:
        """Return the passages of each list in the model's order, best first."""
        options = self._options
        orders = [list(passages) for _, passages in lists]
        plans = [options.passes * list(windows(len(order), options.window, options.stride)) for order in orders]
        total, n_before, n_unanswered = sum(map(len, plans)), 0, 0

        def show(label: str, done: int, _: int | None) -> None:
            progress(label, n_before + done, total)

        for step in range(max(map(len, plans), default=0)):
            current = [(number, *plan[step]) for number, plan in enumerate(plans) if step < len(plan)]
            prompts = [self._prompt(lists[number][0], orders[number][start:end]) for number, start, end in current]
            replies = self._client.answer(prompts, show)
            self._spent = summed_calls([*self._spent, *spent_on(replies, self._endpoint.price)])
            for (number, start, end), reply in zip(current, replies, strict=True):
                orders[number][start:end] = self._ordered(orders[number][start:end], reply)
                n_unanswered += reply.text is None
            if n_unanswered > options.max_unanswered * total:
                raise self._too_many(n_unanswered, total)
            n_before += len(current)
        return orders

    def ranked(self, lists: Sequence[Candidates], passages_of: PassagesOf, progress: Progress) -> Iterator[Ranking]:
        """Yield the candidates of each query in the model's order. The score at each rank is unchanged."""
        orders = self.order([(query, passages_of(ranking)) for query, ranking in lists], progress)
        for (_, ranking), passages in zip(lists, orders, strict=True):
            scores = falling_scores(candidate.score for candidate in ranking)
            yield tuple(Ranked(passage.passage_id, score) for passage, score in zip(passages, scores, strict=True))

    def _prompt(self, query: str, passages: Iterable[Passage]) -> Prompt:
        texts = [prompt_text(passage, self._options.words) for passage in passages]
        text = self._template.render(query=without_numbers(query), passages=texts)
        return Prompt.of(text, kind=_KIND, is_readable=partial(names_any, n_passages=len(texts)))

    def _ordered(self, passages: list[Passage], reply: Reply) -> list[Passage]:
        self._counts["windows"] += 1
        if reply.text is None:
            self._counts["unanswered"] += 1
            self._reasons[f"{reply.outcome.value}: {reply.reason}"] += 1
            return passages
        self._counts[reply_form(reply.text, len(passages)).value] += 1
        return [passages[index] for index in read_order(reply.text, len(passages))]

    def _too_many(self, n_unanswered: int, total: int) -> JudgeError:
        reasons = "; ".join(f"{count} x {reason}" for reason, count in self._reasons.most_common(3))
        return JudgeError(
            "listwise reranking",
            where=self._client.name,
            expected=f"replies to all but {self._options.max_unanswered:.0%} of {total} windows",
            found=f"{n_unanswered} without one: {reasons}",
            next_step="answers so far are saved; run the same command again; for too long prompts set fewer words or a "
            "smaller window, for truncated replies more max_tokens",
        )


def falling_scores(scores: Iterable[float]) -> list[float]:
    """Return scores that decrease strictly as 32-bit floats. Only scores that did not decrease are changed."""
    import numpy as np

    falling: list[float] = []
    for score in scores:
        if falling and np.float32(score) >= np.float32(falling[-1]):
            falling.append(float(np.nextafter(np.float32(falling[-1]), np.float32(-np.inf))))
        else:
            falling.append(score)
    return falling


# Windows of a list of passages, their prompts, and the parser of replies. The expected reply is `[2] > [3] > [1]`.
# Other replies are repaired so that a window keeps all its passages. The parser follows rank_llm (castorini/rank_llm,
# `response_utils.py` and `listwise_rankllm.py` at 1b3cabb), so a stray number counts: "the 4 passages: [2] > [1]" ranks
# 4 first. `reply_form` separately classifies replies by the strict grammar, without repair.

_END_OF_THINKING = "</think>"
_STRICT = re.compile(r"\[[0-9]+\](?: > \[[0-9]+\])*")
_NUMBERED = re.compile(r"\[(\d+)\]")
_NUMBER = re.compile(r"[0-9]+")


class ReplyForm(str, Enum):
    """Classification of a reply by the strict grammar."""

    OK = "ok"
    """Every number of the window exactly once, and no other text."""
    WRONG_FORMAT = "wrong_format"
    """Not bracketed numbers separated by ` > `."""
    REPETITION = "repetition"
    """More numbers than passages, or a repeated number."""
    MISSING_DOCUMENTS = "missing_documents"
    """Fewer numbers than passages, or the number of no passage."""


def windows(n_candidates: int, size: int, stride: int) -> Iterator[tuple[int, int]]:
    """Yield the windows of a list as (start, end), 0-based, from the end of the list to its front.

    100 candidates with size 20 and stride 10 give (80, 100), (70, 90), ..., (0, 20); 25 give (5, 25) and (0, 15). A
    list with fewer than two candidates has no windows.
    """
    start, end = max(n_candidates - size, 0), n_candidates
    while end - start > 1:
        yield start, end
        if start == 0:
            return
        start, end = max(start - stride, 0), end - stride


def without_numbers(text: str) -> str:
    """Return a text without passage numbers: `[12]` becomes `(12)`. White space becomes one blank."""
    return _NUMBERED.sub(r"(\1)", " ".join(text.split()))


def prompt_text(passage: Passage, n_words: int) -> str:
    """Return the passage as shown to the model: title, if any, and text, cut after `n_words` words."""
    content = f"Title: {passage.title} Content: {passage.text}" if passage.title.strip() else passage.text
    return without_numbers(" ".join(content.split()[:n_words]))


def read_order(reply: str, n_passages: int) -> list[int]:
    """Return the order of a window in a reply: each index 0 to `n_passages` - 1 once, best first.

    All runs of digits after the last end of thinking are read, including digits of other scripts and styles
    (superscript, circled, full-width). A repeated number counts at its first position. Numbers of no passage are
    ignored. Passages that are not named follow in their previous order, so a reply without numbers keeps the order.
    """
    return list(dict.fromkeys([*_named(reply, n_passages), *range(n_passages)]))


def names_any(reply: str, n_passages: int) -> bool:
    """Return whether a reply names any passage of a window."""
    return any(True for _ in _named(reply, n_passages))


def _named(reply: str, n_passages: int) -> Iterator[int]:
    """Yield the 0-based indices named in a reply, in order and with repetitions."""
    digits = "".join(map(_ascii_digit, reply.rpartition(_END_OF_THINKING)[2]))
    longest = len(str(n_passages))
    numbers = (match.lstrip("0") for match in _NUMBER.findall(digits))
    indices = (int(number) - 1 for number in numbers if 0 < len(number) <= longest)
    return (index for index in indices if index < n_passages)


def _ascii_digit(sign: str) -> str:
    value = unicodedata.digit(sign, None)
    return " " if value is None else str(value)


def reply_form(reply: str, n_passages: int) -> ReplyForm:
    """Return the classification of a reply by the strict grammar `[2] > [3] > [1]`, ignoring outer blanks.

    A reply with several errors counts once, by the first of: wrong format, too few numbers, too many or repeated ones,
    numbers of no passage (rank_llm's `response_analysis.py`).
    """
    answer = reply.rpartition(_END_OF_THINKING)[2].strip()
    if not _STRICT.fullmatch(answer):
        return ReplyForm.WRONG_FORMAT
    numbers = [number.lstrip("0") for number in _NUMBER.findall(answer)]
    if len(numbers) < n_passages:
        return ReplyForm.MISSING_DOCUMENTS
    if len(set(numbers)) < len(numbers):
        return ReplyForm.REPETITION
    expected = {str(number) for number in range(1, n_passages + 1)}
    if len(numbers) > n_passages:
        return ReplyForm.REPETITION
    return ReplyForm.OK if set(numbers) == expected else ReplyForm.MISSING_DOCUMENTS
