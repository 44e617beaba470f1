"""How the help is ordered, with an example a command, and the three ways in.

Commands do not say their group themselves, so that the order stands in one place; a test holds every command to a
group, and every example to the options that there are.
"""

from __future__ import annotations

import typer
from typer.models import CommandInfo, TyperInfo

GROUPS = {
    "Evaluate": {
        "run": "",  # its help is the harness's own
        "score": "ragtasks score answers.jsonl --benchmark mtrag --setting full_rag --output results/mine",
        "export-tasks": "ragtasks export-tasks --benchmark mtrag --setting full_rag --output tasks.jsonl",
        "judge": 'ragtasks judge results --output judged --metadata \'{"judges": ["openai/gpt-4o-mini"]}\'',
        "plan": "ragtasks plan --tasks mtrag --judge openai/gpt-4o-mini",
        "arena": "ragtasks arena --help",
    },
    "Retrieve": {
        "retrieve": "ragtasks retrieve --retriever bm25 --queries rewrite",
        "evaluate-run": "ragtasks evaluate-run FILE.trec --qrels QRELS --measures nDCG@20,R@100",
        "judge-passages": "ragtasks judge-passages retrieve_results.jsonl --judge openai/gpt-4o --output qrels.txt",
        "runs": "ragtasks runs list",
        "corpus": "ragtasks corpus check corpus.jsonl",
        "train": "ragtasks train --help",
    },
    "Report": {
        "report": "ragtasks report results --html page.html",
        "compare": "ragtasks compare results/a results/b",
        "results": "ragtasks results leaderboard results --output leaderboard.html",
        "calibrate": "ragtasks calibrate --judge openai/gpt-4o-mini",
        "describe": "ragtasks describe mtrag --data sample",
    },
    "Submit": {
        "submit": "ragtasks submit --task C --results results/mine --benchmark mtrag_un --output mine.jsonl",
        "check": "ragtasks check mine.jsonl --task C --benchmark mtrag_un; ragtasks check handbook",
        "trec-rag": "ragtasks trec-rag check answers.jsonl",
    },
    "Your own data": {
        "synthesize": "ragtasks synthesize DOCUMENTS --output benchmark --model openai/gpt-4o-mini",
        "quality": "ragtasks quality benchmark",
        "review": "ragtasks review serve benchmark",
    },
    "Maintenance": {
        "doctor": "ragtasks doctor --model hf",
        "fetch": "ragtasks fetch mtrag",
        "cache": "ragtasks cache prune --outcome refused",
        "link": "ragtasks link",
        "unlink": "ragtasks unlink",
        "path": 'lm_eval --include_path "$(ragtasks path)" --tasks mtrag_full_rag --model dummy',
    },
}
"""Group -> command -> an example, in the order of the help."""

THREE_WAYS = """\
Three ways in; each runs offline, on the sample that is inside the package (the last needs the extra retrieval):

  a model             ragtasks run --model ragtasks-extractive --tasks mtrag --data sample
  my own RAG system   ragtasks export-tasks --benchmark mtrag --data sample --setting full_rag --output tasks.jsonl
  a retriever         ragtasks retrieve --retriever bm25 --queries last_turn --data sample

ragtasks --help lists all commands, ragtasks COMMAND --help has an example of each.
"""


def put_in_groups(app: typer.Typer) -> None:
    """Give the commands of an application their groups, examples and order."""
    places = {name: (group, example) for group, commands in GROUPS.items() for name, example in commands.items()}
    order = list(places)

    def rank(item: CommandInfo | TyperInfo) -> int:
        return order.index(_name(item)) if _name(item) in places else len(order)

    items: list[CommandInfo | TyperInfo] = [*app.registered_commands, *app.registered_groups]
    for item in items:
        group, example = places.get(_name(item), ("Maintenance", ""))
        item.rich_help_panel = group
        if example:
            item.epilog = f"Example: {example}"
    app.registered_commands.sort(key=rank)
    app.registered_groups.sort(key=rank)


def _name(item: CommandInfo | TyperInfo) -> str:
    """Return the name of a command or a group of commands as users type it."""
    return str(item.name or getattr(item.callback, "__name__", "")).replace("_", "-")


__all__ = ["GROUPS", "THREE_WAYS", "put_in_groups"]
