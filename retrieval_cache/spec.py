"""The retriever line: its grammar, parsed into a retriever.

    bm25    bm25-standard    bm25s:k1=0.9,b=0.4    rank_bm25[:analyser=english]    run:FILE
    dense:MODEL[,option=value]    sparse:MODEL
    dense:openai/NAME[,dimensions=256]    dense:NAME,base_url=ADDRESS[,option=value]
    hybrid(A,B,...[;k=60,weights=2/1,depth=100])    rerank(A,cross-encoder:MODEL[,depth=100])
    rerank(A,listwise:openai/NAME[,depth=100,window=20,stride=10,passes=1,base_url=ADDRESS])

A retriever of another package is selected by its entry point (group `ragtasks.retrievers`) or import path,
`mypackage.module:MyRetriever`, with the usual options; docs/extending.md has the contract.

`listwise:`, and `dense:` with an encoder on a server, accept every key of an endpoint (docs/endpoints.md).

In a list, `option=value` belongs to the preceding retriever. The options of a hybrid follow a semicolon. A value with
a comma, semicolon, bracket or quote is written as a JSON string: `dense:MODEL,query_prompt="find, please: "`.
The `name` of each retriever is its line in canonical form, and parses to the same retriever.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from ragtasks.clients import (
    CachedClient,
    Client,
    EmbeddingClient,
    Endpoint,
    OpenAIClient,
    Secrets,
    credentials_for,
    endpoint_of,
    no_secrets,
)
from ragtasks.errors import ConfigurationError, close_matches, is_secret_name
from ragtasks.plugins import ExtensionPoint
from retrieval_cache.rerankers import CrossEncoderReranker, ListwiseOptions, ListwiseReranker, RerankedRetriever
from retrieval_cache.retrievers.endpoint_dense import EndpointDenseRetriever
from retrieval_cache.retrievers.fusion import HybridRetriever
from retrieval_cache.retrievers.protocol import (
    Retriever,
    RetrieverFactory,
    TakesKeys,
    TakesRetrievers,
    refused,
    value_of,
)
from retrieval_cache.retrievers.vectors import Fill, WorkersMaker

_Made = TypeVar("_Made")

_SERVED = ("listwise", "dense")
"""Types whose key is read by the endpoint itself (`credentials_for`)."""
_SERVED_KEY = "OPENAI_API_KEY"
_OPENAI = "openai/"
_MOST_NESTED = 50
_KEY_OPTION = re.compile(r"(?:^|[:,;(])\s*([A-Za-z][\w-]*)\s*=")
_OPTION = re.compile(r"([A-Za-z][A-Za-z0-9_]*)=(.*)", re.DOTALL)


def parse(line: str, secrets: Secrets = no_secrets, replies: Path | None = None) -> Retriever:
    """Return the retriever of a line. Replies of servers are cached in the file `replies`, if named."""
    return _parsed(line, _Servers(secrets, replies))


def _parsed(line: str, servers: _Servers) -> Retriever:
    text = line.strip()
    _refuse_keys(text)
    if text.count("(") > _MOST_NESTED:
        raise refused(f"{text[:60]}...", f"at most {_MOST_NESTED} nested retrievers", str(text.count("(")))
    composed = re.fullmatch(r"(hybrid|rerank)\s*\((.*)\)", text, re.DOTALL)
    if composed:
        return (_hybrid if composed[1] == "hybrid" else _rerank)(composed[2], line, servers)
    head, *parts = split(text, ",", line)
    name, colon, argument = head.partition(":")
    if name == "dense" and (
        argument.startswith(_OPENAI) or any(part.strip().startswith("base_url=") for part in parts)
    ):
        options = _options(parts, line)
        if isinstance(options.get("price"), int | float):  # embeddings have no reply tokens
            options["price"] = (options["price"], 0.0)
        endpoint = _endpoint(_argument(argument, line), options)
        return _built(EndpointDenseRetriever, line, [endpoint, servers.encoder], options)
    if name in _NAMED:
        return _built(RETRIEVERS.get(name), line, [_argument(argument, line)], _options(parts, line))
    if name in _PLAIN:
        return _built(RETRIEVERS.get(name), line, _PLAIN[name], _options([argument, *parts] if colon else parts, line))
    return _added(head, parts, line, servers)


def _added(head: str, parts: list[str], line: str, servers: _Servers) -> Retriever:
    """Return a retriever of another package: `NAME`, `NAME:ARGUMENT`, `NAME:option=value` or `module:CLASS`."""
    name, colon, argument = head.partition(":")
    make = RETRIEVERS.find(name if name in RETRIEVERS.plugin_names() else head)
    if make is None:
        if name in {"hybrid", "rerank"}:
            raise refused(line, f"its retrievers in brackets, such as {name}(bm25,dense:minilm)", "none")
        known = close_matches(name, [*RETRIEVERS.names(), "hybrid", "rerank"])
        raise refused(line, "a known retriever", f"{name!r}; {known}")
    arguments: list[Any] = []
    if name in RETRIEVERS.plugin_names() and colon:
        if _OPTION.fullmatch(argument):
            parts = [argument, *parts]
        else:
            arguments = [_argument(argument, line)]
    options = _options(parts, line)
    if isinstance(make, TakesKeys):  # set by the caller, never by the line
        keys = {option: servers.secrets(variable) for option, variable in make.key_variables.items()}
        options |= {option: key for option, key in keys.items() if key}
    if isinstance(make, TakesRetrievers):
        inner = {option: begin for option, begin in make.inner_retrievers.items() if option in options}
        options |= {option: _parsed(f"{begin}{options[option]}", servers) for option, begin in inner.items()}
    made: Any = _built(make, line, arguments, options)
    if isinstance(made, Retriever):
        return made
    expected = "a retriever with `name`, `describe`, `index` and `search` (docs/extending.md)"
    raise refused(line, expected, f"{type(made).__name__} of {head}")


def _refuse_keys(line: str) -> None:
    """Raise ConfigurationError for a line that contains a key, because lines are printed and stored."""
    named = next((name for name in _KEY_OPTION.findall(line) if is_secret_name(name)), None)
    if named is None:
        return
    kinds = [kind for kind in (*_SERVED, *RETRIEVERS.plugin_names()) if re.search(rf"\b{kind}\b", line)]
    names = [] if kinds and kinds[0] not in _SERVED else [_SERVED_KEY]
    makers = [RETRIEVERS.get(kind) for kind in kinds if kind not in _SERVED]
    names += [name for make in makers if isinstance(make, TakesKeys) for name in make.key_variables.values()]
    variables = " or ".join(dict.fromkeys(names))
    raise ConfigurationError(
        f"retriever {' '.join(kinds) or 'with a key'}: {named} is a key, and keys are not allowed in the line, which "
        f"is printed and stored. Next step: leave it out, and set {variables} in the environment instead"
    )


@dataclass(frozen=True)
class _Servers:
    """Settings for the servers of a line's retrievers."""

    secrets: Secrets
    replies: Path | None

    def model(self, endpoint: Endpoint) -> Client:
        """Return the client of a language model's endpoint."""
        return self._cached(OpenAIClient(endpoint, credentials_for(endpoint, self.secrets)))

    def encoder(self, endpoint: Endpoint, batch_tokens: int, batch_texts: int) -> Client:
        """Return the client of an encoder's endpoint."""
        key = credentials_for(endpoint, self.secrets)
        return self._cached(EmbeddingClient(endpoint, key, batch_tokens=batch_tokens, batch_texts=batch_texts))

    def _cached(self, client: Client) -> Client:
        return client if self.replies is None else CachedClient(client, self.replies)


def _endpoint(model: str, options: dict[str, Any]) -> Endpoint:
    """Return the endpoint of a model. Its keys are removed from the options."""
    return endpoint_of({"model": model, **{name: options.pop(name) for name in options.keys() & Endpoint.model_fields}})


def _hybrid(inside: str, line: str, servers: _Servers) -> Retriever:
    listed, *own_options = split(inside, ";", line)
    if len(own_options) > 1:
        raise refused(line, "one semicolon, before the options of the hybrid", f"{len(own_options)}")
    options = _options(split(own_options[0], ",", line), line) if own_options else {}
    if "weights" in options:
        try:
            options["weights"] = tuple(float(part) for part in str(options["weights"]).split("/"))
        except ValueError:
            raise refused(line, "weights such as 2/1", str(options["weights"])) from None
    return _built(HybridRetriever, line, [[_parsed(part, servers) for part in _members(listed, line)]], options)


def _rerank(inside: str, line: str, servers: _Servers) -> Retriever:
    members = _members(inside, line)
    kind, _, chosen = members[1].partition(":") if len(members) == 2 else ("", "", "")
    if kind not in ("cross-encoder", "listwise"):
        expected = (
            "rerank(RETRIEVER,cross-encoder:MODEL,depth=100) or rerank(RETRIEVER,listwise:MODEL,depth=100), with a "
            "MODEL that was trained to rank, such as cross-encoder/ms-marco-MiniLM-L6-v2; an embedding model such as "
            "minilm is a RETRIEVER, dense:minilm"
        )
        raise refused(line, expected, f"{len(members)} parts: {members}")
    model, *parts = split(chosen, ",", line)
    options = _options(parts, line)
    depth = {"depth": options.pop("depth")} if "depth" in options else {}
    reranker: CrossEncoderReranker | ListwiseReranker
    if kind == "listwise":
        endpoint = _endpoint(_argument(model, line), options)
        reranker = ListwiseReranker(servers.model(endpoint), endpoint, _built(ListwiseOptions, line, [], options))
    else:
        reranker = _built(CrossEncoderReranker, line, [_argument(model, line)], options)
    return _built(RerankedRetriever, line, [_parsed(members[0], servers), reranker], depth)


def _members(listed: str, line: str) -> list[str]:
    """Return the retrievers of a list, each with its options."""
    members: list[str] = []
    for part in split(listed, ",", line):
        if members and _OPTION.match(part.strip()):
            members[-1] += f",{part}"
        else:
            members.append(part)
    return [member.strip() for member in members]


def split(text: str, separator: str, line: str) -> list[str]:
    """Return the parts between separators outside brackets and quotes."""
    parts, depth, quoted, start = [], 0, False, 0
    for match in re.finditer(r"\\.|(.)", text, re.DOTALL):
        sign = match[1]  # None for an escaped character
        if sign == '"':
            quoted = not quoted
        elif not quoted and sign in {"(", ")"}:
            depth += 1 if sign == "(" else -1
            if depth < 0:
                raise refused(line, "an opening bracket for each closing bracket", text)
        elif not quoted and sign == separator and depth == 0:
            parts.append(text[start : match.start()])
            start = match.end()
    if quoted or depth:
        raise refused(line, "every bracket and quote closed", text)
    return [*parts, text[start:]]


def _options(parts: list[str], line: str) -> dict[str, Any]:
    options: dict[str, Any] = {}
    for part in parts:
        match = _OPTION.fullmatch(part.strip())
        if match is None or match[1] in options:
            raise refused(line, "each option once, as option=value", repr(part.strip()))
        options[match[1]] = value_of(match[2], line)
    return options


def _argument(text: str, line: str) -> str:
    value = value_of(text, line) if text.startswith('"') else text
    if not value:
        raise refused(line, "a name, path or address after the colon", "nothing")
    return str(value)


def _built(make: Callable[..., _Made], line: str, arguments: list[Any], options: dict[str, Any]) -> _Made:
    """Return the result of a constructor. Raises ConfigurationError for unknown or missing options."""
    try:
        signature = inspect.signature(make)
    except ValueError as error:  # for functions implemented in C
        raise refused(line, "a class with parameters that can be read", str(error)) from None
    option_names = list(signature.parameters)[len(arguments) :]
    for name in options:
        if name not in option_names:
            raise refused(line, close_matches(name, option_names) if option_names else "no options", f"option {name!r}")
    try:
        signature.bind(*arguments, **options)
    except TypeError as error:
        raise refused(line, f"the options {', '.join(option_names)}", str(error)) from None
    kinds = {name: _kinds(signature.parameters[name].annotation) for name in options}
    wrong = next((name for name, value in options.items() if kinds[name] and type(value) not in kinds[name]), None)
    try:
        made = make(*arguments, **options)  # its own error is more specific, such as a range
    except TypeError:
        if wrong is None:
            raise
    if wrong is not None:
        raise refused(line, f"{wrong} as {_KIND_WORDS[min(kinds[wrong], key=str)]}", repr(options[wrong]))
    return made


def _kinds(annotation: object) -> set[type]:
    """Return the possible types of a number or switch by its annotation; () for other annotations."""
    text = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "")
    names = {part.strip() for part in text.split("|")} - {"None"}
    return set().union(*(_KINDS[name] for name in names)) if names and names <= _KINDS.keys() else set()


_KINDS: dict[str, set[type]] = {"int": {int}, "float": {int, float}, "bool": {bool}}
_KIND_WORDS: dict[type, str] = {int: "a whole number", float: "a number", bool: "true or false"}

RETRIEVERS = ExtensionPoint(
    "ragtasks.retrievers",
    "retriever",
    RetrieverFactory,  # type: ignore[type-abstract] # a protocol: any callable
    {
        "bm25": "retrieval_cache.retrievers.bm25:Bm25Retriever",
        "bm25-standard": "retrieval_cache.retrievers.bm25:Bm25Retriever",
        "bm25s": "retrieval_cache.retrievers.bm25:Bm25sRetriever",
        "dense": "retrieval_cache.retrievers.dense:DenseRetriever",
        "rank_bm25": "retrieval_cache.retrievers.bm25:RankBm25Retriever",
        "run": "retrieval_cache.retrievers.run_file:RunFileRetriever",
        "sparse": "retrieval_cache.retrievers.sparse:SparseRetriever",
    },
    by_import_path=True,
)
"""Retrievers without inner retrievers, by name."""

WORKERS = ExtensionPoint("ragtasks.workers", "kind of workers", WorkersMaker, {})  # type: ignore[type-abstract]
"""Functions that encode a corpus on other machines, by name."""


def filled_by(line: str) -> Fill:
    """Return the function that encodes a corpus on workers, from a line `KIND[:ADDRESS][,option=value]`."""
    return WORKERS.get(re.split("[:,]", line)[0])(line)


_PLAIN = {"bm25": ["bm25"], "bm25-standard": ["bm25-standard"], "bm25s": [], "rank_bm25": []}
"""Built-in retrievers without an argument -> fixed arguments."""

_NAMED = ("dense", "run", "sparse")
"""Built-in retrievers whose argument (model, address or file) follows the colon."""
