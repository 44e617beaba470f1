"""`ragtasks arena`: battles by judges and people, and ratings from their votes."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any

import typer

from ragtasks.cli.app import MOVED, echo, put
from ragtasks.cli.options import DATA, FORMAT, JUDGES, asking, named_benchmark
from ragtasks.config.environment import run_store, secret
from ragtasks.errors import ConfigurationError
from ragtasks.progress import step
from ragtasks.tables import Format, render

commands = typer.Typer(
    help="Compare answers in pairs, by judges or people; rate systems.",
    rich_help_panel="Evaluate",
    epilog="Example: ragtasks arena battle results/a results/b --judge openai/gpt-4o-mini --output votes.jsonl",
    no_args_is_help=True,
)

MOVED["arena"] = {"copy": "ragtasks arena ratings arena.sqlite --save votes.jsonl"}

# Options of every command with a web server.

TOKEN_VARIABLE = "RAGTASKS_ARENA_TOKEN"
"""Environment variable with the token for typed names on a server that other machines can reach."""
HOST = Annotated[
    str,
    typer.Option(
        help=f"Address to listen on. If other machines can reach it, --typed-names requires {TOKEN_VARIABLE}.",
        hidden=True,
    ),
]
PORT = Annotated[int, typer.Option(min=0, max=65535, help="0 selects a free port.")]
TYPED_NAMES = Annotated[
    bool,
    typer.Option("--typed-names", help="Admit anyone, under any typed name; default: invited people.", hidden=True),
]

_RESULTS = Annotated[list[Path], typer.Argument(help="Folders of results, or predictions (JSON lines).")]
_BENCHMARK = Annotated[str | None, typer.Option(help="Benchmark of predictions: mtrag, mtrag_un.", hidden=True)]
_SETTING = Annotated[str | None, typer.Option(help="Setting of predictions; filter for results.", hidden=True)]
_REFERENCE = Annotated[bool, typer.Option("--with-reference", help="Include the benchmark's own answers.", hidden=True)]


def _answers(paths: list[Path], benchmark: str | None, data: str | None, setting: str | None, reference: bool) -> Any:
    from ragtasks.arena.battles import read_answers

    with step(f"reading answers of {', '.join(map(str, paths))}"):
        opened = named_benchmark(benchmark, data) if benchmark else None
        pool = read_answers(paths, benchmark=opened, setting=setting, with_reference=reference)
        implausible = list(pool.implausible())
    for line in implausible:
        typer.echo(f"implausible: {line}", err=True)
    return pool


def _tables(votes: Sequence[Any], form: Format) -> str:
    from ragtasks.arena.rating_tables import rating_sections

    with step(f"ratings from {len(votes):,} votes, with intervals"):
        return render(rating_sections(votes), form)


@commands.command(
    epilog="Example: ragtasks arena battle results/a results/b --judge openai/gpt-4o-mini --output votes.jsonl"
)
def battle(  # noqa: PLR0917 (one parameter an option)
    results: _RESULTS,
    judge: JUDGES,
    output: Annotated[Path, typer.Option(help="File of votes to write, .jsonl.")],
    max_battles: Annotated[int | None, typer.Option(min=1, help="Maximum battles; default: all.", hidden=True)] = None,
    benchmark: _BENCHMARK = None,
    setting: _SETTING = None,
    data: DATA = None,
    *,
    until_decided: Annotated[
        bool, typer.Option("--until-decided", help="Stop when the comparison is decided.", hidden=True)
    ] = False,
    margin: Annotated[
        float | None, typer.Option(help="Smallest relevant difference of win rates; default: 0.1.", hidden=True)
    ] = None,
    with_reference: _REFERENCE = False,
    form: FORMAT = Format.MARKDOWN,
) -> None:
    """Let judges compare saved answers in pairs, blinded and in both orders; write the votes, print ratings."""
    from ragtasks.arena.battles import judge_battles
    from ragtasks.arena.votes import write_votes

    if until_decided and max_battles is not None:
        raise ConfigurationError("--until-decided has no budget. Next step: omit --max-battles")
    pool = _answers(results, benchmark, data, setting, with_reference)
    if until_decided:
        _battle_until_decided(pool, judge, output, margin)
        return
    with asking(judge) as ask:
        judged = judge_battles(pool.battles, ask, max_battles=max_battles)
    write_votes(output, judged.votes)
    echo(_tables(judged.votes, form))
    notes = [f"{judged.n_left} battles were omitted: --max-battles {max_battles}"] if judged.n_left else []
    notes += [f"{pool.n_failed} answers are missing, as their requests failed"] if pool.n_failed else []
    notes += [f"{judged.n_unvoted} votes are missing, as a judge gave no verdict"] if judged.n_unvoted else []
    usage = [f"{name}: {used.n_asked} requests, {used.n_cached} cached" for name, used in judged.usage.items()]
    typer.echo("\n".join([*notes, *usage, f"wrote {output}: {len(judged.votes)} votes"]), err=True)
    judged.require_coverage()


def _battle_until_decided(pool: Any, judges: list[str], output: Path, margin: float | None) -> None:
    from ragtasks.arena.battles import race_battles
    from ragtasks.arena.votes import write_votes
    from ragtasks.reports.outcome import race_lines, wave_text

    def show(race: Any) -> None:
        typer.echo(wave_text(race), err=True)

    with asking(judges) as ask:
        race, judged = race_battles(pool, ask, margin=margin, after_wave=show)
    write_votes(output, judged.votes)
    n_all = judged.n_battles + judged.n_left
    if race.verdict is not None:
        echo(*race_lines(race, "win rate"))
    echo(
        f"judged: {judged.n_battles:,} of {n_all:,} battles, each in both orders; not judged: {judged.n_left:,}",
        f"wrote {output}: {len(judged.votes)} votes; their ratings cover only these battles",
    )
    judged.require_coverage()


@commands.command(epilog="Example: ragtasks arena ratings votes.jsonl")
def ratings(
    votes: Annotated[list[Path], typer.Argument(help="Files of `arena battle` (.jsonl), databases of `serve`.")],
    save: Annotated[Path | None, typer.Option(help="File for the votes, .jsonl.")] = None,
    form: FORMAT = Format.MARKDOWN,
) -> None:
    """Print ratings from votes: intervals, win rates, tests, length and refusals, agreement.

    With --save, FILE.events.jsonl contains all events of the databases: skips, undone votes and displayed names.
    """
    from ragtasks.arena.votes import read_votes, write_events, write_votes

    files = [path for path in votes if path.suffix == ".jsonl"]
    stored, happened = read_votes(files), list[Any]()
    for path in votes:
        if path.suffix != ".jsonl":
            with closing(open_votes(path)) as store:
                stored += store.votes()
                happened += store.events() if save is not None else []
    distinct = list({vote.vote_id: vote for vote in stored}.values())  # a saved file contains the votes of its database
    put(_tables(distinct, form))
    if save is not None:
        events = save.with_suffix(".events.jsonl")
        write_votes(save, distinct)
        n_events = write_events(events, happened)
        for line in (f"wrote {save}: {len(distinct)} votes", f"wrote {events}: {n_events} events"):
            typer.echo(line, err=True)  # standard output may be JSON or CSV


_DATABASE = Annotated[Path, typer.Option(help="File of votes (SQLite).")]
_SAVED_RESULTS = Annotated[list[Path] | None, typer.Argument(help="Folders of results, or predictions (JSON lines).")]


@commands.command(epilog="Example: ragtasks arena serve results/a results/b --raters 2")
def serve(  # noqa: PLR0917 (one parameter an option)
    results: _SAVED_RESULTS = None,
    database: _DATABASE = Path("arena.sqlite"),
    host: HOST = "127.0.0.1",
    port: PORT = 8765,
    raters: Annotated[int, typer.Option(min=1, help="Raters of each pair.")] = 1,
    lease: Annotated[float, typer.Option(min=0.1, help="Minutes until a pair is offered again.", hidden=True)] = 30.0,
    system: Annotated[
        list[str] | None,
        typer.Option(
            help='Live system: {"name": ..., "retriever": ..., "generator": {endpoint}}; repeatable.', hidden=True
        ),
    ] = None,
    domain: Annotated[str | None, typer.Option(help="Corpus of live retrieval.", hidden=True)] = None,
    patience: Annotated[float, typer.Option(min=1, help="Maximum seconds for a live answer.", hidden=True)] = 120.0,
    benchmark: _BENCHMARK = None,
    setting: _SETTING = None,
    data: DATA = None,
    *,
    typed_names: TYPED_NAMES = False,
    with_reference: _REFERENCE = False,
) -> None:
    """Serve pages for comparing saved or live answers, blinded or side by side, until Ctrl-C."""
    from ragtasks.arena.web import live_systems
    from ragtasks.arena.web import serve as serve_arena
    from retrieval_cache import searcher

    if not results and not system:
        raise ConfigurationError("nothing to compare: name results with logged samples, or two systems with --system")
    pipelines, conversations = [], {}
    if system:
        if benchmark is None:
            raise ConfigurationError("--system requires --benchmark, whose corpus is searched")
        opened = named_benchmark(benchmark, data)
        pipelines = live_systems(system, lambda line: searcher(opened, domain, line, run_store(), secret), secret)
        conversations = {task.task_id: task.messages for task in opened.tasks if domain in {None, task.domain}}
    serve_arena(
        _answers(results, benchmark, data, setting, with_reference) if results else None,
        database,
        host=host,
        port=port,
        token=secret(TOKEN_VARIABLE),
        types_names=typed_names,
        raters_per_battle=raters,
        lease_seconds=60 * lease,
        pipelines=pipelines,
        conversations=conversations,
        patience_seconds=patience,
        echo=echo,
    )


@commands.command(epilog="Example: ragtasks arena invite Ann Bob")
def invite(
    names: Annotated[list[str], typer.Argument(help="Names of raters; a new link replaces an earlier one.")],
    database: Annotated[
        Path, typer.Option(help="File of votes (SQLite), or of reviews: FOLDER/reviews.sqlite.")
    ] = Path("arena.sqlite"),
    address: Annotated[str, typer.Option(help="Address of the server for raters.")] = "http://127.0.0.1:8765",
) -> None:
    """Print a personal link for each rater, or each reviewer."""
    from ragtasks.arena.store import VoteStore

    store = VoteStore(database)
    try:
        for name in names:
            rater, token = store.invite(name)
            echo(f"{rater}: {address.rstrip('/')}/enter?invitation={token}")
    finally:
        store.close()


@commands.command(epilog="Example: ragtasks arena forms results")
def forms(  # noqa: PLR0917 (one parameter an option)
    results: _RESULTS,
    database: _DATABASE = Path("arena.sqlite"),
    output: Annotated[
        Path | None, typer.Option(help="Folder for a human-evaluation file, which `judges calibrate` reads.")
    ] = None,
    benchmark: _BENCHMARK = None,
    setting: _SETTING = None,
    data: DATA = None,
    *,
    with_reference: _REFERENCE = False,
    form: FORMAT = Format.MARKDOWN,
) -> None:
    """Print the results of evaluation forms and the agreement of raters; write MTRAG's human-evaluation file."""
    from ragtasks.arena.forms import form_sections, read_forms, write_human_evaluation

    pool = _answers(results, benchmark, data, setting, with_reference)
    with closing(open_votes(database)) as store:
        rated_forms, n_others = read_forms(pool, store.forms())
    echo(render(form_sections(pool, rated_forms), form))
    if n_others:
        typer.echo(f"{n_others} forms are about other answers", err=True)
    if output is not None:
        echo(f"wrote {write_human_evaluation(output, pool, rated_forms)}")


def open_votes(database: Path) -> Any:
    """Return the votes in a server's existing database, read-only."""
    from ragtasks.arena.store import VoteStore

    if not database.is_file():
        raise ConfigurationError(f"{database}: no such file. Next step: check the path to the database")
    return VoteStore(database, is_read_only=True)
