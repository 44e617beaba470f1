"""Who answers prompts: endpoints and models behind one protocol, with limits, retries and a cache of replies.

Judges and query rewriting call a `Client` and never learn which one it is.
"""

from ragtasks.clients._cached_client import CachedClient
from ragtasks.clients._completion import (
    AT_LIMIT,
    early_end,
    parts_of,
    read_completion,
    read_text,
    text_and_thought,
    usage_in,
    with_usage,
)
from ragtasks.clients._credentials import (
    DEFAULT_KEY,
    Credentials,
    Secrets,
    credentials_for,
    gets_default_key,
    no_secrets,
)
from ragtasks.clients._embeddings import BATCH_TEXTS, BATCH_TOKENS, EmbeddingClient, vector_in
from ragtasks.clients._endpoint import OPENAI_URL, Amounts, Endpoint, GivenBodies, endpoint_of
from ragtasks.clients._failures import SLOW
from ragtasks.clients._openai_client import OpenAIClient, model_client
from ragtasks.clients._protocol import (
    CallUsage,
    ChatMessage,
    Client,
    Decoding,
    Journal,
    Outcome,
    Prompt,
    Reply,
    Spent,
)
from ragtasks.clients._reply_cache import CachedReply, ReplyCache, check_reply_cache, describe_cache, prune
from ragtasks.clients._requirements import (
    PROBE_QUESTION,
    encoder_endpoint_requirements,
    endpoint_requirements,
    judge_requirements,
    listed_models,
    no_reply,
    system_requirements,
)
from ragtasks.clients._system_client import SystemClient, SystemProtocol, system_endpoint
from ragtasks.clients._transport import stream_reply
from ragtasks.clients._usage import (
    AMOUNTS,
    Price,
    Spending,
    Tally,
    Usage,
    added_up,
    calls_of,
    dollars_of,
    joined_spending,
    priced,
    spent_on,
    usage_of,
)

__all__ = [
    "AMOUNTS",
    "AT_LIMIT",
    "BATCH_TEXTS",
    "BATCH_TOKENS",
    "DEFAULT_KEY",
    "OPENAI_URL",
    "PROBE_QUESTION",
    "SLOW",
    "Amounts",
    "CachedClient",
    "CachedReply",
    "CallUsage",
    "ChatMessage",
    "Client",
    "Credentials",
    "Decoding",
    "EmbeddingClient",
    "Endpoint",
    "GivenBodies",
    "Journal",
    "OpenAIClient",
    "Outcome",
    "Price",
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
    "early_end",
    "encoder_endpoint_requirements",
    "endpoint_of",
    "endpoint_requirements",
    "gets_default_key",
    "joined_spending",
    "judge_requirements",
    "listed_models",
    "model_client",
    "no_reply",
    "no_secrets",
    "parts_of",
    "priced",
    "prune",
    "read_completion",
    "read_text",
    "spent_on",
    "stream_reply",
    "system_endpoint",
    "system_requirements",
    "text_and_thought",
    "usage_in",
    "usage_of",
    "vector_in",
    "with_usage",
]
