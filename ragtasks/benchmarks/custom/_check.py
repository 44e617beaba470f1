"""Output of `ragtasks check` for a user's folder: every error, or its contents and the next commands."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ragtasks.benchmarks._bm25 import BUILT_IN_RUN
from ragtasks.benchmarks.custom._folder import FILES, QRELS, RETRIEVED, Folder, read_folder, rewrites_of
from ragtasks.errors import near_names
from ragtasks.files import SAMPLE_STATISTICS
from ragtasks.records import Answerability
from ragtasks.tables import markdown_table


@dataclass(frozen=True, slots=True)
class FolderCheck:
    """The result of a check."""

    passes: bool
    """Whether the folder can be evaluated."""
    lines: tuple[str, ...]


def check_folder(root: Path) -> FolderCheck:
    """Return every error of a folder by file and line. Without errors, return counts and next commands."""
    folder, errors = read_folder(root)
    if errors:
        n_files = len({error.partition(":")[0] for error in errors})
        heading = f"{root}: {_plural(len(errors), 'error')} in {_plural(n_files, 'file')}"
        return FolderCheck(False, (heading, *errors, *_unread(root)))
    return FolderCheck(
        True, (f"{root}: no error", *folder.notes, *_contents(folder), *_unread(root), *_next_steps(folder))
    )


def _contents(folder: Folder) -> Iterator[str]:
    n_conversations = len({task.conversation_id for task in folder.tasks})
    n_passages = len(folder.corpus.passages)
    yield (
        f"{_plural(n_conversations, 'conversation')}, {_plural(len(folder.tasks), 'task')} (one for each question), "
        f"{_plural(n_passages, 'passage')}"
    )
    yield from _table(folder)
    if folder.qrels is None:
        yield f"judgements: the references, {len(folder.judgements())} (no {QRELS})"
    else:
        yield f"judgements: {len(folder.qrels)} in {QRELS}"
    if folder.retrieved is None:
        yield f"retrieved passages: none (no {RETRIEVED}); custom_full_rag uses those of {BUILT_IN_RUN}"
    else:
        yield f"retrieved passages: {RETRIEVED}, for {len(folder.retrieved)} of {_plural(len(folder.tasks), 'task')}"
    if n_left_out := len(folder.tasks) - len(folder.referring):
        yield f"left out of custom_reference: {_plural(n_left_out, 'task')} with an answer but without references"


def _table(folder: Folder) -> Iterator[str]:
    """Yield passages and tasks of each domain, with the labels in use."""
    occurring = {task.answerability for task in folder.tasks}
    labels = [label.value for label in Answerability if label in occurring]
    rows = [["domain", "passages", "tasks", *labels]]
    n_passages = Counter(folder.corpus.domains.values())
    for domain in dict.fromkeys((*folder.domains, *n_passages)):
        counts = Counter(task.answerability.value for task in folder.tasks if task.domain == domain)
        rows.append([domain, str(n_passages[domain]), str(counts.total()), *(str(counts[label]) for label in labels)])
    heads, *body = rows
    yield from (f"  {line}" for line in markdown_table(heads, body, right=[False, *[True] * (len(heads) - 1)]))


def _unread(root: Path) -> Iterator[str]:
    """Yield a line for each unread file: the name of an optional file may be misspelled."""
    names = sorted(path.name for path in root.glob("[!.]*") if path.is_file())
    for name in names:
        if name not in (*FILES, SAMPLE_STATISTICS):
            near = near_names(name, FILES)
            yield f"not read: {name}{f' ({near})' if near else ''}"


def _next_steps(folder: Folder) -> Iterator[str]:
    root = str(folder.root)
    tasks = "custom_reference,custom_full_rag" if folder.referring else "custom_full_rag"
    options = shlex.join(["--benchmark", "custom", "--data", root])
    data = shlex.join(["--data", root])
    form = " --queries rewrite" if rewrites_of(folder.tasks) else ""
    yield "next:"
    yield f"  ragtasks run --model ragtasks-extractive --tasks {tasks} {data}"
    yield f"  ragtasks retrieve {options} --retriever bm25{form} --name mine"
    yield f"  ragtasks evaluate-run official mine {options}"
    yield f"  ragtasks run --model ragtasks-extractive --tasks custom_full_rag {data} --run mine"


def _plural(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
