"""Who a request is from: a signed cookie with the rater's name, and the token that forms must carry.

Both are signed with the database's secret. The cookie is shown to no script and sent by no other site; a form's token
follows from the session in the cookie, so that no other site can know it.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
import secrets
from dataclasses import dataclass

LONGEST_NAME = 60
"""Characters of a rater's name."""
_SESSION_BYTES = 16


@dataclass(frozen=True, slots=True)
class Session:
    """One browser's log-in."""

    rater: str
    """The rater's name."""
    number: str
    """Drawn when the rater came in."""


class Identity:
    """Signs and reads what browsers bring."""

    def __init__(self, secret: bytes, token: str | None) -> None:
        """Take the secret of the database, and the token that lets raters in; None lets everybody in."""
        self._secret, self._token = secret, token

    @property
    def needs_token(self) -> bool:
        """Whether raters must show a token."""
        return self._token is not None

    def admits(self, token: str) -> bool:
        """Return whether a token is the right one, in a time that says nothing about it."""
        if self._token is None:
            return True
        return hmac.compare_digest(token.encode(errors="replace"), self._token.encode())

    def cookie(self, rater: str) -> str:
        """Return the cookie of a rater who came in now."""
        text = f"{secrets.token_hex(_SESSION_BYTES)}:{rater}"
        body = base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")  # cookies with `=` come back in quotes
        return f"{body}.{self._signed('cookie', body)}"

    def session(self, cookie: str | None) -> Session | None:
        """Return who a cookie is of; None for none, or one that was not signed here."""
        body, _, signature = (cookie or "").rpartition(".")
        if not body or not hmac.compare_digest(
            signature.encode(errors="replace"), self._signed("cookie", body).encode()
        ):
            return None
        try:
            number, _, rater = base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)).decode().partition(":")
        except (binascii.Error, UnicodeDecodeError):
            return None
        return Session(rater, number)

    def form_token(self, session: Session) -> str:
        """Return what the forms of a session carry."""
        return self._signed("form", f"{session.number}:{session.rater}")

    def is_own_form(self, session: Session, token: str) -> bool:
        """Return whether a form is one that we gave this session."""
        return hmac.compare_digest(token.encode(errors="replace"), self.form_token(session).encode())

    def _signed(self, purpose: str, text: str) -> str:
        return hmac.new(self._secret, f"{purpose}\n{text}".encode(errors="replace"), hashlib.sha256).hexdigest()


def clean_name(name: str) -> str:
    """Return a rater's name on one line without control characters, at most 60 characters; empty for none."""
    return re.sub(r"\s+", " ", "".join(c if c.isprintable() else " " for c in name)).strip()[:LONGEST_NAME]


__all__ = ["LONGEST_NAME", "Identity", "Session", "clean_name"]
