"""The arena's server: pages for raters and an API for programs. Requires the extra `arena`."""

from ragtasks.errors import MissingExtraError as _MissingExtraError

try:
    from ragtasks.arena.web._guard import Application
    from ragtasks.arena.web._live import Pipeline, live_systems
    from ragtasks.arena.web._server import print_now, serve, serve_application
    from ragtasks.arena.web._site import FormText, Identity, Site, Wording, entrance, guarded
except ModuleNotFoundError as error:
    if (error.name or "").startswith("ragtasks"):
        raise
    raise _MissingExtraError(error.name or "a library", "arena", "the arena's server") from error

__all__ = [
    "Application",
    "FormText",
    "Identity",
    "Pipeline",
    "Site",
    "Wording",
    "entrance",
    "guarded",
    "live_systems",
    "print_now",
    "serve",
    "serve_application",
]
