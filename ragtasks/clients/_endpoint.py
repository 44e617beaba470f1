"""Names an endpoint in one line or a small mapping: model, address, what is sent, limits, how patient to be.

Judges, rewriters and rerankers are all named by this one reader (docs/endpoints.md has the table). Keys never stand
here: they come from the environment, through the outermost layer. An address that carries one is refused, because
addresses end up in logs.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_serializer, field_validator, model_validator

from ragtasks.errors import ConfigurationError, close_matches, misfits

OPENAI_URL = "https://api.openai.com/v1"
_OPENAI_PREFIX = "openai/"
_PLAIN_NAME = re.compile(r"(?!sk)[A-Za-z0-9._-]{1,40}")
_LONGEST_REPLY_SECONDS, _LONGEST_THOUGHT_SECONDS = 180.0, 600.0
_NO_THINKING = frozenset({"none", "minimal"})
_RESERVED_FIELDS = frozenset({"model", "messages", "stream", "n"})
Amounts = Annotated[tuple[Annotated[float, Field(ge=0, allow_inf_nan=False)], ...], Field(min_length=2, max_length=3)]
"""A `Price` as users write it."""


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
        None, gt=0, description="longest wait for one whole reply; default: 180, or 600 where reasoning_effort is set"
    )
    patience_seconds: float | None = Field(
        None,
        gt=0,
        description="longest time for one prompt over all attempts, waits for rate limits apart; default: twice "
        "timeout_seconds",
    )
    rate_limit_patience_seconds: float = Field(
        3600.0, gt=0, description="longest time in which the server only refuses because of its rate limit"
    )
    attempts: int = Field(10, ge=1, description="requests for one prompt, the first included, where transport fails")
    backoff_seconds: float = Field(0.5, gt=0, description="wait before the second attempt; doubles each time")
    longest_backoff_seconds: float = Field(30.0, gt=0, description="where the doubling ends")
    temperature: float | Literal["server"] | None = Field(
        None, description="0 by default; `server` leaves it out, for the server's default"
    )
    max_tokens: int | None = Field(None, ge=1, description="longest answer in tokens; default: 1024")
    reasoning_effort: str | None = Field(None, min_length=1, description="how much to think, such as `low`")
    thinking_tokens: int = Field(
        8192, ge=0, description="added to max_tokens where reasoning_effort is set or a reply was nothing but thinking"
    )
    extra_body: str = Field("{}", description="object with any further fields of the request's body")
    structured: bool = Field(
        False, description="hold judges' replies to their form (`response_format`, a JSON schema), if the server can"
    )
    api_key_env: str | None = Field(
        None, pattern=r"^[A-Za-z_][A-Za-z0-9_]*$", description="environment variable that holds the server's key"
    )
    token_limit: Literal["max_tokens", "max_completion_tokens"] | None = Field(
        None, description="the server's name for the longest reply; default: by endpoint"
    )
    shared_replies: bool = Field(
        False, description="cached replies serve this model's name at any address; default: at this address only"
    )
    price: Amounts | None = Field(
        None,
        description="dollars per million tokens of prompts, of replies, and maybe of prompt tokens that the server "
        "had cached; only to report the cost",
    )

    @field_validator("temperature", mode="before")
    @classmethod
    def _is_temperature(cls, value: Any) -> Any:
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool) and value >= 0
        if value is None or is_number or value == "server":
            return value
        raise ValueError("expected a number of 0 or more, or `server`")

    @field_validator("extra_body", mode="before")
    @classmethod
    def _canonical(cls, value: Any) -> str:
        fields = _object_in(value) if isinstance(value, str) else value
        if not isinstance(fields, Mapping) or not all(isinstance(name, str) for name in fields):
            raise ValueError('must be an object, such as {"top_p": 0.9}')
        if own := sorted(_RESERVED_FIELDS & fields.keys()):
            raise ValueError(f"must not hold {', '.join(own)}")
        try:
            return json.dumps(fields, sort_keys=True, ensure_ascii=False, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise ValueError("must hold plain JSON values") from error

    @field_serializer("extra_body")
    def _as_object(self, value: str) -> Any:
        return json.loads(value)

    @field_validator("api_key_env")
    @classmethod
    def _is_a_name(cls, value: str | None) -> str | None:
        if value is not None and value.startswith("sk"):
            raise ValueError("must be the name of an environment variable, not the key itself")
        return value

    @model_validator(mode="after")
    def _address_is_plain(self) -> Endpoint:
        if self.base_url is None:
            if self.api_version is not None:
                raise ValueError("api_version needs base_url, the address of the Azure resource")
            if not self.model.startswith(_OPENAI_PREFIX):
                # No name is shown that may be a key or an address with a password in it.
                name = self.model if _PLAIN_NAME.fullmatch(self.model) else "NAME"
                raise ValueError(
                    f"a model of OpenAI is openai/{name}, and any other needs base_url, the address of its server: "
                    f"{name},base_url=http://localhost:8000/v1"
                )
            return self
        parts = urlsplit(self.base_url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("base_url must begin with http:// or https:// and name a host")
        if "@" in parts.netloc or parts.query or parts.fragment:
            raise ValueError("base_url must hold no user, password or query: keys come from the environment")
        return self

    @property
    def address(self) -> str:
        """Where requests go; free of secrets."""
        return self.base_url or OPENAI_URL

    @property
    def origin(self) -> str:
        """Scheme, host, port and path of the address, as replies are kept by; empty where replies are shared."""
        if self.shared_replies:
            return ""
        parts = urlsplit(self.address)
        port = parts.port or (443 if parts.scheme == "https" else 80)
        return f"{parts.scheme}://{_host(parts.hostname)}:{port}{parts.path.rstrip('/')}"

    @property
    def extra_fields(self) -> dict[str, Any]:
        """The further fields of a request's body."""
        found: dict[str, Any] = json.loads(self.extra_body)
        return found

    @property
    def thinks(self) -> bool:
        """Whether the model is asked to think before it answers."""
        return self.reasoning_effort is not None and self.reasoning_effort not in _NO_THINKING

    @property
    def longest_reply_seconds(self) -> float:
        """How long one request may take, from its first byte to the last of its reply."""
        return self.timeout_seconds or (_LONGEST_THOUGHT_SECONDS if self.thinks else _LONGEST_REPLY_SECONDS)

    @property
    def longest_prompt_seconds(self) -> float:
        """How long one prompt may take over all attempts, waits for rate limits apart."""
        return self.patience_seconds or 2 * self.longest_reply_seconds

    @property
    def model_there(self) -> str:
        """The model's name at the endpoint."""
        return self.model if self.base_url else self.model.removeprefix(_OPENAI_PREFIX)

    @property
    def token_limit_there(self) -> str:
        """The endpoint's name for the longest reply: OpenAI's newer models refuse the older one."""
        return self.token_limit or ("max_tokens" if self.base_url else "max_completion_tokens")


def _host(name: str | None) -> str:
    """Return a host as it stands in an address, without the user before it; numeric ones of IPv6 have brackets."""
    return f"[{name}]" if name and ":" in name else name or ""


def endpoint_of(named: str | Mapping[str, Any], what: str = "endpoint", **further: Any) -> Endpoint:
    """Return the endpoint that a line or a mapping names; `what` is what an error calls it."""
    if not named:
        raise ConfigurationError(
            f"{what}: nothing names it. Next step: openai/NAME; or set the variable that was meant"
        )
    if not isinstance(named, (str, Mapping)):
        raise ConfigurationError(f"{what}: expected a name, such as openai/NAME, or keys with values")
    fields = _fields_of_line(named, what) if isinstance(named, str) else dict(named)
    given = {key: value for key, value in further.items() if value is not None}
    if twice := sorted(given.keys() & fields.keys()):
        raise ConfigurationError(f"{what}: given twice: {', '.join(twice)}. Next step: leave one out")
    fields |= given
    for key in fields.keys() - Endpoint.model_fields.keys():
        raise ConfigurationError(f"{what}: unknown key {key!r}: {close_matches(str(key), Endpoint.model_fields)}")
    failures: list[str] = []
    try:
        return Endpoint.model_validate(fields)
    except ValidationError as error:
        failures = misfits(error, "")
    # Outside the handler: the chained error would show the values, and with them a key in an address.
    raise ConfigurationError(f"{what}: " + "; ".join(failures))


def _fields_of_line(line: str, what: str) -> dict[str, Any]:
    """Return the fields in a line; no value of it is shown, since an address may hold a password."""
    if line.lstrip().startswith("{"):
        try:
            return _object_in(line)
        except ValueError as error:
            raise ConfigurationError(f"{what}: {error}") from None
    model, *options = line.split(",")
    fields: dict[str, Any] = {"model": model.strip()}
    for option in options:
        key, sign, value = option.partition("=")
        if not sign or key.strip() in fields:
            raise ConfigurationError(
                f"{what}: expected openai/NAME, NAME,base_url=ADDRESS with each option once, or a JSON object"
            )
        fields[key.strip()] = _value(value.strip())
    return fields


def _object_in(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        where = f" ({error.msg}, character {error.pos})" if isinstance(error, json.JSONDecodeError) else ""
        raise ValueError(f"expected a JSON object, found broken JSON{where}") from None
    if not isinstance(found, dict):
        raise ValueError("expected a JSON object")
    return found


def _value(text: str) -> Any:
    """Return a number, a word of JSON or a quoted text as such, and anything else as text."""
    try:
        return json.loads(text)
    except ValueError:
        return text
