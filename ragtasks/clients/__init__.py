"""Who answers prompts: endpoints and models behind one protocol, with limits, retries and a cache of replies.

Judges, query rewriting and synthesis all speak to a `Client` and never learn which one it is.
"""

from ragtasks.clients._credentials import (
    DEFAULT_KEY,
    Credentials,
    Secrets,
    credentials_for,
    gets_default_key,
    no_secrets,
)
from ragtasks.clients._endpoint import Endpoint, endpoint_of
from ragtasks.clients._protocol import (
    ChatMessage,
    Client,
    Decoding,
    Journal,
    Outcome,
    Progress,
    Prompt,
    Reply,
    no_progress,
)
from ragtasks.clients._system_client import SystemClient, SystemProtocol, system_endpoint
from ragtasks.clients._usage import Price, Tally, Usage, usage_of
from ragtasks.clients.openai_api import OpenAIClient, read_completion, read_text, stream_reply
from ragtasks.clients.replies import (
    CachedClient,
    Choice,
    Kept,
    KeptReplies,
    ReplyCache,
    check_reply_cache,
    describe_cache,
    prune,
)

__all__ = [
    "DEFAULT_KEY",
    "CachedClient",
    "ChatMessage",
    "Choice",
    "Client",
    "Credentials",
    "Decoding",
    "Endpoint",
    "Journal",
    "Kept",
    "KeptReplies",
    "OpenAIClient",
    "Outcome",
    "Price",
    "Progress",
    "Prompt",
    "Reply",
    "ReplyCache",
    "Secrets",
    "SystemClient",
    "SystemProtocol",
    "Tally",
    "Usage",
    "check_reply_cache",
    "credentials_for",
    "describe_cache",
    "endpoint_of",
    "gets_default_key",
    "no_progress",
    "no_secrets",
    "prune",
    "read_completion",
    "read_text",
    "stream_reply",
    "system_endpoint",
    "usage_of",
]
