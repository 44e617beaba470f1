"""The arena's server: pages for raters and an interface for programs. Needs the extra `arena`."""

from ragtasks.errors import MissingExtraError as _MissingExtraError

try:
    from ragtasks.arena.web._live import Pipeline, live_systems, pipeline_of
    from ragtasks.arena.web._server import serve, serve_review
except ModuleNotFoundError as error:
    if (error.name or "").startswith("ragtasks"):
        raise
    raise _MissingExtraError(error.name or "a library", "arena", "the arena's server") from error

__all__ = ["Pipeline", "live_systems", "pipeline_of", "serve", "serve_review"]
