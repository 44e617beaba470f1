"""Questions over several articles, as MultiHop-RAG builds them, in its official format."""

from ragtasks.synthesis.multihop._articles import Article, read_articles
from ragtasks.synthesis.multihop._pipeline import MultihopSettings, synthesize_multihop

__all__ = ["Article", "MultihopSettings", "read_articles", "synthesize_multihop"]
