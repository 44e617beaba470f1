"""`ragtasks doctor`: what is installed, and what to do next."""

from __future__ import annotations

from typing import Annotated

import typer

from ragtasks.cli.app import app, say


@app.command()
def doctor(
    endpoint: Annotated[
        list[str] | None,
        typer.Option(help="Base URL of an OpenAI-compatible server to ask for its models; repeatable."),
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="Kind of model as in `run --model`, such as hf: check what it needs.")
    ] = None,
) -> None:
    """Check what is installed, which data is fetched and verified, and which endpoints answer; end in one next step."""
    from ragtasks.doctor import diagnose

    say(*diagnose(endpoint or [], model))


__all__ = ["doctor"]
