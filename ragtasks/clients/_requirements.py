"""Requirements of servers: libraries, a key, a reply to one short request, a list of models."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from http.client import HTTPException
from typing import Any

from ragtasks.clients._completion import SHORT_CONTEXT, words_in
from ragtasks.clients._credentials import DEFAULT_KEY, Credentials, Secrets, credentials_for, gets_default_key
from ragtasks.clients._embeddings import EmbeddingClient
from ragtasks.clients._endpoint import Endpoint
from ragtasks.clients._failures import SLOW
from ragtasks.clients._openai_client import OpenAIClient
from ragtasks.clients._protocol import Outcome, Prompt
from ragtasks.clients._system_client import SystemClient, SystemProtocol
from ragtasks.errors import ConfigurationError, ModelError, RagtasksError, one_line
from ragtasks.requirements import Phase, Requirement, library
from ragtasks.tables import plain

PROBE_QUESTION = "Reply with the word ready."
_MOST_BYTES = 4_000
_OTHER_PROTOCOL = "; --protocol plain is for a system that accepts an object with `id` and `messages`"
_CACHED = "; --no-probe skips this request, if all replies are cached"


def endpoint_requirements(endpoint: Endpoint, role: str, secrets: Secrets) -> list[Requirement]:
    """Return the requirements of a chat model behind a server; `role` is its task, such as `judge`."""
    return _server_requirements(endpoint, role, secrets, OpenAIClient, hint=_CACHED if role == "judge" else "")


def judge_requirements(judges: Iterable[object], secrets: Secrets) -> list[Requirement]:
    """Return the requirements of judges behind servers; the harness loads other judges in this process."""
    endpoints = [judge for judge in judges if isinstance(judge, Endpoint)]
    return [requirement for endpoint in endpoints for requirement in endpoint_requirements(endpoint, "judge", secrets)]


def encoder_endpoint_requirements(endpoint: Endpoint, secrets: Secrets) -> list[Requirement]:
    """Return the requirements of an encoder behind a server; its probe requests the vector of a short text."""
    return _server_requirements(endpoint, "encoder", secrets, EmbeddingClient, hint=_CACHED)


def system_requirements(endpoint: Endpoint, protocol: SystemProtocol, secrets: Secrets) -> list[Requirement]:
    """Return the requirements of the user's own system behind an address."""
    where = f"endpoint {endpoint.address} ({protocol.value} protocol)"
    hint = _OTHER_PROTOCOL if protocol is SystemProtocol.OPENAI else ""

    def client(*_: object) -> SystemClient:
        return SystemClient(endpoint, protocol, secrets)

    return _server_requirements(endpoint, "endpoint", secrets, client, where=where, hint=hint)


def _server_requirements(
    endpoint: Endpoint,
    role: str,
    secrets: Secrets,
    client: Callable[[Endpoint, Credentials], OpenAIClient],
    *,
    where: str = "",
    hint: str = "",
) -> list[Requirement]:
    """Return the requirements of libraries, a key, and a reply; a truncated reply, or one without a text, is enough."""
    label = f"{role} {endpoint.model}"
    where = where or f"{label} at {endpoint.address}"

    def reply() -> str:
        prompt = replace(Prompt.of(PROBE_QUESTION, kind="answer"), body={"id": "preflight"})
        try:
            probe_reply = client(endpoint, credentials_for(endpoint, secrets)).probe(prompt)
        except RagtasksError as error:
            raise ModelError(no_reply(where, one_line(error)) + hint) from None
        if probe_reply.reason == SLOW:  # no problem: the evaluation waits longer
            return f"{endpoint.address} accepts requests and is slow"
        is_odd = probe_reply.reason.startswith("the reply has no")
        if probe_reply.outcome not in {Outcome.ANSWERED, Outcome.TRUNCATED} and not is_odd:
            raise ModelError(no_reply(where, probe_reply.reason) + hint)
        return f"{endpoint.address} replies"

    return [
        *(library(name, "judge", label) for name in ("openai", "aiohttp")),
        Requirement("key", label, partial(_key, endpoint, label, secrets)),
        Requirement("endpoint", label, reply, phase=Phase.REQUEST),
    ]


def _key(endpoint: Endpoint, label: str, secrets: Secrets) -> str:
    """Return which variable contains the key of an endpoint.

    Raises:
        ConfigurationError: a required key is not set.
    """
    try:
        credentials = credentials_for(endpoint, secrets)
    except RagtasksError as error:
        raise ConfigurationError(f"{label}: {one_line(error).removeprefix(f'endpoint {endpoint.model}: ')}") from None
    if credentials.key:
        return f"{endpoint.api_key_env or DEFAULT_KEY} is set"
    if gets_default_key(endpoint.address, secrets):
        raise ConfigurationError(
            f"{label}: {DEFAULT_KEY} is not set, and {endpoint.address} requires a key. Next step: export "
            f"{DEFAULT_KEY}, or name its variable in api_key_env"
        )
    return "no key is sent"


def no_reply(where: str, why: str) -> str:
    """Return the message for a failed probe, with the next step."""
    if "Next step: " in why:
        return f"{where}: {why}"
    step = "see the server's log, or correct address, model or key (docs/endpoints.md)"
    if why.startswith(SHORT_CONTEXT):
        step = "lower max_tokens and thinking_tokens, or start the server with a larger context"
    return f"{where}: {why.rstrip('.')}. Next step: {step}"


def listed_models(base_url: str, headers: Mapping[str, str], seconds: float) -> list[Any]:
    """Return the rows of a server's list of models, without the SDK; redirects, which would leak keys, are refused.

    Raises:
        ModelError: the HTTP status, or why there is no list.
    """
    try:
        request = urllib.request.Request(f"{base_url.rstrip('/')}/models", headers=dict(headers))
        with urllib.request.build_opener(_NoRedirect).open(request, timeout=seconds) as reply:
            return list(json.load(reply)["data"])
    except urllib.error.HTTPError as error:
        with error:
            words = words_in(error.read(_MOST_BYTES))
        raise ModelError(f"HTTP {error.code}{f': {words}' if words else ''}") from None
    except (OSError, HTTPException, ValueError, LookupError, TypeError) as error:
        raise ModelError(f"no answer ({type(getattr(error, 'reason', error)).__name__})") from None


def model_names(address: str, secrets: Secrets, seconds: float) -> list[str]:
    """Return the names in a server's list of models; the default key is sent to OpenAI and OPENAI_BASE_URL only."""
    key = secrets(DEFAULT_KEY) if gets_default_key(address, secrets) else None
    rows = listed_models(address, {"Authorization": f"Bearer {key}"} if key else {}, seconds)
    return [plain(str(row["id"])) for row in rows if isinstance(row, dict) and row.get("id")]


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: object) -> None:
        """Return None: do not follow."""
