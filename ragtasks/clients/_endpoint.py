"""Endpoints, given as one line or a small mapping: model, address, request settings, limits and timeouts.

Judges, rewriters and rerankers all use this format (table in docs/endpoints.md). It has no field for a key: keys come
from the environment, through the outermost layer. An address that contains a key is refused, because addresses are
logged.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

import orjson
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_serializer, field_validator, model_validator

from ragtasks.clients._completion import TOKEN_LIMITS, parts_of, read_completion, text_and_thought
from ragtasks.clients._protocol import Decoding, Outcome, Prompt, Reply
from ragtasks.errors import ConfigurationError, close_matches, misfits
from ragtasks.thoughts import split_thought

OPENAI_URL = "https://api.openai.com/v1"
_OPENAI_PREFIX = "openai/"
_PLAIN_NAME = re.compile(r"(?!sk)[A-Za-z0-9._-]{1,40}")
_LONGEST_REPLY_SECONDS, _LONGEST_THOUGHT_SECONDS = 180.0, 600.0
_NO_THINKING = frozenset({"none", "minimal"})
_RESERVED_FIELDS = frozenset({"model", "messages", "stream", "n"})
Amounts = Annotated[tuple[Annotated[float, Field(ge=0, allow_inf_nan=False)], ...], Field(min_length=2, max_length=3)]
"""A `Price` as users write it."""
PRESETS: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {"mtrag-un-official": {"model": "openai/gpt-oss-120b", "temperature": "server", "max_tokens": 8192}}
)
"""Name in place of a model -> its settings; the user adds the address.

The judge of MTRAG-UN (paper, section 3.1) as the official scripts call it behind vLLM (cc5b1d4): without a temperature,
and without a limit, for which 8192 tokens leave room to think.
"""


class Endpoint(BaseModel):
    """An OpenAI-compatible endpoint and one of its models."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    model: str = Field(min_length=1, description="the model's name at the endpoint; `openai/NAME` is OpenAI's own")
    base_url: str | None = Field(None, description="address, such as http://localhost:8001/v1; default: OpenAI's")
    api_version: str | None = Field(None, description="Azure's API version; base_url is then the resource's address")
    slots: int = Field(64, ge=1, description="requests open at once")
    requests_per_minute: int | None = Field(None, ge=1, description="limit of the account")
    tokens_per_minute: int | None = Field(None, ge=1, description="limit of the account, prompt and reply together")
    timeout_seconds: float | None = Field(
        None, gt=0, description="maximum time for one complete reply; default: 180, or 600 with reasoning_effort"
    )
    patience_seconds: float | None = Field(
        None,
        gt=0,
        description="maximum time for one prompt over all attempts, without waits for rate limits; default: twice "
        "timeout_seconds",
    )
    rate_limit_patience_seconds: float = Field(
        3600.0, gt=0, description="maximum time without a reply because of rate limits"
    )
    attempts: int = Field(
        10, ge=1, description="maximum requests for one prompt, the first included, after transport errors"
    )
    backoff_seconds: float = Field(0.5, gt=0, description="wait before the second attempt; doubles each time")
    longest_backoff_seconds: float = Field(30.0, gt=0, description="maximum wait between attempts")
    temperature: float | Literal["server"] | None = Field(
        None, description="0 by default; `server` omits it, for the server's default"
    )
    max_tokens: int | None = Field(None, ge=1, description="maximum tokens of an answer; default: 1024")
    reasoning_effort: str | None = Field(None, min_length=1, description="amount of thinking, such as `low`")
    thinking_tokens: int = Field(
        8192, ge=0, description="added to max_tokens with reasoning_effort, or after a reply of thinking only"
    )
    extra_body: str = Field("{}", description="object with further fields of the request's body")
    structured: bool = Field(
        False,
        description="constrain judges' replies to their JSON schema (`response_format`), if the server supports it",
    )
    api_key_env: str | None = Field(
        None, pattern=r"^[A-Za-z_][A-Za-z0-9_]*$", description="environment variable that contains the server's key"
    )
    token_limit: Literal["max_tokens", "max_completion_tokens"] | None = Field(
        None, description="the server's name for the reply limit; default: by endpoint"
    )
    shared_replies: bool = Field(
        False, description="use cached replies of this model's name from any address; default: this address only"
    )
    price: Amounts | None = Field(
        None,
        description="dollars per million tokens of prompts, of replies and, optionally, of prompt tokens that "
        "the server had cached; only to report the cost",
    )

    @field_validator("temperature", mode="before")
    @classmethod
    def _is_temperature(cls, value: Any) -> Any:
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool) and value >= 0
        if value is None or is_number or value == "server":
            return value
        raise ValueError("expected a number of 0 or more, or `server`")

    @field_validator("extra_body", mode="before", json_schema_input_type=dict[str, Any])
    @classmethod
    def _canonical(cls, value: Any) -> str:
        fields = _object_in(value) if isinstance(value, str) else value
        if not isinstance(fields, Mapping) or not all(isinstance(name, str) for name in fields):
            raise ValueError('must be an object, such as {"top_p": 0.9}')
        if own := sorted(_RESERVED_FIELDS & fields.keys()):
            raise ValueError(f"must not contain {', '.join(own)}")
        try:
            return json.dumps(fields, sort_keys=True, ensure_ascii=False, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise ValueError("must contain plain JSON values") from error

    @field_serializer("extra_body")
    def _as_object(self, value: str) -> Any:
        return json.loads(value)

    @field_validator("api_key_env")
    @classmethod
    def _is_variable_name(cls, value: str | None) -> str | None:
        if value is not None and value.startswith("sk"):
            raise ValueError("must be the name of an environment variable, not the key itself")
        return value

    @model_validator(mode="after")
    def _address_is_plain(self) -> Endpoint:
        if self.base_url is None:
            if self.api_version is not None:
                raise ValueError("api_version needs base_url, the address of the Azure resource")
            if not self.model.startswith(_OPENAI_PREFIX):
                # A name that may be a key, or an address with a password, is not shown.
                name = self.model if _PLAIN_NAME.fullmatch(self.model) else "NAME"
                raise ValueError(
                    f"write openai/{name} for a model of OpenAI; any other model needs base_url, the address of its "
                    f"server: {name},base_url=http://localhost:8000/v1"
                )
            return self
        parts = urlsplit(self.base_url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("base_url must begin with http:// or https:// and name a host")
        if "@" in parts.netloc or parts.query or parts.fragment:
            raise ValueError("base_url must not contain a user, a password or a query: keys come from the environment")
        return self

    @property
    def address(self) -> str:
        """URL of the server; contains no secret."""
        return self.base_url or OPENAI_URL

    @property
    def origin(self) -> str:
        """Scheme, host, port and path of the address, part of the cache key; empty with `shared_replies`."""
        if self.shared_replies:
            return ""
        parts = urlsplit(self.address)
        port = parts.port or (443 if parts.scheme == "https" else 80)
        return f"{parts.scheme}://{_host(parts.hostname)}:{port}{parts.path.rstrip('/')}"

    @property
    def extra_fields(self) -> dict[str, Any]:
        """Further fields of a request's body."""
        fields: dict[str, Any] = json.loads(self.extra_body)
        return fields

    @property
    def thinks(self) -> bool:
        """Whether requests enable thinking: `reasoning_effort` is set, and is neither `none` nor `minimal`."""
        return self.reasoning_effort is not None and self.reasoning_effort not in _NO_THINKING

    @property
    def longest_reply_seconds(self) -> float:
        """Longest duration of one request in seconds, from its first byte to the last byte of its reply."""
        return self.timeout_seconds or (_LONGEST_THOUGHT_SECONDS if self.thinks else _LONGEST_REPLY_SECONDS)

    @property
    def longest_prompt_seconds(self) -> float:
        """Longest duration of one prompt in seconds over all attempts, without waits for rate limits."""
        return self.patience_seconds or 2 * self.longest_reply_seconds

    @property
    def server_model(self) -> str:
        """The model's name at the endpoint."""
        return self.model if self.base_url else self.model.removeprefix(_OPENAI_PREFIX)

    @property
    def token_limit_field(self) -> str:
        """The endpoint's name for the reply limit: OpenAI's newer models refuse the older name."""
        return self.token_limit or ("max_tokens" if self.base_url else "max_completion_tokens")


def _host(name: str | None) -> str:
    """Return a host as written in an address; IPv6 addresses get brackets."""
    return f"[{name}]" if name and ":" in name else name or ""


def endpoint_of(named: str | Mapping[str, Any], label: str = "endpoint") -> Endpoint:
    """Return the endpoint that a line or a mapping describes; `label` is its name in errors.

    Raises:
        ConfigurationError: the description is empty, or a key or a value is invalid.
    """
    if not named:
        raise ConfigurationError(
            f"{label}: no endpoint is given. Next step: give openai/NAME, or set the variable it is read from"
        )
    if not isinstance(named, (str, Mapping)):
        raise ConfigurationError(f"{label}: expected a name, such as openai/NAME, or keys with values")
    fields = _fields_of_line(named, label) if isinstance(named, str) else dict(named)
    if is_preset(fields.get("model")):
        fields = _with_preset(fields, label)
    elif near := difflib.get_close_matches(str(fields.get("model")), PRESETS, n=1, cutoff=0.8):
        raise ConfigurationError(f"{label}: no model or preset {fields['model']!r}; did you mean {near[0]}?")
    for key in fields.keys() - Endpoint.model_fields.keys():
        raise ConfigurationError(f"{label}: unknown key {key!r}: {close_matches(str(key), Endpoint.model_fields)}")
    failures: list[str] = []
    try:
        return Endpoint.model_validate(fields)
    except ValidationError as error:
        failures = misfits(error, "")
    # Raised outside the handler: the chained error would show the values, and with them a key in an address.
    raise ConfigurationError(f"{label}: " + "; ".join(failures))


def is_preset(named: Any) -> bool:
    """Return whether an endpoint, as a line or a mapping, names a preset."""
    model = named.get("model") if isinstance(named, Mapping) else str(named).partition(",")[0].strip()
    return isinstance(model, str) and model in PRESETS


def _with_preset(fields: Mapping[str, Any], label: str) -> dict[str, Any]:
    """Return the fields with the settings of their preset; fields that are given take precedence."""
    name, given = fields["model"], {key: value for key, value in fields.items() if key != "model"}
    if not given.get("base_url"):
        raise ConfigurationError(
            f"{label}: {name} needs base_url, the address of a server with {PRESETS[name]['model']}: "
            f"{name},base_url=http://localhost:8001/v1"
        )
    return {**PRESETS[name], **given}


def _fields_of_line(line: str, label: str) -> dict[str, Any]:
    """Return the fields in a line; errors show no value, since an address may contain a password."""
    if line.lstrip().startswith("{"):
        try:
            return _object_in(line)
        except ValueError as error:
            raise ConfigurationError(f"{label}: {error}") from None
    model, *options = line.split(",")
    fields: dict[str, Any] = {"model": model.strip()}
    for option in options:
        key, sign, value = option.partition("=")
        if not sign or key.strip() in fields:
            raise ConfigurationError(
                f"{label}: expected openai/NAME, NAME,base_url=ADDRESS with each option once, or a JSON object"
            )
        fields[key.strip()] = _value(value.strip())
    return fields


def _object_in(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        position = f" ({error.msg}, character {error.pos})" if isinstance(error, json.JSONDecodeError) else ""
        raise ValueError(f"expected a JSON object, found broken JSON{position}") from None
    if not isinstance(value, dict):
        raise ValueError("expected a JSON object")
    return value


def _value(text: str) -> Any:
    """Return a number, a JSON literal or a quoted text as its value, and any other text unchanged."""
    try:
        return json.loads(text)
    except ValueError:
        return text


# The dialect of one server: the settings that are sent, their names, and the maximum reply length. Servers that claim
# to be compatible may refuse a temperature, a seed, a role or the name of a limit. After the first refusal, the setting
# is left out or renamed, and a warning is logged.

_FORMAT = "response_format"
_LIMITS = dict(zip(TOKEN_LIMITS, reversed(TOKEN_LIMITS), strict=True))
SYSTEM_ROLE = "system role"
"""Key of the system role in `Dialect.learned`: some servers refuse it."""


class Dialect:
    """Builds the requests to one server, parses its replies, and learns which settings it refuses."""

    path = "/chat/completions"
    """Path of requests below the address; empty for the address itself."""
    can_make_room = True
    """Whether `make_room` may raise the limit; False if the caller sets it, or replies have no thinking."""

    def __init__(self, endpoint: Endpoint, decoding: Decoding) -> None:
        self._endpoint, self._decoding = endpoint, decoding
        self._makes_room = endpoint.thinks
        self.learned: dict[str, str | None] = {}
        """Setting that the server refused -> its replacement, or None if it is left out."""

    @property
    def longest_reply(self) -> int:
        """Maximum tokens of a reply, thinking included."""
        return self._decoding.max_tokens + (self._endpoint.thinking_tokens if self._makes_room else 0)

    def request(self, prompt: Prompt) -> dict[str, Any]:
        """Return the body of a request, without the settings that the server refused."""
        body = self._body(prompt)
        for refused, instead in self.learned.items():
            if refused == SYSTEM_ROLE:
                body["messages"] = without_system(body["messages"])
            elif refused in body:
                value = body.pop(refused)
                if instead is not None:
                    body[instead] = value
        return body

    def _body(self, prompt: Prompt) -> dict[str, Any]:
        """Return the body of a request to a server that accepts every setting."""
        settings = {
            "temperature": self._decoding.temperature,
            "seed": self._decoding.seed,
            self._endpoint.token_limit_field: self.longest_reply * prompt.longer,
            "reasoning_effort": self._endpoint.reasoning_effort,
            _FORMAT: self._format(prompt),
        }
        return {
            "model": self._endpoint.server_model,
            "messages": prompt.payload(),
            **{name: value for name, value in settings.items() if value is not None},
            **self._endpoint.extra_fields,
            **prompt.body,
        }

    def _format(self, prompt: Prompt) -> dict[str, Any] | None:
        if not self._endpoint.structured or prompt.schema is None:
            return None
        return {"type": "json_schema", "json_schema": {"name": "reply", "schema": dict(prompt.schema)}}

    def read(self, body: bytes, sent: Mapping[str, Any]) -> Reply:
        """Return the reply in the body of a response to the request `sent`.

        Raises:
            ValueError: the body is not JSON.
        """
        return read_completion(body)

    def adapt(self, setting: str, sent: Mapping[str, Any]) -> str | None:
        """Leave out or rename a refused setting.

        Returns:
            A note for the user, empty if the setting was refused before; None if the request cannot be changed.
        """
        is_sent = has_system(sent) if setting == SYSTEM_ROLE else setting in sent
        if not is_sent or setting in self._endpoint.extra_fields:
            return None
        if setting in self.learned:
            return ""  # refused while another request was in flight
        instead = "user" if setting == SYSTEM_ROLE else _LIMITS.get(setting)
        if instead in self.learned:
            return None
        self.learned[setting] = instead
        if setting == SYSTEM_ROLE:
            change = "a system message: its text is sent before the first user message instead"
        elif instead is not None:
            change = f"{setting}: {instead} is sent instead"
        elif setting == _FORMAT:
            change = "response_format: replies are free text"
        else:
            change = f"{setting} as {sent[setting]}: left out, the server's default applies"
        return f"the server does not accept {change}"

    def make_room(self, reply: Reply, sent: Mapping[str, Any]) -> bool:
        """Return whether to send the prompt again with a higher limit: thinking used up the tokens of the answer."""
        name = next((name for name in _LIMITS if name in sent), "")
        limit = sent.get(name)
        was_small = isinstance(limit, int) and limit < self._decoding.max_tokens + self._endpoint.thinking_tokens
        if not self.can_make_room or not was_small or name in self._endpoint.extra_fields or not _thought_only(reply):
            return False
        self._makes_room = True
        return True

    def shrink(self) -> None:
        """Use the limit without thinking tokens again: the server refuses the larger limit."""
        self._makes_room = False


class GivenBodies(Dialect):
    """Sends the body of each prompt unchanged to the endpoint's own address: another library builds the requests."""

    path = ""
    can_make_room = False

    def _body(self, prompt: Prompt) -> dict[str, Any]:
        """Return a copy with `?` for lone surrogates, which a request cannot contain."""
        body: dict[str, Any] = json.loads(json.dumps(prompt.body, ensure_ascii=False).encode(errors="replace"))
        return body


def has_system(body: Mapping[str, Any]) -> bool:
    """Return whether a request has a system message and a later message that its text can be moved to."""
    messages = body.get("messages") or []
    return len(messages) > 1 and messages[0].get("role") == "system"


def without_system(messages: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the messages with the text of the system message before the first user message."""
    if not has_system({"messages": messages}):
        return list(messages)
    system, first, *later = messages
    return [{**first, "content": f"{system['content']}\n\n{first['content']}"}, *later]


def _thought_only(reply: Reply) -> bool:
    """Return whether a reply reached its limit before the first word of its answer."""
    try:
        message, _, _ = parts_of(orjson.loads(reply.raw))
        text, _ = text_and_thought(message.get("content"))
    except (ValueError, TypeError):
        return False
    return reply.outcome is Outcome.TRUNCATED and bool(message) and not split_thought(text)[1].strip()
