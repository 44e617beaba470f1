"""Replies that are kept: the cache, who is asking for which, and what is in it."""

from ragtasks.clients.replies._cached_client import CachedClient
from ragtasks.clients.replies._kept_overview import Choice, describe_cache, prune
from ragtasks.clients.replies._kept_replies import KeptReplies
from ragtasks.clients.replies._reply_cache import Kept, ReplyCache, check_reply_cache

__all__ = [
    "CachedClient",
    "Choice",
    "Kept",
    "KeptReplies",
    "ReplyCache",
    "check_reply_cache",
    "describe_cache",
    "prune",
]
