"""Who answers prompts: endpoints and models behind one protocol, with limits, retries and a cache of replies.

Judges, query rewriting and synthesis all speak to a `Client` and never learn which one it is.
"""

from ragtasks.clients._batch import Batch, BatchWaits
from ragtasks.clients._cached_client import CachedClient
from ragtasks.clients._embeddings import BATCH_TEXTS, BATCH_TOKENS, EmbeddingClient, vector_in
from ragtasks.clients._endpoint import (
    DEFAULT_KEY,
    OPENAI_URL,
    Amounts,
    Credentials,
    Endpoint,
    Secrets,
    credentials_for,
    endpoint_of,
    gets_default_key,
    no_secrets,
)
from ragtasks.clients._openai_client import OpenAIClient, stream_reply
from ragtasks.clients._openai_dialect import read_completion, read_text, usage_in
from ragtasks.clients._protocol import (
    CallUsage,
    ChatMessage,
    Client,
    Decoding,
    Journal,
    Outcome,
    Price,
    Progress,
    Prompt,
    Reply,
    Spent,
    Tally,
    Usage,
    calls_of,
    dollars_of,
    no_progress,
    priced,
    usage_of,
)
from ragtasks.clients._reply_cache import CachedReply, Choice, ReplyCache, check_reply_cache, describe_cache, prune
from ragtasks.clients._spending import AMOUNTS, Spending, added_up, joined_spending, spent_on
from ragtasks.clients._system_client import SystemClient, SystemProtocol, system_endpoint

__all__ = [
    "AMOUNTS",
    "BATCH_TEXTS",
    "BATCH_TOKENS",
    "DEFAULT_KEY",
    "OPENAI_URL",
    "Amounts",
    "Batch",
    "BatchWaits",
    "CachedClient",
    "CachedReply",
    "CallUsage",
    "ChatMessage",
    "Choice",
    "Client",
    "Credentials",
    "Decoding",
    "EmbeddingClient",
    "Endpoint",
    "Journal",
    "OpenAIClient",
    "Outcome",
    "Price",
    "Progress",
    "Prompt",
    "Reply",
    "ReplyCache",
    "Secrets",
    "Spending",
    "Spent",
    "SystemClient",
    "SystemProtocol",
    "Tally",
    "Usage",
    "added_up",
    "calls_of",
    "check_reply_cache",
    "credentials_for",
    "describe_cache",
    "dollars_of",
    "endpoint_of",
    "gets_default_key",
    "joined_spending",
    "no_progress",
    "no_secrets",
    "priced",
    "prune",
    "read_completion",
    "read_text",
    "spent_on",
    "stream_reply",
    "system_endpoint",
    "usage_in",
    "usage_of",
    "vector_in",
]
