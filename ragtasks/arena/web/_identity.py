"""Who a request is from: a signed cookie with the rater's name, and the token that forms must carry.

Both are signed with the secret beside the database. The cookie is shown to no script and sent by no other site; a
form's token follows from the session in the cookie, so that no other site can know it. Raters come in by invitation;
their cookies end with it. Where names are typed instead, anybody may take any name.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from dataclasses import dataclass

from ragtasks.arena.votes import VoteStore

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

    def __init__(self, secret: bytes, token: str | None = None, invitations: VoteStore | None = None) -> None:
        """Take what lets raters in.

        Args:
            secret: signs cookies.
            token: what raters with typed names must show; None: nothing.
            invitations: who is invited; None: names are typed.
        """
        self._secret, self._token, self._invitations = secret, token, invitations

    @property
    def types_names(self) -> bool:
        """Whether raters come in under any name that they type."""
        return self._invitations is None

    @property
    def needs_token(self) -> bool:
        """Whether raters who type their names must show a token."""
        return self.types_names and self._token is not None

    def invited(self, token: str) -> str | None:
        """Return the rater whom a token invites; None for nobody."""
        return self._invitations.invited(token) if self._invitations else None

    def admits(self, token: str) -> bool:
        """Return whether a token lets in who types a name, in a time that says nothing about it."""
        if self._token is None:
            return self.types_names
        return hmac.compare_digest(token.encode(errors="replace"), self._token.encode())

    def cookie(self, rater: str) -> str:
        """Return the cookie of a rater who came in now."""
        text = f"{secrets.token_hex(_SESSION_BYTES)}:{self._invitation(rater)}:{rater}"
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
            parts = base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)).decode().split(":", 2)
            number, invitation, rater = parts
        except ValueError:  # not base64, not a text, or a cookie of another version
            return None
        return Session(rater, number) if invitation == self._invitation(rater) else None

    def _invitation(self, rater: str) -> str | None:
        """Return what a cookie holds of a rater's invitation; None, which no cookie holds, without one."""
        return self._invitations.invitation(rater) if self._invitations else ""

    def form_token(self, session: Session) -> str:
        """Return what the forms of a session carry."""
        return self._signed("form", f"{session.number}:{session.rater}")

    def is_own_form(self, session: Session, token: str) -> bool:
        """Return whether a form is one that we gave this session."""
        return hmac.compare_digest(token.encode(errors="replace"), self.form_token(session).encode())

    def _signed(self, purpose: str, text: str) -> str:
        return hmac.new(self._secret, f"{purpose}\n{text}".encode(errors="replace"), hashlib.sha256).hexdigest()


__all__ = ["Identity", "Session"]
