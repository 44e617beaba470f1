"""`ragtasks judge-passages`: judges in the place of assessors, and a qrels file of what they say."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ragtasks.cli.app import app, say
from ragtasks.cli.options import asking
from ragtasks.errors import JudgeError


@app.command()
def judge_passages(  # noqa: PLR0917 (one parameter an option)
    runs: Annotated[
        list[str],
        typer.Argument(help="Retrieval results with texts; with --benchmark also stored runs, files, `official`."),
    ],
    judge: Annotated[list[str], typer.Option(help="openai/NAME or a JSON object with model, base_url; repeatable.")],
    output: Annotated[Path, typer.Option(help="Qrels to write, as TREC has them.")],
    depth: Annotated[int, typer.Option(min=1, help="Passages judged for each query, from each run.")] = 20,
    benchmark: Annotated[str | None, typer.Option(help="Benchmark of the runs: its questions and corpora.")] = None,
    data: Annotated[str | None, typer.Option(help="`sample`, or a folder with the official files.")] = None,
) -> None:
    """Grade the relevance of what runs found, 0 to 3, by judges; the file serves `evaluate-run --qrels`."""
    from ragtasks.environment import data_folder, run_store, secret
    from ragtasks.files import write_qrels
    from ragtasks.judges import judge_passages as judge_pairs
    from retrieval_cache.judged_pairs import pairs_of_benchmark, pairs_of_files
    from retrieval_cache.judging import ranking_named
    from retrieval_cache.service import Place
    from retrieval_cache.store import RunStore

    ask = asking(judge)
    if benchmark:
        opened = Place(benchmark, data, data_folder(), run_store(), secret).open()
        rankings = [ranking_named(opened, RunStore(run_store()), name).run for name in dict.fromkeys(runs)]
        pairs = pairs_of_benchmark(opened, rankings, depth)
    else:
        pairs = pairs_of_files([Path(name) for name in dict.fromkeys(runs)], depth)
    judged = judge_pairs(pairs, ask)
    if not judged.qrels:
        reason = judged.unjudged[0][-1] if judged.unjudged else "the runs rank no passage"
        raise JudgeError(f"no pair has a grade: {reason}. Next step: check judges and runs; nothing was written")
    write_qrels(output, judged.qrels)
    counts = ", ".join(f"{grade}: {n}" for grade, n in judged.n_by_grade().items())
    say(f"wrote {output}: {len(judged.qrels)} of {len(pairs)} pairs are judged ({counts})")
    if judged.unjudged:
        query_id, passage_id, reason = judged.unjudged[0]
        say(
            f"{len(judged.unjudged)} pairs have no grade and no line, such as {query_id} {passage_id}: {reason}. "
            "The same command asks only for these again"
        )


__all__ = ["judge_passages"]
