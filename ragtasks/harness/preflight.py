"""Requirements of an evaluation with the harness: data, scores, and the model's key, server, weights and context."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragtasks.clients import (
    DEFAULT_KEY,
    ERROR_REPLY,
    OPENAI_URL,
    PROBE_QUESTION,
    SLOW,
    Outcome,
    Prompt,
    model_client,
    no_reply,
    system_endpoint,
    system_requirements,
)
from ragtasks.config import KEYS, HarnessModel, config_from_metadata
from ragtasks.config.environment import data_folder, run_store, secret
from ragtasks.errors import ConfigurationError, ModelError, RagtasksError, missing_path, one_line
from ragtasks.files import is_cached, is_model_folder, model_configuration
from ragtasks.harness.extras import extra_of, vllm_requirement
from ragtasks.harness.model_folder import check_model_folder
from ragtasks.progress import progress_bars
from ragtasks.requirements import Phase, Requirement, library
from ragtasks.scoring import Folders, estimated_tokens, evaluation_requirements, token_counter

if TYPE_CHECKING:
    from ragtasks.harness.run import Request

_SECONDS = 20.0  # timeout of one short request
_FEW_TOKENS = 16


def run_requirements(
    request: Request, *, tokenizer: str | None = None, with_requests: bool = True
) -> list[Requirement]:
    """Return the requirements of an evaluation with these harness arguments.

    `tokenizer` counts prompt tokens; None uses the tokenizer of the weights, or an estimate.
    """
    from ragtasks.harness.tasks import task_settings

    settings = task_settings(request.tasks)
    suites = {row.benchmark: row.suite for row in settings if row.suite is not None}
    server, config = server_of(request), config_from_metadata(request.metadata)
    requirements = evaluation_requirements(
        [(row.benchmark, row.setting) for row in settings],
        config,
        request.output,
        Folders(data_folder(), run_store()),
        suites=suites,
    )
    requirements += [] if server is None else _server_requirements(request, *server)
    judges = [(judge.lm_eval, judge.arguments) for judge in config.judges if isinstance(judge, HarnessModel)]
    loaded = [(request.model, request.model_args), *judges]
    if any(extra_of(model) == "vllm" for model, _ in loaded):
        requirements.append(vllm_requirement())
    requirements += [
        Requirement("weights", f"model {arguments['pretrained']}", partial(_check_weights, model, arguments))
        for model, arguments in loaded
        if arguments.get("pretrained")
    ]
    if request.model == "ragtasks-endpoint":
        options = {key: value for key, value in request.model_args.items() if key != "num_concurrent"}
        system = system_endpoint(options, str(options.get("model", "rag-system")), "openai")
        requirements += system_requirements(*system, secret)
    has_prompts = not request.model.startswith(("ragtasks-", "dummy")) and not request.limit
    if has_prompts and settings and not suites:
        check = partial(_check_context, request, tokenizer, server if with_requests else None)
        requirements.append(Requirement("context", "prompts", check, phase=Phase.PROMPTS))
    return requirements


def server_of(request: Request) -> tuple[str, dict[str, str]] | None:
    """Return the address that the harness will send prompts to, and its headers, which may contain a key."""
    if not request.model.endswith("completions") or "model" not in request.model_args:
        return None  # the harness reports a missing name
    path = "/chat/completions" if "chat" in request.model else "/completions"
    default = f"{OPENAI_URL}{path}" if request.model.startswith("openai-") else None
    address = request.model_args.get("base_url") or default
    key = secret(DEFAULT_KEY)
    headers = request.model_args.get("header") or ({"Authorization": f"Bearer {key}"} if key else {})
    return None if address is None else (str(address), dict(headers))


def _server_requirements(request: Request, address: str, headers: dict[str, str]) -> list[Requirement]:
    """Return the requirements of a model behind a server: a key for OpenAI, and a reply."""
    name = str(request.model_args["model"])
    part = f"model {name}"

    def key() -> str:
        if not headers and request.model.startswith("openai-") and "base_url" not in request.model_args:
            raise ConfigurationError(
                f"{part}: {DEFAULT_KEY} is not set, and OpenAI requires a key. Next step: export {DEFAULT_KEY}"
            )
        return "a key is sent" if headers else "no key is sent"

    def reply() -> str:
        location, is_chat = f"{part} at {address}", "chat" in request.model
        messages = {"messages": [{"role": "user", "content": PROBE_QUESTION}]}
        body = {"model": name, "max_tokens": _FEW_TOKENS, **(messages if is_chat else {"prompt": PROBE_QUESTION})}
        try:
            source = "--model_args header" if request.model_args.get("header") else DEFAULT_KEY
            client = model_client(name, address, headers, key_source=source)
        except ConfigurationError as error:
            example = "base_url=http://localhost:8000/v1/completions"
            raise ConfigurationError(f"{location}: {one_line(error)}. Next step: such as {example}") from None
        probed = client.probe(Prompt((), body=body), _SECONDS)
        is_error = probed.reason.startswith(ERROR_REPLY) or (is_chat and probed.outcome is Outcome.MALFORMED)
        # A slow server is no problem: the evaluation waits longer. Any other reply is accepted here and scored later.
        if (is_error or not probed.raw) and probed.reason != SLOW:
            raise ModelError(no_reply(location, probed.reason))
        return f"{address} replies"

    needed = [library("openai", "api", part), Requirement("key", part, key)]
    return [*needed, Requirement("endpoint", part, reply, phase=Phase.REQUEST)]


_OPENAI_NAME = re.compile(r"(?:gpt-\d|chatgpt|o\d\b)", re.IGNORECASE)  # gpt-oss and gpt2 have weights
_MODEL_TYPE = re.compile(r"(?:[a-z]+-)*completions|hf|vllm|sglang")
_PATH = re.compile(r"[./~\\]|[^/]*/[^/]*/|.*[/\\]$")  # names on the hub are NAME or OWNER/NAME


def _check_weights(model: str, arguments: Mapping[str, Any]) -> str:
    """Reject names that cannot be weights, and folders without a model, which loaders prefer to the hub."""
    name, problem = str(arguments["pretrained"]), ""
    folder = Path(name) / str(arguments.get("subfolder") or "")
    if not Path(name).exists() and _OPENAI_NAME.match(name):
        problem = f"it has no weights to load. Next step: use openai/{name}"
    elif not Path(name).exists() and _MODEL_TYPE.fullmatch(name):
        problem = (
            f"this is a model type of lm_eval. Next step: write `kind: {name}`, and the model's own name as `name`"
        )
    elif name.startswith("~") and Path(name).expanduser().exists():
        problem = f"loaders do not expand `~`. Next step: write {Path(name).expanduser()}"
    elif not Path(name).exists() and _PATH.match(name):
        found, next_step = missing_path(Path(name))
        problem = f"{found}. Next step: {next_step}; a hub name is OWNER/NAME"
    elif Path(name).is_dir() and not is_model_folder(folder):
        problem = (
            f"the folder {folder.resolve()} takes precedence and contains no model. Next step: name the right "
            "folder, or, if it contains results of the model, rename it or run from another folder"
        )
    if problem:
        raise ConfigurationError(f"model {name}: {problem}")
    check_model_folder(model, arguments)
    return name


# The context length of the model, as far as it is known before the run.

_TOLERANCE = 1.25  # tolerance of an estimate for local weights with their own tokenizer


def _check_context(request: Request, tokenizer: str | None, server: tuple[str, dict[str, str]] | None) -> str:
    """Reject prompts that exceed the model's context, if it is known and the policy is `refuse`."""
    from ragtasks.harness.planning import plan
    from ragtasks.harness.prompts import context_of_server

    config, weights = config_from_metadata(request.metadata), str(request.model_args.get("pretrained") or "")
    context = config.context_tokens
    if context is None and server is not None:
        context = context_of_server(server[0], request.model_args["model"], server[1])
    if context is None and weights:
        positions = model_configuration(weights).get("max_position_embeddings")
        context = positions if isinstance(positions, int) and positions > 0 else None
    if context is None:
        return "the model's context is unknown"
    if config.too_long != "refuse":
        return f"prompts are cut to {context:,} tokens"
    name = weights or str(request.model_args.get("model") or "")
    has_tokenizer = name and find_spec("transformers") is not None and (is_model_folder(name) or is_cached(name))
    count = token_counter(tokenizer)
    if tokenizer is None and has_tokenizer:
        with suppress(RagtasksError):  # the model's tokenizer cannot be loaded, so the estimate is used
            count = token_counter(name)
    is_estimate = count is estimated_tokens
    room = int(context * (_TOLERANCE if is_estimate and weights else 1.0))
    options = {key: value for key, value in request.metadata.items() if key in KEYS}
    with progress_bars() as progress:
        plans, _ = plan(
            request.tasks, options, count, with_judges=False, reply_tokens=request.reply_tokens, progress=progress
        )
    has = "has about" if is_estimate else "has"
    problems = [
        f"{n_long} of {len(row.tokens)} prompts of {row.name} do not fit: the longest {has} {row.tokens[-1]:,} "
        f"tokens and its reply up to {row.reply_tokens:,}"
        for row in plans
        if (n_long := sum(tokens + row.reply_tokens > room for tokens in row.tokens))
    ]
    if problems:
        raise ConfigurationError(
            f"context: {'; '.join(problems)}; and the model's context is {context:,}. Next step: a server with a "
            "larger context, or `options: {too_long: drop_passages}`"
        )
    return f"every prompt fits {context:,} tokens"
