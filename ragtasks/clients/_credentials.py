"""API keys of endpoints: a key is sent only to the server that it was issued for.

OPENAI_API_KEY is sent to OpenAI's own address and to the address in OPENAI_BASE_URL. Any other server, even on this
machine, receives a key only if its endpoint names the environment variable (`api_key_env`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit, urlunsplit

from ragtasks.clients._endpoint import OPENAI_URL, Endpoint
from ragtasks.errors import ConfigurationError

Secrets = Callable[[str], str | None]
"""Name of an environment variable -> its value, or None if it is not set; read by the outermost layer."""

DEFAULT_KEY = "OPENAI_API_KEY"
_MASK = "***"
_MIN_MASKED_LENGTH = 6  # of a key that is masked in messages: a word masked by chance does no harm there
_SECRET_LENGTH, _SECRET_SIGNS = 12, 8
_KEY_SHAPE = re.compile(r"\bsk-[\w*.-]{6,}")
_LOOPBACK = re.compile(r"localhost|.*\.localhost|127(\.\d+){3}|::1")


def no_secrets(_name: str) -> None:
    """Return None: no key is available."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """Secrets sent to one endpoint; never printed, logged or stored."""

    key: str | None = field(default=None, repr=False)
    """Sent as a bearer token, or as Azure's `api-key`."""
    organization: str | None = field(default=None, repr=False)
    """OpenAI's organization, sent only with OpenAI's own key."""
    project: str | None = field(default=None, repr=False)
    """OpenAI's project, sent only with OpenAI's own key."""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Headers that are sent instead of a key; they may contain one."""
    checks_certificate: bool = True
    source: str = ""
    """The variable or option of the key, whether it is set or not."""

    def key_note(self) -> tuple[str, str]:
        """Return whether a key is sent, and the next step if the server refuses the request."""
        if self.key or any(value.rpartition(" ")[2] for value in self.headers.values()):
            return f"the key in {self.source or 'the headers'} was sent", f"correct {self.source or 'the headers'}"
        if self.source:
            return f"no key was sent: {self.source} is not set", f"export {self.source}"
        return "no key was sent", "name the variable that contains the key: api_key_env=VARIABLE after base_url"

    def masked(self, text: str) -> str:
        """Return a message with the key, and anything shaped like a key, masked."""
        if self.key and len(self.key) >= _MIN_MASKED_LENGTH:
            text = text.replace(self.key, _MASK)
        for value in self._in_headers():
            text = text.replace(value, _MASK)
        return _KEY_SHAPE.sub(_MASK, text)

    def without_key(self, body: bytes) -> bytes:
        """Return the body of a reply with the key masked: some gateways return it.

        A placeholder (`EMPTY`, `no-key`, `1`) is kept, since it may be a word of the reply.
        """
        secrets = [self.key] if self.key and can_be_secret(self.key) else []
        for secret in [*secrets, *self._in_headers()]:
            body = body.replace(secret.encode(), _MASK.encode())
        return body

    def _in_headers(self) -> list[str]:
        """Return the header values that can be secrets, without a scheme such as `Bearer`."""
        return [word for value in self.headers.values() if can_be_secret(word := value.rpartition(" ")[2])]


def credentials_for(endpoint: Endpoint, secrets: Secrets) -> Credentials:
    """Return the credentials that may be sent to an endpoint.

    Raises:
        ConfigurationError: the variable in `api_key_env` is not set, or the key does not fit into an HTTP header.
    """
    if endpoint.api_key_env is not None:
        key = secrets(endpoint.api_key_env)
        if not key:
            raise ConfigurationError(
                f"endpoint {endpoint.model}: api_key_env names {endpoint.api_key_env}, which is not set. Next step: "
                f"export {endpoint.api_key_env}, or leave api_key_env out for a server without keys"
            )
        _check(key, endpoint.api_key_env)
        return Credentials(key, source=endpoint.api_key_env)
    if not gets_default_key(endpoint.address, secrets):
        return Credentials()
    if key := secrets(DEFAULT_KEY):
        _check(key, DEFAULT_KEY)
    return Credentials(key, secrets("OPENAI_ORG_ID"), secrets("OPENAI_PROJECT_ID"), source=DEFAULT_KEY)


def gets_default_key(address: str, secrets: Secrets) -> bool:
    """Return whether an address is OpenAI's own, or the one in OPENAI_BASE_URL: same scheme, host and port."""
    own = _origin(address)
    return own is not None and own in {_origin(OPENAI_URL), _origin(secrets("OPENAI_BASE_URL") or "")}


def can_be_secret(key: str) -> bool:
    """Return whether a key is long and mixed enough to be a secret, so that no sentence contains it by chance."""
    mixed = any(sign.isdigit() for sign in key) and any(sign.isalpha() for sign in key)
    return len(key) >= _SECRET_LENGTH and len(set(key)) >= _SECRET_SIGNS and mixed


def is_open_to_others(address: str) -> bool:
    """Return whether requests to an address can be read on the network: plain HTTP to another machine."""
    parts = urlsplit(address)
    return parts.scheme == "http" and not _LOOPBACK.fullmatch(parts.hostname or "")


def without_login(url: str) -> str:
    """Return a URL without user, password, query and fragment; any other text unchanged."""
    if "://" not in url and not url.startswith("//"):
        return url
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def _check(key: str, variable: str) -> None:
    if not (key.isascii() and key.isprintable()):
        raise ConfigurationError(
            f"{variable} contains characters that an HTTP header cannot contain. Next step: copy the key again, "
            "without spaces and line ends around it"
        )


def _origin(address: str) -> tuple[str, str, int] | None:
    try:
        parts = urlsplit(address)
        port = parts.port
    except ValueError:
        return None
    if not parts.hostname:
        return None
    return parts.scheme, parts.hostname, port or (443 if parts.scheme == "https" else 80)
