"""Rankings and judgements in TREC's formats: lines of runs and qrels, and whole runs.

Every reader of such files takes its lines from here; what else must hold of them (known ids, ranks without a gap), and
how all errors of a file are said, is the reader's own.

Equal scores are ordered as trec_eval orders them (score as a 32-bit float descending, then passage id descending), so
that the order in the file is the order that is evaluated.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from ragtasks.errors import CacheError
from ragtasks.files._atomic import write_atomically
from ragtasks.files._json_lines import Problems, bounded_lines, read_whole
from ragtasks.records import Qrel, normalise_task_id

_MAX_LISTED = 20  # errors of one file
_NUMBER = re.compile(r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?")
_NUL = "\0"  # trec_eval is written in C: an id with one ends the process
_GRADE = re.compile(r"-?[0-9]{1,9}")
_HEADER = "query-id"  # first cell of the header that files of BEIR have


@dataclass(frozen=True, slots=True)
class Ranked:
    """One passage of a ranking."""

    passage_id: str
    score: float
    """Higher is better; finite."""


Run = Mapping[str, tuple[Ranked, ...]]
"""Query id -> passages, best first. A query without any passage is there with an empty tuple."""


@dataclass(frozen=True, slots=True)
class RunLine:
    """What a line of a run says."""

    query_id: str
    """Query, as written."""
    passage_id: str
    rank: str
    """Rank, as written: not every reader asks for one."""
    score: float
    """Finite."""


@dataclass(frozen=True, slots=True)
class Misfit:
    """What is wrong with a line."""

    expected: str
    """In words."""
    found: object
    """What is there instead."""


def run_line(text: str) -> RunLine | Misfit:
    """Return what a line of a TREC run says, or what is wrong with it: other than six cells, or no finite score."""
    cells = text.split()
    if _NUL in text:
        return Misfit("text", "a NUL character")
    if len(cells) != 6:
        return Misfit("6 cells (query Q0 passage rank score tag)", len(cells))
    query_id, _, passage_id, rank, score, _ = cells
    if not _NUMBER.fullmatch(score) or not math.isfinite(float(score)):
        return Misfit("a finite score", score)
    return RunLine(query_id, passage_id, rank, float(score))


def qrel_lines(
    lines: Iterable[tuple[int, str]], n_cells: Collection[int], *, separator: str | None = None, least: int = 0
) -> Iterator[tuple[int, Qrel | Misfit]]:
    """Yield (line number, judgement or what is wrong) of lines of qrels; BEIR's header may be line 1."""
    for number, text in lines:
        cells = text.split(separator)
        if number == 1 and cells[:1] == [_HEADER]:
            continue
        if _NUL in text:
            yield number, Misfit("text", "a NUL character")
        elif len(cells) not in n_cells:
            kinds = {3: "3 cells (query passage grade)", 4: "4 (query 0 passage grade)"}
            yield number, Misfit(" or ".join(kinds[n] for n in sorted(n_cells)), len(cells))
        elif not _GRADE.fullmatch(cells[-1]) or int(cells[-1]) < least:
            yield number, Misfit(f"a grade that is a whole number from {least}", cells[-1])
        else:
            yield number, Qrel(cells[0], cells[-2], int(cells[-1]))


def in_rank_order(passages: Iterable[Ranked]) -> tuple[Ranked, ...]:
    """Return passages best first by the one rule for ties (see the module)."""
    return tuple(sorted(passages, key=lambda item: (_single(item.score), item.passage_id), reverse=True))


def _single(score: float) -> float:
    """Return the score as trec_eval holds it."""
    (value,) = struct.unpack("f", struct.pack("f", score))
    return float(value)


def write_trec(path: Path, run: Run, tag: str) -> str:
    """Write a run as a TREC file, atomically, and return its sha256; scores read back equal."""
    lines = [
        f"{query_id} Q0 {item.passage_id} {rank} {item.score!r} {tag}\n"
        for query_id, ranking in run.items()
        for rank, item in enumerate(ranking, start=1)
    ]
    return write_atomically(path, "".join(lines).encode())


def read_trec(path: Path) -> dict[str, tuple[Ranked, ...]]:
    """Return the run in a TREC file, queries in the order of the file, passages in rank order by score."""
    rankings: dict[str, dict[str, float]] = {}
    problems: list[str] = []
    for number, text in enumerate(text_of(path).splitlines(), start=1):
        line = run_line(text)
        if isinstance(line, Misfit):
            problems.append(f"line {number}: expected {line.expected}, found {line.found!r}")
        elif line.passage_id in rankings.setdefault(line.query_id, {}):
            problems.append(f"line {number} ({line.query_id}): passage {line.passage_id!r} appears twice")
        else:
            rankings[line.query_id][line.passage_id] = line.score
    raise_for_run(f"TREC run {path}", problems)
    return {query: in_rank_order(Ranked(*item) for item in ranking.items()) for query, ranking in rankings.items()}


def raise_for_run(what: str, problems: Iterable[str]) -> None:
    """Raise one error that lists what is wrong with a run, if anything is."""
    listed = list(problems)
    if listed:
        n_more = len(listed) - _MAX_LISTED
        shown = [*listed[:_MAX_LISTED], *([f"and {n_more} more"] if n_more > 0 else [])]
        n_problems = f"{len(listed)} error{'s' if len(listed) > 1 else ''}"
        raise CacheError(f"{what}: {n_problems}\n  " + "\n  ".join(shown))


def text_of(path: Path) -> str:
    """Return the text of a file of a run."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise unreadable(path, str(error)) from error


def unreadable(path: Path, found: str) -> CacheError:
    """Return the error for a file of a run that cannot be read."""
    return CacheError("run", where=str(path), expected="a text file", found=found, next_step="check the path")


# Relevance judgements as others hand them over: three cells a line as in BEIR, or four as in TREC.

_LEAST_GRADE = -9  # TREC marks spam and the like below 0


def read_qrels(path: Path) -> tuple[Qrel, ...]:
    """Return the judgements in a file, in its order, task ids in the one form in use.

    A line has the cells query, passage and grade, or query, a column that nobody reads, passage and grade; the header
    of BEIR may stand first.
    """
    problems = Problems(path, "qrels", "fix these lines: query, passage and a whole number")
    text = read_whole(problems).decode("utf-8", errors="replace")
    lines = [(number, line) for number, line in enumerate(text.splitlines(), start=1) if line.strip()]
    found: dict[tuple[str, str], Qrel] = {}
    for number, judged in qrel_lines(lines, (3, 4), least=_LEAST_GRADE):
        if isinstance(judged, Misfit):
            problems.add(number, judged.expected, judged.found)
            continue
        query_id = query_key(judged.query_id)
        if (query_id, judged.passage_id) in found:
            problems.add(number, "each judgement once", judged.passage_id, query_id)
        found[query_id, judged.passage_id] = Qrel(query_id, judged.passage_id, judged.relevance)
    problems.raise_if_any()
    return tuple(found.values())


def write_qrels(path: Path, qrels: Iterable[Qrel]) -> None:
    """Write judgements as TREC has them (query, 0, passage, grade), atomically; `read_qrels` reads them back equal."""
    write_atomically(path, "".join(f"{one.query_id} 0 {one.passage_id} {one.relevance}\n" for one in qrels).encode())


# Rankings in the files that people hand over: TREC runs, JSON lines as in official task files, retrieval results.
# The official format is JSON lines with `task_id` and `contexts`, a list of `document_id` and `score`. A query
# whose list is empty is there with an empty ranking; one that the file leaves out is not there: official scripts
# tell them apart. Retrieval results are JSON lines with `query` and `candidates`.


def read_run(path: Path) -> dict[str, tuple[Ranked, ...]]:
    """Return the run in a TREC file, official-format JSON lines or retrieval results, task ids in the one form in use.

    A file whose first character is `{` is JSON lines. In a TREC file the ranks of a query must count up from 0 or 1
    without a gap, in the order of the lines or not; the ranking itself is by score, as everywhere.
    """
    try:
        with path.open(encoding="utf-8-sig") as stream:
            lines = [line.removesuffix("\n") for line in bounded_lines(stream)]
    except (OSError, ValueError) as error:
        raise CacheError(f"cannot read the run {path}: {error}; next step: check the path") from error
    if next((line for line in lines if line.strip()), "").lstrip().startswith("{"):
        return _official(path, lines)
    run = read_trec(path)
    raise_for_run(f"run {path}", _gaps(lines))
    return _normalised(path, run)


def _official(path: Path, lines: Iterable[str]) -> dict[str, tuple[Ranked, ...]]:
    run: dict[str, tuple[Ranked, ...]] = {}
    problems: list[str] = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            query_id, scores = _ranking(orjson.loads(line))
        except (ValueError, KeyError, TypeError) as error:
            expected = "task_id and contexts with document_id and score, or query and candidates with docid and score"
            problems.append(f"line {number}: expected {expected}: {error}")
            continue
        if query_id in run:
            problems.append(f"line {number}: task {query_id!r} appears twice")
        run[query_id] = in_rank_order(Ranked(*item) for item in scores.items())
    raise_for_run(f"run {path}", problems)
    return run


def _ranking(row: Any) -> tuple[str, dict[str, float]]:
    """Return task id and passage id -> score of one row, in either format."""
    if has_candidates(row):
        topic = retrieved_topic(row)
        return query_key(topic.topic_id), {item.passage_id: item.score for item in topic.candidates}
    return query_key(row["task_id"]), _scores(row["contexts"])


def _scores(contexts: object) -> dict[str, float]:
    """Return passage id -> score of one row."""
    if not isinstance(contexts, list):
        raise TypeError(f"contexts {contexts!r}")
    scores: dict[str, float] = {}
    for context in contexts:
        passage_id, score = context["document_id"], context["score"]
        if not isinstance(passage_id, str) or not passage_id:
            raise ValueError(f"document_id {passage_id!r}")
        if isinstance(score, bool) or not isinstance(score, int | float) or not math.isfinite(score):
            raise ValueError(f"score {score!r} of {passage_id!r}")
        if passage_id in scores:
            raise ValueError(f"passage {passage_id!r} twice")
        scores[passage_id] = float(score)
    return scores


def _gaps(lines: Iterable[str]) -> Iterator[str]:
    """Yield an error for each query of a TREC file whose ranks leave one out, at the line after the gap."""
    ranks: dict[str, list[tuple[int, int]]] = {}
    for number, line in enumerate(lines, start=1):
        found = run_line(line)
        if not isinstance(found, RunLine):
            continue  # `read_trec` has refused it
        if found.rank.isdecimal():
            ranks.setdefault(found.query_id, []).append((int(found.rank), number))
        else:
            yield f"line {number} ({found.query_id}): expected a rank, found {found.rank!r}"
    for query_id, places in ranks.items():
        places.sort()
        first = min(places[0][0], 1)
        for expected, (rank, number) in enumerate(places, start=first):
            if rank != expected:
                yield f"line {number} ({query_id}): expected rank {expected}, found {rank}"
                break


def _normalised(path: Path, run: Run) -> dict[str, tuple[Ranked, ...]]:
    result = {query_key(query_id): ranking for query_id, ranking in run.items()}
    if len(result) != len(run):
        raise_for_run(f"run {path}", ["the same task under two spellings of its id"])
    return result


def query_key(query_id: object) -> str:
    """Return a task id in the one form in use, any other query id as it is."""
    if not isinstance(query_id, str):
        raise TypeError(f"task_id {query_id!r}")
    try:
        return normalise_task_id(query_id)
    except ValueError:
        return query_id


# Retrieval results with the texts of what was found: JSON lines, one topic with its candidates a line.
# Anserini writes them (`-outputRerankerRequests`), Ragnarok and RankLLM read them: `query` {`qid`, `text`},
# `candidates` [{`docid`, `score`, `doc` {`segment`, `title`, `url`, ...}}].
# Source: castorini/ragnarok at 7233fa7, `src/ragnarok/data.py`.


@dataclass(frozen=True, slots=True)
class Candidate:
    """One passage that was found for a topic."""

    passage_id: str
    score: float
    """Higher is better; finite."""
    doc: Mapping[str, Any]
    """Its record; empty where the line has none."""


@dataclass(frozen=True, slots=True)
class RetrievedTopic:
    """What was found for one topic."""

    topic_id: str
    text: str
    """Its text; empty where the line has none."""
    candidates: tuple[Candidate, ...]
    """In the order of the line; no passage twice."""


def has_candidates(row: object) -> bool:
    """Return whether a row of JSON lines is a topic with its candidates."""
    return isinstance(row, dict) and "candidates" in row


def retrieved_topic(row: Mapping[str, Any]) -> RetrievedTopic:
    """Return what a row says."""
    query, candidates = row.get("query"), row.get("candidates")
    topic_id = query.get("qid") if isinstance(query, dict) else None
    if not isinstance(query, dict) or not isinstance(topic_id, str | int) or isinstance(topic_id, bool):
        raise ValueError(f"`query` with a `qid`, found {query!r:.80}")
    if not isinstance(candidates, list):
        raise ValueError(f"a list `candidates`, found {candidates!r:.80}")
    found = {candidate.passage_id: candidate for candidate in map(_candidate, candidates)}
    if len(found) < len(candidates):
        raise ValueError("each candidate of a topic once, found one twice")
    return RetrievedTopic(str(topic_id), str(query.get("text") or ""), tuple(found.values()))


def _candidate(item: object) -> Candidate:
    passage_id = item.get("docid") if isinstance(item, dict) else None
    if not isinstance(item, dict) or not isinstance(passage_id, str) or not passage_id:
        raise ValueError(f"candidates with a `docid`, found {item!r:.80}")
    score, doc = item.get("score"), item.get("doc") or {}
    if isinstance(score, bool) or not isinstance(score, int | float) or not math.isfinite(score):
        raise ValueError(f"a finite `score` of {passage_id}, found {score!r}")
    if not isinstance(doc, dict):
        raise ValueError(f"`doc` of {passage_id} as an object, found {doc!r:.80}")
    return Candidate(passage_id, float(score), doc)
