"""Start of the server. By default only this machine can reach it, and raters enter by invitation."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib.metadata import version
from pathlib import Path
from types import MappingProxyType

import uvicorn
from fastapi import FastAPI

from ragtasks.arena.battles import AnswerPool
from ragtasks.arena.store import LEASE_SECONDS, VoteRefusedError, VoteStore
from ragtasks.arena.web._comparing import Arena
from ragtasks.arena.web._guard import Application, settings
from ragtasks.arena.web._interface import interface
from ragtasks.arena.web._live import LiveBattles, Pipeline, live_pages
from ragtasks.arena.web._pages import form_pages, pages, pair_pages, refused
from ragtasks.arena.web._site import Identity, Site, Wording, entrance, guarded
from ragtasks.errors import ConfigurationError
from ragtasks.records import Message

_SHORTEST_TOKEN = 12
print_now = partial(print, flush=True)  # unbuffered, since a pipe would delay the address until the server stops


def serve(
    pool: AnswerPool | None,
    database: Path,
    *,
    host: str = "127.0.0.1",
    port: int = 8765,
    token: str | None = None,
    types_names: bool = False,
    raters_per_battle: int = 1,
    lease_seconds: float = LEASE_SECONDS,
    pipelines: Sequence[Pipeline] = (),
    conversations: Mapping[str, Sequence[Message]] = MappingProxyType({}),
    patience_seconds: float = 120.0,
    echo: Callable[[str], object] = print_now,
) -> None:
    """Serve the arena until the process is stopped."""

    def make_arena(store: VoteStore, identity: Identity, hosts: frozenset[str] | None) -> Application:
        arena = Arena(store, pool, raters_per_battle, lease_seconds=lease_seconds)
        return application(
            arena,
            identity,
            hosts,
            pipelines=pipelines,
            conversations=conversations,
            patience_seconds=patience_seconds,
        )

    serve_application(make_arena, database, host, port, echo, token=token, types_names=types_names)


def serve_application(
    make: Callable[[VoteStore, Identity, frozenset[str] | None], Application],
    database: Path,
    host: str,
    port: int,
    echo: Callable[[str], object],
    *,
    token: str | None,
    types_names: bool,
) -> None:
    """Serve an application until the process is stopped.

    `make` receives the database, the identity of raters and the accepted hosts.
    """
    if types_names and token is not None and len(token) < _SHORTEST_TOKEN:
        raise ConfigurationError(
            f"the arena's token must have at least {_SHORTEST_TOKEN} characters; choose a longer one"
        )
    if types_names and token is None and not is_loopback(host):
        raise ConfigurationError(
            "arena",
            where=f"--typed-names --host {host}",
            expected="a token, since other machines can reach this address",
            found="none",
            next_step="invite raters (`ragtasks arena invite NAME`), or set RAGTASKS_ARENA_TOKEN to a long random text",
        )
    store = VoteStore(database)
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listening = socket.create_server((host, port), family=family, backlog=512)
    except (OSError, OverflowError) as error:
        next_step = "use another --port (0 selects a free port)"
        problem = getattr(error, "strerror", None) or str(error)
        raise ConfigurationError(
            "arena", where=f"{host}:{port}", expected="a free address", found=problem, next_step=next_step
        ) from error
    identity = Identity(store.secret, token, None if types_names else store)
    app = make(store, identity, frozenset({"127.0.0.1", "localhost", "[::1]", host}) if is_loopback(host) else None)
    shown = f"[{host}]" if ":" in host else host
    echo(f"http://{shown}:{listening.getsockname()[1]}")
    if types_names:
        echo("names are typed: anyone who can reach this address can vote under any name")
    elif not store.has_invitations:
        echo(f"no rater is invited yet: ragtasks arena invite NAME --database {database}")
    try:
        uvicorn.Server(settings(app)).run(sockets=[listening])
    finally:
        store.close()


def is_loopback(host: str) -> bool:
    """Return whether an address is reachable only from this machine."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


# Assembly of the battle server: pages, API, error pages, and the guard around them.

_WORDING = Wording(
    "Arena",
    "Which answer is better?",
    "You will see a conversation and two answers to its last message. Choose the answer that serves "
    "the user better; the systems' names appear after your vote.",
    "voted",
)


def application(
    arena: Arena,
    identity: Identity,
    hosts: frozenset[str] | None = None,
    *,
    pipelines: Sequence[Pipeline] = (),
    conversations: Mapping[str, Sequence[Message]] = MappingProxyType({}),
    patience_seconds: float = 120.0,
) -> Application:
    """Return the application of the server."""
    named = {pipeline.name: pipeline for pipeline in pipelines}
    tabs = [("/battles", "Blinded"), ("/side-by-side", "Side by side"), ("/forms", "Evaluate")] if arena.pool else []
    tabs += [("/live", "Ask")] if len(named) > 1 else []

    title = ", ".join(sorted({key[0] for key in arena.pool.items})) if arena.pool else "live"
    progress_of = arena.queue.progress_of if arena.pool else lambda _: None
    site = Site(identity, (*tabs, ("/ratings", "Ratings")), title, _WORDING, progress_of)
    app = FastAPI(
        title="ragtasks arena",
        version=version("ragtasks"),
        docs_url=None,
        redoc_url=None,
        openapi_url="/api/openapi.json",
    )
    app.include_router(pages(site, arena))  # most frequent routes first, because routes are matched in order
    app.include_router(entrance(site))
    if arena.pool:
        app.include_router(pair_pages(site, arena, arena.pool))
        app.include_router(form_pages(site, arena, arena.pool))
    app.include_router(live_pages(site, arena, LiveBattles(arena, named, patience_seconds), conversations))
    app.include_router(interface(site, arena, named, patience_seconds))
    app.add_exception_handler(VoteRefusedError, refused(site))
    return guarded(app, site, hosts)
