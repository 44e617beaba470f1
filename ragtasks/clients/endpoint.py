"""Names an endpoint in one line or a small mapping: model, address, limits, how patient to be.

Keys never stand here: they come from the environment, through the outermost layer. An address that carries one is
refused, because addresses end up in logs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from ragtasks.errors import ConfigurationError, close_matches

OPENAI_URL = "https://api.openai.com/v1"
_OPENAI_PREFIX = "openai/"
_Dollars = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class Endpoint(BaseModel):
    """An OpenAI-compatible endpoint and one of its models."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    model: str = Field(min_length=1, description="the model's name at the endpoint; `openai/NAME` is OpenAI's own")
    base_url: str | None = Field(None, description="address, such as http://localhost:8001/v1; default: OpenAI's")
    api_version: str | None = Field(None, description="Azure's API version; base_url is then the resource's address")
    slots: int = Field(64, ge=1, description="requests open at once")
    requests_per_minute: int | None = Field(None, ge=1, description="limit of the account")
    tokens_per_minute: int | None = Field(None, ge=1, description="limit of the account, prompt and reply together")
    timeout_seconds: float = Field(300.0, gt=0, description="longest wait for one whole reply")
    attempts: int = Field(10, ge=1, description="requests for one prompt, the first included, where transport fails")
    backoff_seconds: float = Field(0.5, gt=0, description="wait before the second attempt; doubles each time")
    longest_backoff_seconds: float = Field(30.0, gt=0, description="where the doubling ends")
    token_limit: Literal["max_tokens", "max_completion_tokens"] | None = Field(
        None, description="the server's name for the longest reply; default: by endpoint"
    )
    shared_replies: bool = Field(
        False, description="kept replies are those to this model's name at any address; default: at this address only"
    )
    price: tuple[_Dollars, _Dollars] | None = Field(
        None, description="dollars for a million tokens of prompts, and of replies; for the record of the cost only"
    )

    @model_validator(mode="after")
    def _address_is_plain(self) -> Endpoint:
        if self.base_url is None:
            if self.api_version is not None:
                raise ValueError("api_version needs base_url, the address of the Azure resource")
            if not self.model.startswith(_OPENAI_PREFIX):
                raise ValueError("a model that is not `openai/NAME` needs base_url, the address of its server")
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


def endpoint_of(named: str | Mapping[str, Any]) -> Endpoint:
    """Return the endpoint that a line (`openai/gpt-4o-mini`) or a mapping (`{"model": ..., "base_url": ...}`) names.

    Raises:
        ConfigurationError: an unknown key, a missing address, a value that does not fit. No value is shown.
    """
    fields = {"model": named} if isinstance(named, str) else dict(named)
    for key in fields.keys() - Endpoint.model_fields.keys():
        raise ConfigurationError(f"endpoint: unknown key {key!r}: {close_matches(str(key), Endpoint.model_fields)}")
    faults: list[str] = []
    try:
        return Endpoint.model_validate(fields)
    except ValidationError as error:
        faults = [_told(".".join(map(str, fault["loc"])), fault["msg"]) for fault in error.errors()]
    # Outside the handler: the chained error would show the values, and with them a key in an address.
    raise ConfigurationError("endpoint: " + "; ".join(faults))


def _told(field: str, message: str) -> str:
    """Return a fault of a field, or of the whole where `field` is empty, without pydantic's name for our own errors."""
    message = message.removeprefix("Value error, ")
    return f"{field}: {message}" if field else message


__all__ = ["OPENAI_URL", "Endpoint", "endpoint_of"]
