"""The arena's server: pages for raters and an interface for programs. Needs the extra `arena`."""

from ragtasks.arena.web._pipelines import Pipeline, live_systems, pipeline_of
from ragtasks.arena.web._server import serve, serve_review

__all__ = ["Pipeline", "live_systems", "pipeline_of", "serve", "serve_review"]
