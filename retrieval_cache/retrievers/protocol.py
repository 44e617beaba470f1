"""The interface of retrievers: index the passages of one corpus and rank them for queries.

`describe` is part of a run's key. It must contain everything that changes a ranking (parameters, analyzer, model,
library version) and nothing else, such as batch sizes.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from ragtasks.clients import Secrets, Spending, joined_spending
from ragtasks.errors import CacheError, ConfigurationError
from ragtasks.files import Ranked, Run
from ragtasks.progress import Progress, no_progress
from ragtasks.records import Passage
from ragtasks.requirements import Requirement


def repeatable(passages: Iterable[Passage]) -> Iterable[Passage]:
    """Return passages that can be iterated repeatedly. An iterator is read into a list."""
    return list(passages) if isinstance(passages, Iterator) else passages


@runtime_checkable
class Retriever(Protocol):
    """Ranks the passages of one corpus."""

    @property
    def name(self) -> str:
        """The canonical line of the retriever, such as `dense:minilm`."""

    def describe(self) -> Mapping[str, Any]:
        """Return all inputs that determine its rankings, as JSON values."""

    def index(self, passages: Iterable[Passage], folder: Path, progress: Progress = no_progress) -> None:
        """Index a corpus.

        Args:
            passages: in the order of the corpus, with unique ids.
            folder: the retriever's own folder for this corpus. Finished parts in it are reused, so that a killed call
                resumes.
            progress: called after every step.

        Raises:
            RagtasksError: a passage without text, a missing library or model, a full disk.
        """

    def search(self, queries: Mapping[str, str], k: int, progress: Progress = no_progress) -> Run:
        """Return the best `k` passages of each query, or fewer if the corpus is smaller or fewer match.

        The result contains every query of `queries`, in order, with passages in rank order (`ragtasks.files`). Passages
        that share nothing with the query (score 0 in a lexical retriever) are left out.

        Raises:
            RagtasksError: called before `index`.
        """


@runtime_checkable
class RetrieverFactory(Protocol):
    """Factory of a retriever, usually its class. Arguments and options of the line are its parameters."""

    def __call__(self, *arguments: Any, **options: Any) -> Retriever:
        """Return a retriever without an index.

        Raises:
            RagtasksError: an invalid argument or option, or a missing library.
        """


@runtime_checkable
class TakesKeys(Protocol):
    """A factory with parameters for the keys of servers. A line never contains a key."""

    key_variables: Mapping[str, str]
    """Parameter -> environment variable with the key."""


@runtime_checkable
class TakesRetrievers(Protocol):
    """A factory with parameters for other retrievers, which the line contains as text."""

    inner_retrievers: Mapping[str, str]
    """Parameter -> prefix of that retriever's line, such as `dense:` for an encoder."""


@runtime_checkable
class NamesPassages(Protocol):
    """A retriever that determines its passages before it has a corpus."""

    def wanted_passages(self, queries: Mapping[str, str]) -> frozenset[str]:
        """Return the ids of all passages that it may rank for these queries.

        Raises:
            RagtasksError: its file is broken, or contains none of the queries.
        """


@runtime_checkable
class KeepsStatistics(Protocol):
    """A retriever that counts properties of its searches, which do not affect rankings."""

    def statistics(self) -> Mapping[str, Any]:
        """Return the counts so far, as JSON values."""


@runtime_checkable
class Spends(Protocol):
    """A retriever that sends requests to servers."""

    def spending(self) -> Spending:
        """Return the spending on replies so far."""


@runtime_checkable
class Requires(Protocol):
    """A retriever that requires libraries, weights or servers."""

    def requirements(self, secrets: Secrets) -> list[Requirement]:
        """Return the requirements to check before indexing."""

    def index_bytes(self, n_passages: float, n_bytes: float) -> float:
        """Return the estimated size in bytes of its index, for a number of passages and bytes of text."""


@runtime_checkable
class Composed(Protocol):
    """A retriever that uses other retrievers. Their requirements and spending count as its own."""

    @property
    def retrievers(self) -> Sequence[Retriever]:
        """The retrievers that it uses."""


def parts_of(retriever: object) -> list[object]:
    """Return the retrievers that a retriever uses, recursively, and the retriever itself."""
    inner = retriever.retrievers if isinstance(retriever, Composed) else ()
    return [*(part for member in inner for part in parts_of(member)), retriever]


def requirements_of(retriever: Retriever, secrets: Secrets) -> list[Requirement]:
    """Return the requirements of a retriever."""
    return [
        requirement
        for part in parts_of(retriever)
        if isinstance(part, Requires)
        for requirement in part.requirements(secrets)
    ]


def index_bytes(retriever: Retriever, n_passages: float, n_bytes: float) -> float:
    """Return the estimated size of a retriever's index in bytes: by default the size of the text, 0 for a run file."""
    parts = parts_of(retriever)
    declared = sum(part.index_bytes(n_passages, n_bytes) for part in parts if isinstance(part, Requires))
    return declared + n_bytes * sum(not isinstance(part, Requires | NamesPassages | Composed) for part in parts)


def spending_of(retriever: object) -> Spending:
    """Return the spending on replies that a retriever requested from servers."""
    return joined_spending(part.spending() for part in parts_of(retriever) if isinstance(part, Spends))


def names_passages(retriever: object) -> bool:
    """Return whether a retriever, including the retrievers it uses, determines its passages before it has a corpus."""
    if isinstance(retriever, Composed) and retriever.retrievers:
        return all(map(names_passages, retriever.retrievers))
    return isinstance(retriever, NamesPassages)


def wanted_passages(retriever: Retriever, forms: Sequence[Mapping[str, str]]) -> frozenset[str] | None:
    """Return the ids of all passages that a retriever may rank for queries; None if it needs the complete corpus."""
    if not names_passages(retriever):
        return None
    named = [part for part in parts_of(retriever) if isinstance(part, NamesPassages)]
    return frozenset().union(*(part.wanted_passages(queries) for part in named for queries in forms))


def searched(retriever: Retriever, queries: Mapping[str, str], k: int, progress: Progress = no_progress) -> Run:
    """Return the rankings of a retriever. Pairs (passage_id, score) of another package become `Ranked`."""
    rankings: Any = retriever.search(queries, k, progress)
    try:
        return {query_id: tuple(map(_ranked, rankings[query_id])) for query_id in queries}
    except (TypeError, ValueError, LookupError, AttributeError) as error:
        raise ConfigurationError(
            f"retriever {retriever.name}",
            where="result of `search`",
            expected="query id -> passages, best first, as Ranked(passage_id, score) or pairs "
            "of a text and a finite number",
            found=f"{type(error).__name__}: {error}"[:200],
            next_step="see `search` in docs/extending.md",
        ) from error


def _ranked(pair: Any) -> Ranked:
    if isinstance(pair, Ranked):
        return pair
    passage_id, score = pair
    if not isinstance(passage_id, str) or not math.isfinite(score):
        raise ValueError(repr(pair))
    return Ranked(passage_id, float(score))


def statistics_of(retriever: Retriever) -> Mapping[str, Any]:
    """Return the counts of a retriever; {} without counts."""
    return retriever.statistics() if isinstance(retriever, KeepsStatistics) else {}


def not_indexed(name: str) -> CacheError:
    """Return the error of a search before `index`."""
    return CacheError(f"{name}: search was called before index; next step: call index first")


# Values in a retriever line. Each value parses to itself.

Value = str | int | float | bool


_SPECIAL = re.compile(r'[,;()"\\]|^\s|\s$|^$')


def value_of(text: str, line: str) -> Value:
    """Return a quoted value as text, true and false as bool, numbers as numbers, any other value as text."""
    if text.startswith('"'):
        try:
            return str(json.loads(text))
        except ValueError:
            raise refused(line, "a JSON string", text) from None
    if text in ("true", "false"):
        return text == "true"
    for number in (int, float):
        try:
            return number(text)
        except ValueError:
            continue
    return text


def written(value: Value) -> str:
    """Return a value as text for a line. It parses to the same value and type."""
    if isinstance(value, bool):
        return str(value).lower()
    if not isinstance(value, str):
        return repr(value)
    plain = not _SPECIAL.search(value) and isinstance(value_of(value, value), str)
    return value if plain else json.dumps(value, ensure_ascii=False)


def canonical(kind: str, argument: str, **options: Value | None) -> str:
    """Return the canonical line of a retriever with an argument. Options are sorted, without those that are None."""
    named = (f"{key}={written(value)}" for key, value in sorted(options.items()) if value is not None)
    return ",".join([f"{kind}:{written(argument)}", *named])


def refused(line: str, expected: str, found: str) -> ConfigurationError:
    """Return the error for an invalid line."""
    return ConfigurationError(
        "retriever",
        where=repr(line),
        expected=expected,
        found=found,
        next_step="write it such as bm25, bm25s:k1=0.9,b=0.4 or hybrid(bm25,dense:MODEL)",
    )
