"""OpenAI-compatible endpoints: one client over requests, dialects, limits, failures and streams."""

from ragtasks.clients.openai_api._client import OpenAIClient
from ragtasks.clients.openai_api._completion import read_completion, read_text
from ragtasks.clients.openai_api._dialect import Dialect, Wire
from ragtasks.clients.openai_api._served_models import ServedModels
from ragtasks.clients.openai_api._streaming import stream_reply

__all__ = ["Dialect", "OpenAIClient", "ServedModels", "Wire", "read_completion", "read_text", "stream_reply"]
