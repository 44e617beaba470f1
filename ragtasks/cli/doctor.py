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
        str | None, typer.Option(help="A kind of model as `--model` names it, such as hf: is all that it needs here?")
    ] = None,
) -> None:
    """Say what is installed, which data is where and verified, which endpoints answer, and what to do next."""
    from ragtasks.doctor import diagnose

    say(*diagnose(endpoint or [], model))


__all__ = ["doctor"]
