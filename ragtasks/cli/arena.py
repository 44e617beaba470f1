"""`ragtasks arena`: battles by judges and by people, and the ratings that follow."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ragtasks.cli.app import TableFormat, app, put, say
from ragtasks.cli.options import DATA, named_benchmark

commands = typer.Typer(help="Which of two answers is better: judges, people, ratings.", no_args_is_help=True)
app.add_typer(commands, name="arena")

_RESULTS = Annotated[
    list[Path], typer.Argument(help="Folders that lm_eval wrote with --log_samples, or predictions (JSON lines).")
]
_BENCHMARK = Annotated[str | None, typer.Option(help="Benchmark of predictions: mtrag, mtrag_un.")]
_SETTING = Annotated[str | None, typer.Option(help="Setting of predictions; of results, the only one to take.")]
_REFERENCE = Annotated[bool, typer.Option("--with-reference", help="Let the benchmark's own answers take part.")]
_FORMAT = Annotated[TableFormat, typer.Option("--format", help="Form of the tables.")]


def _answers(paths: list[Path], benchmark: str | None, data: str | None, setting: str | None, reference: bool) -> Any:
    from ragtasks.arena.battles import read_answers

    opened = named_benchmark(benchmark, data) if benchmark else None
    return read_answers(paths, benchmark=opened, setting=setting, with_reference=reference)


def _tables(votes: Any, form: TableFormat) -> str:
    from ragtasks.arena.ratings import rating_sections
    from ragtasks.reports.rendering import Format, render

    return render(rating_sections(votes), Format(form.value))


@commands.command()
def battle(  # noqa: PLR0917 (one parameter an option)
    results: _RESULTS,
    judge: Annotated[list[str], typer.Option(help="openai/NAME or a JSON object with model, base_url; repeatable.")],
    output: Annotated[Path, typer.Option(help="File of votes to write, .jsonl.")],
    max_battles: Annotated[
        int | None, typer.Option(min=1, help="Budget; battles go where win rates are least certain. Default: all.")
    ] = None,
    benchmark: _BENCHMARK = None,
    setting: _SETTING = None,
    data: DATA = None,
    *,
    with_reference: _REFERENCE = False,
    form: _FORMAT = TableFormat.MARKDOWN,
) -> None:
    """Let judges compare saved answers in pairs, blinded and in both orders; write the votes, print ratings."""
    from ragtasks.arena.battles import judge_battles
    from ragtasks.arena.votes import write_votes
    from ragtasks.clients import endpoint_of
    from ragtasks.environment import reply_cache_file, secret
    from ragtasks.judges import judge_responses
    from ragtasks.progress import progress_bars

    pool = _answers(results, benchmark, data, setting, with_reference)
    endpoints = [endpoint_of(text) for text in judge]
    with progress_bars() as progress:

        def ask(responses: Any, rubrics: Any) -> Any:
            return judge_responses(
                responses,
                endpoints,
                secrets=secret,
                cache_file=reply_cache_file(),
                rubrics=rubrics,
                progress=progress,
            )

        found = judge_battles(pool.battles, ask, max_battles=max_battles)
    write_votes(output, found.votes)
    say(_tables(found.votes, form))
    notes = [f"{found.n_left} battles were left out: --max-battles {max_battles}"] if found.n_left else []
    notes += [f"{pool.n_failed} answers are missing, as their requests failed"] if pool.n_failed else []
    notes += [f"{found.n_unvoted} votes are missing, as a judge gave no verdict"] if found.n_unvoted else []
    asked = [f"{name}: {used.n_asked} asked, {used.n_cached} known" for name, used in found.usage.items()]
    typer.echo("\n".join([*notes, *asked, f"wrote {output}: {len(found.votes)} votes"]), err=True)
    found.require_coverage()


@commands.command()
def ratings(
    votes: Annotated[list[Path], typer.Argument(help="Files of votes, from `arena battle` or `arena export`.")],
    output: Annotated[Path | None, typer.Option(help="File to write; default: print.")] = None,
    form: _FORMAT = TableFormat.MARKDOWN,
) -> None:
    """Print what votes say: ratings with intervals, win rates, tests, length and refusals, agreement."""
    from ragtasks.arena.votes import read_votes

    put(_tables(read_votes(votes), form), output)


__all__: list[str] = []
