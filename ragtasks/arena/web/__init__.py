"""The arena's server: pages for raters and an interface for programs. Needs the extra `arena`."""

from ragtasks.arena.web._serving import serve

__all__ = ["serve"]
