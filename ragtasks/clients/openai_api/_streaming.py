"""One reply as it is written: for people who read along. Nothing is retried, limited or kept."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from ragtasks.clients._credentials import Credentials
from ragtasks.clients._endpoint import Endpoint
from ragtasks.clients._protocol import ChatMessage, Decoding, Prompt
from ragtasks.clients.openai_api._dialect import Dialect
from ragtasks.clients.openai_api._failures import failure_of
from ragtasks.clients.openai_api._transport import Transport
from ragtasks.errors import MissingExtraError, ModelError


async def stream_reply(
    endpoint: Endpoint, credentials: Credentials, messages: Sequence[ChatMessage], decoding: Decoding | None = None
) -> AsyncIterator[str]:
    """Yield the parts of the reply to a chat as they come; thinking that the server sends apart is left out.

    Raises:
        ModelError: the reply did not come, or not whole; the message holds no key and no address.
        MissingExtraError: `openai` or `aiohttp` is not installed.
    """
    try:
        import aiohttp  # noqa: F401
        import openai  # noqa: F401
    except ImportError as error:
        raise MissingExtraError(str(error.name), "judge", "an OpenAI-compatible endpoint") from error
    body = Dialect(endpoint, decoding or Decoding()).request(Prompt(tuple(messages)))
    async with Transport(endpoint, credentials) as transport:
        try:
            async for part in transport.stream(body):
                yield part
        except Exception as error:  # noqa: BLE001 (whatever fails on the way is the end of this reply, and no other's)
            raise ModelError(failure_of(error, credentials).reason) from None


__all__ = ["stream_reply"]
