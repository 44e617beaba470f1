"""Synthesis of a dialogue benchmark from a folder of documents, with every loss counted."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any

from ragtasks.clients import Client, Price
from ragtasks.errors import ConfigurationError, close_matches
from ragtasks.progress import Progress, no_progress
from ragtasks.records import Passage
from ragtasks.synthesis.asking import Asker
from ragtasks.synthesis.cutting import Cut, DocumentPassage, cut_documents
from ragtasks.synthesis.dialogues import QUESTION_TYPES, write_dialogues
from ragtasks.synthesis.documents import MOST_BYTES, Document, Documents, LeftOut, read_documents
from ragtasks.synthesis.folder import (
    Synthesis,
    SynthesisReport,
    make_once,
    outcome_lines,
    prompt_hashes,
    write_mtrag_s,
    write_synthesis,
)
from ragtasks.synthesis.propositions import Unit, cut_sentences, extract_propositions, sublists, whole_passages
from ragtasks.synthesis.removal import Pool, make_unanswerable
from ragtasks.tables import grouped

# Settings of a synthesis.

UNITS = ("propositions", "sentences", "passages")
POOLS = ("passages", "propositions")
COLLECTIONS = ("clapnq", "cloud", "fiqa", "govt")
"""Corpora in MTRAG-S's format."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of dialogues from documents."""

    cut: Cut = field(default_factory=Cut)
    unit: str = "propositions"
    """Source of dialogues: `propositions`, `sentences` of the documents, or complete `passages`."""
    list_size: int = 30
    """Units per dialogue."""
    turns: int = 8
    """Maximum number of turns; MTRAG-S has as many, since longer dialogues repeat themselves."""
    question_types: tuple[str, ...] = QUESTION_TYPES
    unanswerable: float = 0.0
    """Share of the questions to make unanswerable by removing passages, 0 to 1."""
    pool: str = "passages"
    """Contents of the corpus: `passages`, or the units themselves (`propositions`)."""
    folders_are_domains: bool = False
    """Whether each folder of documents is a separate corpus."""
    most_bytes: int = MOST_BYTES
    mtrag_s: str = ""
    """MTRAG corpus that the documents replace, to write MTRAG-S's format; else empty."""
    most_dialogues: int | None = None
    """Maximum number of dialogues, from the first lists of each domain in turn; None for all."""

    def __post_init__(self) -> None:
        """Raise ConfigurationError for invalid values."""
        _check_name("unit", self.unit, UNITS)
        _check_name("pool", self.pool, POOLS)
        if self.mtrag_s:
            _check_name("corpus of MTRAG-S", self.mtrag_s, COLLECTIONS)
        for name in ("list_size", "turns", "most_bytes"):
            if getattr(self, name) < 1:
                raise ConfigurationError(f"synthesis: {name} must be at least 1, found {getattr(self, name)}")
        if not 0 <= self.unanswerable <= 1:
            raise ConfigurationError(f"synthesis: unanswerable is a share from 0 to 1, found {self.unanswerable}")


def _check_name(option: str, name: str, choices: tuple[str, ...]) -> None:
    if name not in choices:
        raise ConfigurationError(f"synthesis: {option} {name!r}: {close_matches(name, choices)}")


_VERSION = 1
"""Increased when the same replies give another benchmark."""
_PROMPTS = ("again", "answerable", "contextualize", "dialogue", "ground", "propositions")
_MAX_LISTED = 10


def synthesize(
    root: Path,
    folder: Path,
    client: Client,
    settings: Settings,
    *,
    price: Price | None = None,
    progress: Progress = no_progress,
) -> SynthesisReport:
    """Make a benchmark of dialogues from documents.

    With a caching client (`CachedClient`) a killed call continues, and the same replies give the same bytes.
    """
    read = read_documents(
        root, folders_are_domains=settings.folders_are_domains, most_bytes=settings.most_bytes, progress=progress
    )
    made_by = _made_by(read.documents, settings, client)

    def make(asker: Asker) -> Iterator[str]:
        made = _make(read, settings, asker, made_by, progress)
        if settings.mtrag_s:
            write_mtrag_s(folder, made, settings.mtrag_s)
        else:
            write_synthesis(folder, made)
        return _report_lines(folder, read, made)

    return make_once(folder, made_by, Asker(client, price, progress), make)


def _make(
    read: Documents, settings: Settings, asker: Asker, made_by: Mapping[str, Any], progress: Progress
) -> Synthesis:
    passages, repeated = cut_documents(read.documents, settings.cut, progress)
    left_out = [*read.left_out, *repeated]
    counts: Counter[str] = Counter(documents=len(read.documents), passages=len(passages))
    dropped: Counter[str] = Counter()
    if settings.unit == "sentences":
        units = cut_sentences(read.documents, passages)
    elif settings.unit == "passages":
        units = whole_passages(passages)
    else:
        units, unread, dropped = extract_propositions(passages, asker)
        left_out += unread
    if not units:
        raise ConfigurationError(_nothing_to_ask(settings, left_out, dropped))
    counts += dropped
    counts[settings.unit if settings.unit != "passages" else "units"] = len(units)
    lists = _chosen(units, settings)
    written, failed = write_dialogues(lists, asker, turns=settings.turns, question_types=settings.question_types)
    left_out += failed
    pool = _pool(passages, units, settings)
    dialogues, pool, tried = make_unanswerable(written, pool, settings.unanswerable, asker)
    if not dialogues:
        raise ConfigurationError(_nothing_to_ask(settings, left_out, dropped))
    counts["dialogues"], counts["turns"] = len(dialogues), sum(len(dialogue.turns) for dialogue in dialogues)
    counts["pairs taken out"] = sum(len(dialogue.removed) for dialogue in dialogues)
    return Synthesis(dialogues, pool, units, left_out, made_by, {**counts, **tried})


def _made_by(documents: Sequence[Document], settings: Settings, client: Client) -> dict[str, Any]:
    """Return everything that determines the result, as JSON values."""
    digest = hashlib.sha256()
    for document in documents:
        for part in (document.document_id, document.domain, document.title, document.text):
            digest.update(hashlib.sha256(part.encode()).digest())
    return {
        "version": _VERSION,
        "settings": asdict(settings),
        "client": dict(client.describe()),
        "prompts": prompt_hashes(_PROMPTS),
        "documents": digest.hexdigest(),
    }


def _chosen(units: Sequence[Unit], settings: Settings) -> list[tuple[Unit, ...]]:
    """Return the lists to write dialogues from: all, or the first of each domain in turn."""
    lists = list(sublists(units, settings.list_size))
    if settings.most_dialogues is None:
        return lists
    by_domain = grouped(lists, lambda units_of_list: units_of_list[0].domain)
    in_turn = chain.from_iterable(zip_longest(*by_domain.values()))
    return [units_of_list for units_of_list in in_turn if units_of_list is not None][: settings.most_dialogues]


def _pool(passages: Sequence[DocumentPassage], units: Sequence[Unit], settings: Settings) -> Pool:
    """Return the corpus, and the corpus entries that contain each unit."""
    domains = dict.fromkeys(unit.domain for unit in units)
    if settings.pool == "propositions":
        by_domain = {
            domain: tuple(Passage(unit.unit_id, unit.text) for unit in units if unit.domain == domain)
            for domain in domains
        }
        return Pool(by_domain, {unit.unit_id: (unit.unit_id,) for unit in units})
    by_domain = {
        domain: tuple(passage.passage for passage in passages if passage.domain == domain) for domain in domains
    }
    return Pool(by_domain, {unit.unit_id: unit.passage_ids for unit in units})


def _nothing_to_ask(settings: Settings, left_out: Sequence[LeftOut], dropped: Counter[str]) -> str:
    reasons = (Counter(omitted.reason for omitted in left_out) + dropped).most_common(3)
    summary = "; ".join(f"{count} times {reason}" for reason, count in reasons) or "nothing to ask about"
    return (
        f"no dialogue could be made from these {settings.unit}: {summary}. Nothing was written. Next step: check the "
        "documents, or use a model that replies in the requested format"
    )


def _report_lines(folder: Path, read: Documents, made: Synthesis) -> Iterator[str]:
    """Yield the final report."""
    yield from outcome_lines(folder, made.counts, made.left_out)
    if read.other_formats:
        formats = ", ".join(f"{count} {suffix}" for suffix, count in read.other_formats.most_common(_MAX_LISTED))
        yield f"files of other formats, not read: {formats}"
    for encoding, count in read.guessed.items():
        yield f"encoding guessed as {encoding} in {count} documents"
    removed = Counter(pair.reason for dialogue in made.dialogues for pair in dialogue.removed)
    yield from (f"pairs taken out: {count} ({reason})" for reason, count in removed.most_common())
