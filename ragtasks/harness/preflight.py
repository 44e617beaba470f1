"""Before the first request: everything that an evaluation needs is looked at, and all that lacks is said at once.

A key, an encoder or a disk that is missing costs nothing here and a night of answers later. Whatever would leave the
main score unscored is a problem with its cure, unless the configuration asks for it (`encoder: none`).
"""

from __future__ import annotations

import json
import re
import shutil
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from http.client import HTTPException
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragtasks.benchmarks import SAMPLE, Benchmark, benchmark_folder, contexts_for, open_benchmark, retrieval_side
from ragtasks.clients import (
    DEFAULT_KEY,
    OPENAI_URL,
    SLOW,
    ChatMessage,
    EmbeddingClient,
    Endpoint,
    OpenAIClient,
    Outcome,
    Prompt,
    SystemClient,
    SystemProtocol,
    credentials_for,
    gets_default_key,
    model_client,
    system_endpoint,
)
from ragtasks.config import (
    KEYS,
    NO_ENCODER,
    SAMPLE_ENCODER,
    EvaluationConfig,
    HarnessModel,
    config_from_metadata,
)
from ragtasks.config.environment import data_folder, run_store, secret
from ragtasks.errors import (
    ConfigurationError,
    MissingExtraError,
    RagtasksError,
    close_matches,
    masked_text,
    missing_path,
)
from ragtasks.files import is_cached, is_model_folder
from ragtasks.progress import progress_bars, step
from ragtasks.records import Setting
from ragtasks.scoring import check_retrieval, ready_judge
from ragtasks.suites import suite_named

if TYPE_CHECKING:
    from ragtasks.harness.run import Request
    from ragtasks.scoring.planning import Count

_SECONDS = 20.0  # for one short request
_HUB_SECONDS = 5.0
_PACKAGED = "the packaged encoder, `minilm`, whose scores compare with none in print"
_BYTES_AN_ANSWER = 100_000  # its sample in the results, and its part of the page
_SPARE_BYTES = 200_000_000
_GIGABYTE = 1e9
_QUESTION = "Reply with the word ready."
_FEW_TOKENS = 16
_CACHED = "; --no-probe goes on without it, for replies that are all cached"


@dataclass(frozen=True, slots=True)
class ServedModel:
    """A model behind an OpenAI-compatible server, as the harness will ask it."""

    name: str
    address: str
    """Where prompts are sent, the path included."""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Sent along; they may hold a key."""
    is_chat: bool = True
    """Whether it takes messages."""
    is_of_openai: bool = False
    """Whether it is OpenAI's own, which wants a key and has another name for the longest reply."""


@dataclass(frozen=True, slots=True)
class Intention:
    """What an evaluation is about to do."""

    parts: Sequence[tuple[str, Setting]]
    """Benchmarks with settings; empty where nothing of them is known."""
    config: EvaluationConfig
    opened: Sequence[Benchmark] = ()
    """Benchmarks that lie in no folder: rows of one's own are each their own."""
    output: Path | None = None
    model: ServedModel | None = None
    system: tuple[Endpoint, SystemProtocol] | None = None
    """One's own system, where it is asked."""
    suites: Mapping[str, str] = field(default_factory=dict)
    """Benchmark -> its suite, where a harness task names another than the benchmark's own."""
    is_scored: bool = True
    """Whether there will be scores of answers: rankings need no encoder and no judge."""
    needs_passages: bool = True
    """Whether the setting's passages will be read: one's own system may bring its own."""
    tasks: Sequence[str] = ()
    """Harness tasks of a model, whose prompts must fit its context; empty where they need not be looked at."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """The configuration as it was given, for these tasks."""
    reply_tokens: int | None = None
    """The longest reply, where that is not the tasks' own."""
    weights: str | None = None
    """Weights that this process will load, by name or folder."""
    tokenizer: str | None = None
    """A tokeniser that counts the tokens of prompts; None: that of the weights, else an estimate."""
    encoders: Sequence[str] = ()
    """Encoders of a retriever, by name or folder."""
    served_encoders: Sequence[Endpoint] = ()
    """Encoders of a retriever behind servers."""
    corpora: Mapping[str, str] | None = None
    """Domain -> another corpus than the benchmark's own, where passages are retrieved; None where none are."""
    problems: Sequence[str] = ()
    """What is known to be missing already."""


def problems_of(intention: Intention, *, probes: bool = True) -> list[str]:
    """Return what would keep an evaluation from its scores, each with its cure; servers are asked where `probes`."""
    with step("checking what it needs"):
        benchmarks, found = _benchmarks(intention)
        found += map(_on_one_line, intention.problems)
        if intention.is_scored:
            found += [*_encoder(intention, benchmarks), *_judges(intention.config)]
        found += _late_options(intention.config)
        found += [*_corpora(intention, benchmarks), *_retriever_encoders(intention), *_rewriter(intention.config)]
        if intention.system is not None:
            found += _endpoint("endpoint", intention.system[0])
        found += [*_model_key(intention.model), *_weights(intention.weights), *_disk(intention, benchmarks)]
        if probes:
            found += _probes(intention)
    found = list(dict.fromkeys(found))
    return [*found, *(_context(intention, asks_server=probes) if not found else ())]


def require(intention: Intention, *, probes: bool = True) -> None:
    """Refuse what cannot come to its scores.

    Raises:
        ConfigurationError: with every problem.
    """
    found = problems_of(intention, probes=probes)
    if found:
        head = "1 problem" if len(found) == 1 else f"{len(found)} problems"
        rows = "".join(f"\n- {problem}" for problem in found)
        raise ConfigurationError(f"{head} before the first request; nothing was evaluated:{rows}")


# Data, and the runs that give passages.


def _benchmarks(intention: Intention) -> tuple[dict[str, tuple[Benchmark, int]], list[str]]:
    """Return benchmark -> (benchmark, tasks in the settings), and what of it is missing."""
    found = {benchmark.name: (benchmark, len(benchmark.tasks)) for benchmark in intention.opened}
    problems: list[str] = []
    for name in dict.fromkeys(name for name, _ in intention.parts):
        settings = [setting for benchmark, setting in intention.parts if benchmark == name]
        try:
            root = benchmark_folder(name, intention.config.data, data_folder())
            benchmark = open_benchmark(name, root.resolve())
            found[name] = (benchmark, 0)
            if not intention.needs_passages:
                found[name] = (benchmark, len(benchmark.tasks) * len(set(settings)))
                continue
            for setting in dict.fromkeys(settings):
                contexts = contexts_for(benchmark, setting, intention.config.run, run_store())
                found[name] = (benchmark, found[name][1] + len(contexts.passages))
        except RagtasksError as error:
            problems.append(_on_one_line(error))
    return found, problems


def _disk(intention: Intention, benchmarks: Mapping[str, tuple[Benchmark, int]]) -> Iterator[str]:
    """Yield that the results do not fit on their disk."""
    if intention.output is None:
        return
    place = intention.output.resolve()
    while not place.exists():
        place = place.parent
    needed = _SPARE_BYTES + _BYTES_AN_ANSWER * sum(n for _, n in benchmarks.values())
    free = shutil.disk_usage(place).free
    if free < needed:
        yield (
            f"disk: {place} has {free / _GIGABYTE:.2f} GB left, and results of this size take about "
            f"{needed / _GIGABYTE:.2f} GB. Next step: free some, or name another folder by `output`"
        )


# What scores need: the encoder of BERTScore, and judges.


def _encoder(intention: Intention, benchmarks: Mapping[str, tuple[Benchmark, int]]) -> Iterator[str]:
    """Yield that the encoder cannot be had, which leaves the main score unscored."""
    config = intention.config
    opened = [benchmark for benchmark, _ in benchmarks.values()]
    missing = {name for name, _ in intention.parts} - benchmarks.keys()
    for benchmark in [*opened, *_suites_of(missing)]:
        suite = suite_named(intention.suites.get(benchmark.name, benchmark.suite))
        is_sample = benchmark.is_sample and benchmark in opened
        name = config.encoder or (SAMPLE_ENCODER if is_sample else suite.encoder)
        # Of one's own rows main scores need no encoder: only one that was named must be there.
        is_own = benchmark in intention.opened
        if not suite.uses_encoder or name == NO_ENCODER:
            continue
        if is_own and config.encoder is None:
            continue
        try:
            _have_encoder(name, config.encoder_device)
        except RagtasksError as error:
            score = "BERTScore" if is_own else "the main score rb_alg"
            yield (
                f"encoder {name}: {score} would be unscored: {_on_one_line(error)}; or do without it: "
                "`options: {encoder: none}` in the file, --encoder none on the command line"
            )
            return


def _suites_of(names: Iterable[str]) -> Iterator[Benchmark]:
    """Yield the samples of benchmarks whose data are missing: they say how the data will be scored."""
    for name in names:
        with suppress(RagtasksError):
            yield open_benchmark(name, benchmark_folder(name, SAMPLE, data_folder()).resolve())


def _have_encoder(name: str, device: str | None) -> None:
    from ragtasks.metrics import check_device, check_encoder, resolve_encoder

    check_device(device)
    spec = resolve_encoder(name)
    _have_weights(spec.name)
    check_encoder(spec, device)


def _have_weights(name: str, instead: str = _PACKAGED) -> None:
    """Refuse weights that are in no folder and not in the cache, where the hub is not within reach."""
    if name != SAMPLE_ENCODER and not Path(name).is_dir() and not is_cached(name):
        _reach_hub(name, instead)


# What retrieval needs: corpora, and the encoders of the retriever.


def _corpora(intention: Intention, benchmarks: Mapping[str, tuple[Benchmark, int]]) -> Iterator[str]:
    """Yield which corpora are not there: a rewriter would be paid before they are read."""
    if intention.corpora is None:
        return
    for benchmark, _ in benchmarks.values():
        side = retrieval_side(benchmark.name)
        domains = side.domains_of(benchmark.tasks)
        for domain, location in intention.corpora.items():
            if domain not in domains:
                yield f"corpora: {benchmark.name} has no domain {domain!r}; {close_matches(domain, domains)}"
            elif not location.startswith("hf:") and not Path(location).expanduser().exists():
                found, next_step = missing_path(Path(location))
                yield f"corpora: {domain}: {location}: {found}. Next step: {next_step}"
        own = [domain for domain in domains if domain not in intention.corpora]
        missing = [str(file) for domain in own if not (file := side.corpus_file(benchmark.root, domain)).exists()]
        if missing:
            yield (
                f"corpora of {benchmark.name}: not there: {', '.join(missing)}. Next step: `ragtasks data fetch "
                f"{benchmark.name} --group corpora`, or name another corpus for the domain"
            )


def _retriever_encoders(intention: Intention) -> Iterator[str]:
    for name in intention.encoders:
        try:
            if find_spec("sentence_transformers") is None:
                raise MissingExtraError("sentence-transformers", "dense", f"the encoder {name}")
            _have_weights(name)
        except RagtasksError as error:
            yield f"encoder {name} of the retriever: {_on_one_line(error)}"
    for endpoint in intention.served_encoders:
        yield from _endpoint("encoder", endpoint)


def _reach_hub(name: str, instead: str) -> None:
    """Refuse a model whose weights are not here and not to be had; the hub's own library tries for half a minute."""
    from huggingface_hub import constants

    why = "HF_HUB_OFFLINE forbids to ask the hub for it"
    if not constants.HF_HUB_OFFLINE:
        request = urllib.request.Request(f"{constants.ENDPOINT}/api/models/{name}", method="HEAD")
        try:
            with urllib.request.urlopen(request, timeout=_HUB_SECONDS):
                return
        except urllib.error.HTTPError as error:
            why = f"the hub answers {error.code}"
        except (OSError, HTTPException, ValueError):
            why = "the hub is not within reach"
    raise ConfigurationError(
        f"it is in no folder here and not in the local cache, and {why}. Next step: `hf download {name}` where there "
        f"is a network; or {instead}"
    )


def _judges(config: EvaluationConfig) -> Iterator[str]:
    """Yield what judges lack before they are asked: a library, a key."""
    for judge in config.judges:
        if not isinstance(judge, HarnessModel):
            yield from _endpoint("judge", judge)


def _late_options(config: EvaluationConfig) -> Iterator[str]:
    """Yield what is wrong with options whose values are read when the first answers are there."""
    if config.model_fields_set & {"retriever", "queries"}:
        try:
            check_retrieval(config, run_store(), secret)
        except RagtasksError as error:
            yield _on_one_line(error)


def _rewriter(config: EvaluationConfig) -> Iterator[str]:
    """Yield what the model lacks that rewrites questions."""
    if config.rewriter is not None:
        yield from _endpoint("rewriter", config.rewriter)


def _endpoint(what: str, endpoint: Endpoint) -> Iterator[str]:
    try:
        ready_judge(endpoint, None)
    except RagtasksError as error:
        yield f"{what} {endpoint.model}: {_on_one_line(error).removeprefix(f'endpoint {endpoint.model}: ')}"
    else:
        yield from _key(f"{what} {endpoint.model}", endpoint)


def _model_key(model: ServedModel | None) -> Iterator[str]:
    if model is not None and model.is_of_openai and not model.headers:
        yield f"model {model.name}: {DEFAULT_KEY} is not set, and OpenAI wants a key. Next step: export {DEFAULT_KEY}"


def _key(what: str, endpoint: Endpoint) -> Iterator[str]:
    """Yield that an endpoint of OpenAI has no key."""
    if endpoint.api_key_env is None and gets_default_key(endpoint.address, secret) and not secret(DEFAULT_KEY):
        yield (
            f"{what}: {DEFAULT_KEY} is not set, and {endpoint.address} wants a key. Next step: export {DEFAULT_KEY}, "
            "or name the variable that holds it by api_key_env"
        )


# One short request to each server, all at the same time.


def _probes(intention: Intention) -> list[str]:
    probes: list[Callable[[], str | None]] = []
    if intention.model is not None and not list(_model_key(intention.model)):
        probes.append(_bound(_probe_model, intention.model))
    if intention.system is not None:
        probes.append(_bound(_probe_system, intention.system))
    config = intention.config
    judges = [("judge", one) for one in config.judges] if intention.is_scored else []
    for what, endpoint in (*judges, ("rewriter", config.rewriter)):
        if isinstance(endpoint, Endpoint) and not list(_endpoint(what, endpoint)):
            probes.append(_bound(_probe_endpoint, (what, endpoint)))
    probes += [_bound(_probe_encoder, one) for one in intention.served_encoders if not list(_endpoint("encoder", one))]
    if not probes:
        return []
    with ThreadPoolExecutor(len(probes)) as pool:
        return [problem for problem in pool.map(lambda probe: probe(), probes) if problem]


def _bound(probe: Callable[[Any], str | None], given: Any) -> Callable[[], str | None]:
    return lambda: probe(given)


def _probe_endpoint(given: tuple[str, Endpoint]) -> str | None:
    what, endpoint = given
    where = f"{what} {endpoint.model} at {endpoint.address}"
    try:
        client = OpenAIClient(endpoint, credentials_for(endpoint, secret))
    except RagtasksError:
        return None  # reported without any request
    return _probe(where, client)


def _probe_encoder(endpoint: Endpoint) -> str | None:
    """Ask for the vector of a short text: a model that makes none, or of another width, is known before a corpus."""
    client = EmbeddingClient(endpoint, credentials_for(endpoint, secret))
    return _probe(f"encoder {endpoint.model} at {endpoint.address}", client)


def _probe_system(given: tuple[Endpoint, SystemProtocol]) -> str | None:
    endpoint, protocol = given
    client = SystemClient(endpoint, protocol, secret)
    return _probe(f"endpoint {endpoint.address} ({protocol.value} protocol)", client)


def _probe_model(model: ServedModel) -> str | None:
    """Send a model a short question as the harness would: its libraries are not needed for that."""
    where = f"model {model.name} at {model.address}"
    limit = "max_completion_tokens" if model.is_of_openai else "max_tokens"
    body: dict[str, Any] = {"model": model.name, limit: _FEW_TOKENS}
    body |= {"messages": [{"role": "user", "content": _QUESTION}]} if model.is_chat else {"prompt": _QUESTION}
    try:
        client = model_client(model.name, model.address, model.headers)
    except ConfigurationError as error:
        return f"{where}: {_on_one_line(error)}. Next step: such as base_url=http://localhost:8000/v1/completions"
    try:
        reply = client.probe(Prompt((), body=body), _SECONDS)
    except MissingExtraError as error:
        return f"{where}: {_on_one_line(error)}"
    # A slow server is none: the evaluation waits longer. What a reply contains is for the evaluation to score.
    return None if reply.raw or reply.reason == SLOW else _no_answer(where, reply.reason)


def _probe(where: str, client: OpenAIClient) -> str | None:
    """Return why there is no answer to a short question; a strange one is for the evaluation to score."""
    prompt = Prompt((ChatMessage("user", _QUESTION),), body={"id": "preflight"}, kind="answer")
    try:
        reply = client.probe(prompt, _SECONDS)
    except RagtasksError as error:
        return _no_answer(where, _on_one_line(error))
    if reply.outcome in {Outcome.ANSWERED, Outcome.TRUNCATED} or reply.reason.startswith("the reply has no"):
        return None
    return _no_answer(where, reply.reason)


def _no_answer(where: str, why: str) -> str:
    step = "start the server, or correct address, model or key (docs/endpoints.md)"
    cached = _CACHED if where.startswith(("judge ", "encoder ")) else ""
    return f"{where}: {why}. Next step: {step}{cached}"


def _on_one_line(error: Exception | str) -> str:
    """Return an error as one line; its five parts stand on lines of their own elsewhere."""
    lines = [line.strip() for line in masked_text(str(error)).splitlines() if line.strip()]
    rest = [
        line.removeprefix("found: ").removeprefix("expected: ")
        for line in lines
        if line.startswith("expected: did you mean") or not line.startswith(("expected: ", "next step: "))
    ]
    steps = [f". Next step: {line.removeprefix('next step: ')}" for line in lines if line.startswith("next step: ")]
    return "; ".join(rest) + "".join(steps)


# What the prompts take of the model's context.


_OF_OPENAI = re.compile(r"(?:gpt-\d|chatgpt|o\d\b)", re.IGNORECASE)  # gpt-oss and gpt2 have weights

_IS_KIND = re.compile(r"(?:[a-z]+-)*completions|hf|vllm|sglang")


def _weights(name: str | None) -> Iterator[str]:
    """Yield that a folder stands in the way of weights of the hub, which loaders take first, or that there are none."""
    if name is not None and _OF_OPENAI.match(name) and not Path(name).exists():
        yield f"model {name}: it has no weights to be loaded here. Next step: OpenAI's own is openai/{name}"
    if name is not None and _IS_KIND.fullmatch(name) and not Path(name).exists():
        yield (
            f"model {name}: this is the harness's name of a kind of model. Next step: write `kind: {name}`, and the "
            "model's own name as `name`"
        )
    if name is not None and Path(name).is_dir() and not is_model_folder(name):
        yield (
            f"model {name}: the folder {Path(name).resolve()} is taken for it, and holds no model. Next step: name the "
            "right folder; or, if results of the model lie there, rename it or start from another folder"
        )


_TOLERANCE = 1.25  # of an estimate, where weights in this process are asked with their own tokeniser


def _context(intention: Intention, *, asks_server: bool) -> Iterator[str]:
    """Yield each setting with prompts that the model's context does not hold, as far as it is known before it runs."""
    config = intention.config
    context = config.context_tokens
    if context is None and intention.model is not None and asks_server:
        from ragtasks.harness.prompts import context_of_server

        context = context_of_server(intention.model.address, intention.model.name, intention.model.headers)
    if context is None and intention.weights is not None:
        context = _context_of_weights(intention.weights)
    if context is None or not intention.tasks or config.too_long != "refuse":
        return
    from ragtasks.harness.planning import plan
    from ragtasks.scoring.planning import estimated_tokens

    count = _count(intention)
    is_estimate = count is estimated_tokens
    tolerance = _TOLERANCE if is_estimate and intention.weights is not None else 1.0
    with progress_bars() as progress:
        plans, _ = plan(
            intention.tasks,
            intention.options,
            count,
            with_judges=False,
            reply_tokens=intention.reply_tokens,
            progress=progress,
        )
    for item in plans:
        room = int(context * tolerance)
        n_long = sum(tokens + item.reply_tokens > room for tokens in item.tokens)
        if n_long:
            has = "has about" if is_estimate else "has"
            yield (
                f"context: {n_long} of {len(item.tokens)} prompts of {item.name} do not fit: the longest {has} "
                f"{item.tokens[-1]:,} tokens and its reply up to {item.reply_tokens:,}, and the model's context is "
                f"{context:,}. Next step: a server with a larger context, or `options: {{too_long: drop_passages}}`"
            )


def _count(intention: Intention) -> Count:
    """Return what counts the tokens of a prompt; the estimate where the model's tokeniser is not beside its weights."""
    from ragtasks.scoring.planning import counter, estimated_tokens

    if intention.tokenizer is not None:
        return counter(intention.tokenizer)
    try:
        return counter(_tokenizer_here(intention))
    except RagtasksError:
        return estimated_tokens


def _tokenizer_here(intention: Intention) -> str | None:
    """Return the model whose tokeniser is on this machine: the weights, or those that a server has under that name."""
    name = intention.weights or (intention.model.name if intention.model is not None else "")
    if not name or find_spec("transformers") is None:
        return None
    return name if is_model_folder(name) or is_cached(name) else None


def _context_of_weights(name: str) -> int | None:
    """Return the positions that the configuration of weights has, where it lies here."""
    from huggingface_hub import try_to_load_from_cache

    file = Path(name) / "config.json"
    if not file.is_file():
        try:
            cached = try_to_load_from_cache(name, "config.json")
        except ValueError:  # no name of the hub
            return None
        file = Path(cached) if isinstance(cached, str) else file
    try:
        found = json.loads(file.read_bytes()).get("max_position_embeddings")
    except (OSError, ValueError, AttributeError):
        return None
    return found if isinstance(found, int) and found > 0 else None


# From what the harness is asked for to what is looked at.


def intention_of(request: Request) -> Intention:
    """Return what the harness's arguments come to."""
    from ragtasks.harness.tasks import parts_of

    config = config_from_metadata(request.metadata)
    parts = parts_of(request.tasks)
    of_conversations = [part for part in parts if part.suite is None]
    is_model = not request.model.startswith(("ragtasks-", "dummy"))
    return Intention(
        parts=[(part.benchmark, part.setting) for part in parts],
        config=config,
        output=request.output,
        model=_served(request),
        system=_system(request),
        suites={part.benchmark: part.suite for part in parts if part.suite is not None},
        tasks=request.tasks if is_model and of_conversations == parts and parts and not request.limit else (),
        options={key: value for key, value in request.metadata.items() if key in KEYS},
        reply_tokens=request.reply_tokens,
        weights=str(request.model_args.get("pretrained") or "") or None,
    )


def _served(request: Request) -> ServedModel | None:
    if not request.model.endswith("completions"):
        return None
    is_of_openai = request.model.startswith("openai-") and "base_url" not in request.model_args
    is_chat = "chat" in request.model
    path = "/chat/completions" if is_chat else "/completions"
    address = request.model_args.get("base_url") or (f"{OPENAI_URL}{path}" if is_of_openai else None)
    if address is None or "model" not in request.model_args:
        return None  # the harness says what it lacks
    key = secret(DEFAULT_KEY)
    headers = request.model_args.get("header") or ({"Authorization": f"Bearer {key}"} if key else {})
    name = str(request.model_args["model"])
    return ServedModel(name, str(address), dict(headers), is_chat=is_chat, is_of_openai=is_of_openai)


def _system(request: Request) -> tuple[Endpoint, SystemProtocol] | None:
    if request.model != "ragtasks-endpoint":
        return None
    options = {key: value for key, value in request.model_args.items() if key != "num_concurrent"}
    return system_endpoint(options, str(options.get("model", "rag-system")), "openai")
