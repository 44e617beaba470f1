"""Runs on disk. The precompute stage writes them and the harness tasks read them.

A run contains ranked passages for each query. It is stored as one TREC file per domain, the contexts of each task and
setting, and a manifest of its inputs. All files are text, so a run can be read, compared and submitted without
ragtasks.
"""

from __future__ import annotations

import csv
import hashlib
import math
import re
import struct
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from itertools import chain, islice, pairwise
from pathlib import Path, PurePosixPath
from typing import Any, Literal

import orjson
from pydantic import BaseModel, ConfigDict, StrictStr, ValidationError

from ragtasks.errors import BenchmarkFileError, CacheError, ConfigurationError, misfits
from ragtasks.files._atomic import canonical_hash, write_atomically
from ragtasks.files._containers import PARQUET, json_lines, other_form
from ragtasks.files._json_lines import (
    LOOK_AT,
    Problems,
    bounded_lines,
    first_bytes,
    first_of,
    open_unpacked,
    read_content,
)
from ragtasks.records import Contexts, Passage, Qrel, Setting, normalise_task_id

OFFICIAL = "official"
"""Name of the run that a benchmark publishes itself."""

CLOSED_BOOK = "closed_book"
"""Name for a run without passages: the model answers from its own knowledge."""

MANIFEST = "manifest.json"
_FORMAT = 1

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_RESERVED = (OFFICIAL, CLOSED_BOOK)


@dataclass(frozen=True)
class Manifest:
    """The inputs of a stored run. `key` changes if, and only if, an input that affects the result changes."""

    name: str
    spec: Mapping[str, Any]
    """All inputs that determine the result: corpora, queries, retriever, parameters, versions."""
    files: Mapping[str, str] = field(default_factory=dict)
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """Information that does not affect the result: times, counts, the machine."""

    @property
    def key(self) -> str:
        """Hash of the canonical JSON of `spec`."""
        return canonical_hash(self.spec)


def checked_run_name(name: str) -> str:
    """Return a valid run name: the name of a folder in the store, never a path.

    Every run name is checked here. A path could read or remove files outside of the store.
    """
    if not _NAME.fullmatch(name):
        raise ConfigurationError(
            f"run name {name[:120]!r}: expected letters, digits, `.`, `_` and `-`, at most 100, no path. Next step: "
            "name a stored run (`ragtasks results list`); `ragtasks retrieve --retriever run:FILE` makes one of a file"
        )
    return name


def new_run_name(name: str) -> str:
    """Return a name under which a run can be stored. Reserved names are errors."""
    if name in _RESERVED:
        raise ConfigurationError(f"run name {name!r} is taken: it means no stored run. Next step: choose another")
    return checked_run_name(name)


def run_folder(store: Path, name: str) -> Path:
    """Return the folder of a stored run, which may not exist."""
    return store / "runs" / checked_run_name(name)


class _ManifestPart(BaseModel):
    """A part of a manifest: the fields that are read, and any further fields."""

    model_config = ConfigDict(strict=True, extra="allow")


class _CorpusSpec(_ManifestPart):
    n_passages: int | None = None


class _Queries(_ManifestPart):
    form: str


class _Retriever(_ManifestPart):
    name: str


class _Spec(_ManifestPart):
    benchmark: str
    is_sample: bool
    revision: str
    tasks: str
    corpora: dict[str, _CorpusSpec]
    queries: _Queries
    retriever: _Retriever


class _RetrievalCounts(_ManifestPart):
    left_out: list[str] = []


class _Rewriting(_ManifestPart):
    asked: int
    fallbacks: dict[str, int]


class _RunMetadata(_ManifestPart):
    retrieval: dict[str, _RetrievalCounts] = {}
    rewriting: _Rewriting | None = None


class _ManifestFile(_ManifestPart):
    format: Literal[1]
    key: str
    name: str
    spec: _Spec
    files: dict[str, str]
    metadata: _RunMetadata


class _ContextsRow(BaseModel):
    model_config = ConfigDict(extra="forbid")

    task_id: StrictStr
    passages: tuple[Passage, ...]


def _corrupt(title: str, path: Path, expected: str, found: Sequence[str]) -> CacheError:
    next_step = (
        "remove the run with `ragtasks results remove NAME` and make it again with `ragtasks retrieve --retriever NAME`"
    )
    return CacheError(title, where=str(path), expected=expected, found="; ".join(first_of(found)), next_step=next_step)


def write_contexts(path: Path, contexts: Mapping[str, tuple[Passage, ...]]) -> str:
    """Write the passages of each task as JSON lines, atomically, and return the sha256."""
    rows = [
        {"task_id": task_id, "passages": [asdict(passage) for passage in passages]}
        for task_id, passages in contexts.items()
    ]
    return write_atomically(path, b"".join(orjson.dumps(row) + b"\n" for row in rows))


def read_contexts(folder: Path, setting: Setting) -> Contexts:
    """Return the passages of each task of a setting in a stored run."""
    manifest = read_manifest(folder)
    path = f"contexts/{setting.value}.jsonl"
    digest = hashlib.sha256()
    try:
        with (folder / path).open("rb") as stream:
            lines = list(bounded_lines(stream))
    except (OSError, ValueError) as error:
        raise _corrupt("contexts of a stored run", folder / path, "a readable file", [str(error)]) from error
    for line in lines:
        digest.update(line)
    if digest.hexdigest() != manifest.files.get(path):
        raise CacheError(f"{folder / path} was changed after it was written; remove the run and make it again")
    passages_of: dict[str, tuple[Passage, ...]] = {}
    errors: list[str] = []
    for number, line in enumerate(lines, start=1):
        try:
            row = _ContextsRow.model_validate(orjson.loads(line))
        except orjson.JSONDecodeError as error:
            errors.append(f"line {number}: {error}")
        except ValidationError as error:
            errors += [f"line {number}: {text}" for text in misfits(error)]
        else:
            if row.task_id in passages_of:
                errors.append(f"line {number}: task {row.task_id!r} occurs twice")
            passages_of[row.task_id] = row.passages
    if errors:
        raise _corrupt("contexts of a stored run", folder / path, "a task id and its passages in each line", errors)
    return Contexts(manifest.name, setting, passages_of)


def run_key(store: Path, name: str) -> str | None:
    """Return the key of a stored run, a hash of all its inputs; None if no run of that name is stored."""
    manifest = _stored_manifest(store, name)
    return None if manifest is None else manifest.key


def _stored_manifest(store: Path, name: str) -> Manifest | None:
    folder = run_folder(store, name)
    return read_manifest(folder) if (folder / MANIFEST).is_file() else None


def seconds_per_query(store: Path, name: str) -> dict[str, float]:
    """Return domain -> search seconds per query of a stored run, without domains that were not timed."""
    manifest = _stored_manifest(store, name)
    times = {} if manifest is None else manifest.metadata.get("searching", {})
    return {domain: timed["seconds"] / timed["queries"] for domain, timed in times.items()}


def spending_of_run(store: Path, name: str) -> dict[str, list[dict[str, Any]]]:
    """Return the usage of a stored run by model: role and model, such as `rewriter openai/m` -> sums over replies."""
    manifest = _stored_manifest(store, name)
    metadata = {} if manifest is None else manifest.metadata
    spending: dict[str, list[dict[str, Any]]] = {}
    for part in (metadata.get("rewriting", {}), *metadata.get("retrieval", {}).values()):
        for model, calls in part.get("spending", {}).items():
            spending.setdefault(model, []).extend(calls)
    return spending


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Write a run's manifest after all other files: a run without a manifest is incomplete."""
    content = {"format": _FORMAT, "key": manifest.key, **asdict(manifest)}
    write_atomically(folder / MANIFEST, orjson.dumps(content, option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS))


@contextmanager
def _run_errors() -> Iterator[None]:
    """Raise the errors of a file as errors of a run, which is a cached artifact."""
    try:
        yield
    except BenchmarkFileError as error:
        raise CacheError(str(error)) from error


@_run_errors()
def read_manifest(folder: Path) -> Manifest:
    path = folder / MANIFEST
    expected = "the manifest that `ragtasks retrieve` wrote"
    try:
        content = orjson.loads("\n".join(_lines_of(path)))
        _ManifestFile.model_validate(content)
        manifest = Manifest(content["name"], content["spec"], content["files"], content["metadata"])
        key = manifest.key
    except ValidationError as error:
        raise _corrupt("manifest of a run", path, expected, misfits(error)) from error
    except (orjson.JSONDecodeError, TypeError) as error:  # TypeError: nested too deeply for a hash
        raise _corrupt("manifest of a run", path, expected, [str(error)]) from error
    if content["key"] != key:
        raise CacheError(f"manifest {path} was edited: its key does not match its content")
    paths = {file: PurePosixPath(file) for file in manifest.files}
    outside = [file for file, path in paths.items() if path.is_absolute() or ".." in path.parts]
    if outside:
        raise CacheError(f"manifest {path} names files outside of its folder ({outside[0]!r}): do not use this run")
    return manifest


# Rankings and judgements in TREC's formats: lines of runs and qrels, and complete runs.
#
# All readers of these files use the functions below. Each reader makes further checks, such as known ids, and formats
# its own errors.
#
# Equal scores are ordered as in trec_eval (score as a 32-bit float descending, then passage id descending), so that the
# order in the file is the evaluated order.

_NUMBER = re.compile(r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?")
_NUL = "\0"  # trec_eval is written in C: an id with a NUL ends the process
_GRADE = re.compile(r"(-?[0-9]{1,9})(\.0*)?")  # pandas writes 1.0
_QRELS = {3: "3 cells (query passage grade)", 4: "4 cells (query 0 passage grade)"}
_HEADER = re.compile(
    r"((query|topic)([-_ ]?(id|no|num|number))?|q[-_ ]?id)\s.*[^0-9\s]\s*", re.IGNORECASE
)  # the last cell is not a grade
_SCORE_HEADINGS = ("score", "sim")
_FIX_LINES = "correct these lines: `query Q0 passage rank score tag`, each passage of a query once"
_BLANKS = re.compile(r"[ \t\r\f\v]+")  # as in C: a no-break space is part of an id


@dataclass(frozen=True, slots=True)
class Ranked:
    """A passage in a ranking."""

    passage_id: str
    score: float
    """Higher is better; finite."""


Run = Mapping[str, tuple[Ranked, ...]]
"""Query id -> passages, best first. A query without passages has an empty tuple."""


@dataclass(frozen=True, slots=True)
class RunLine:
    number: int
    """Line number from 1."""
    query_id: str
    passage_id: str
    rank: str
    """As written, because not every reader needs a rank."""
    score: float


@dataclass(frozen=True, slots=True)
class Misfit:
    """An error in a line."""

    expected: str
    found: object


def run_lines(lines: Iterable[tuple[int, str]]) -> Iterator[tuple[int, RunLine | Misfit]]:
    """Yield (line number, content or error) of the lines of a TREC run, without its header. Scores must be finite."""
    rows = _cells(lines, {6: "6 cells (query Q0 passage rank score tag)"})
    for position, (number, cells) in enumerate(rows):
        if isinstance(cells, Misfit):
            yield number, cells
        elif position == 0 and cells[4].lower() in _SCORE_HEADINGS:
            continue
        elif not _NUMBER.fullmatch(cells[4]) or not math.isfinite(float(cells[4])):
            yield number, Misfit("a finite score", cells[4])
        else:
            yield number, RunLine(number, cells[0], cells[2], cells[3], float(cells[4]))


def qrel_lines(
    lines: Iterable[tuple[int, str]], n_cells: Collection[int], *, least: int = 0
) -> Iterator[tuple[int, Qrel | Misfit]]:
    """Yield (line number, judgement or error) of the lines of qrels. The first line may be a header."""
    rows = _cells(lines, {n: form for n, form in _QRELS.items() if n in n_cells})
    for position, (number, cells) in enumerate(rows):
        if isinstance(cells, Misfit):
            yield number, cells
        elif position == 0 and _HEADER.fullmatch("\t".join(cells)):
            continue
        elif not (grade := _GRADE.fullmatch(cells[-1])) or int(grade[1]) < least:
            yield number, Misfit(f"a grade that is a whole number from {least}", cells[-1])
        else:
            yield number, Qrel(cells[0], cells[-2], int(grade[1]))


def _cells(lines: Iterable[tuple[int, str]], forms: Mapping[int, str]) -> Iterator[tuple[int, list[str] | Misfit]]:
    """Yield (line number, cells or error) of each line; `forms`: number of cells -> their names.

    Tabs separate the cells if the header has tabs, or if every line has the required number of tab-separated cells. Ids
    may then contain blanks. Otherwise blanks and tabs separate them, or commas if no line has blanks. All lines must
    have as many cells as the first.
    """
    any_form = frozenset(forms)
    lines = list(lines)
    if all("," in text and not _BLANKS.search(text.strip()) for _, text in lines):
        lines = [(number, "\t".join(next(csv.reader([text.strip()])))) for number, text in lines]
    rows = [(number, text, [cell.strip() for cell in text.rstrip().split("\t")]) for number, text in lines]
    has_tabs = bool(rows) and "\t" in rows[0][1] and bool(_HEADER.fullmatch(rows[0][1]))
    is_tabbed = has_tabs or all(len(tabbed) in any_form or tabbed == [""] for *_, tabbed in rows)
    for number, text, tabbed in rows:
        cells = tabbed if is_tabbed else _BLANKS.split(text.strip())
        if not is_tabbed and len(tabbed) in any_form and tabbed != cells:
            yield number, Misfit("tabs between the cells of all lines, or of none", text.strip())
        elif _NUL in text:
            yield number, Misfit("text", "a NUL character")
        elif len(cells) not in forms or not all(cells):
            yield number, Misfit(" or ".join(forms.values()), sum(map(bool, cells)))
        else:
            forms = {len(cells): forms[len(cells)]}
            yield number, cells


def in_rank_order(passages: Iterable[Ranked]) -> tuple[Ranked, ...]:
    """Return passages best first, ordered as in trec_eval: by 32-bit score, then by passage id, both descending."""
    return tuple(sorted(passages, key=lambda passage: (_single(passage.score), passage.passage_id), reverse=True))


def _single(score: float) -> float:
    """Return the score as a 32-bit float, as trec_eval stores it."""
    (value,) = struct.unpack("f", struct.pack("f", score))
    return float(value)


def write_trec(path: Path, run: Run, tag: str) -> str:
    """Write a run as a TREC file, atomically, and return its sha256. Reading the file returns an equal run."""
    rows = [
        (query_id, "Q0", passage.passage_id, rank, repr(passage.score), tag)
        for query_id, ranking in run.items()
        for rank, passage in enumerate(ranking, start=1)
    ]
    return write_atomically(path, _written(rows))


def _written(rows: Sequence[Sequence[object]]) -> bytes:
    """Return rows as lines of text, with tabs between the cells if an id contains a blank."""
    separator = "\t" if any(" " in str(cell) for row in rows for cell in row) else " "
    return "".join(separator.join(map(str, row)) + "\n" for row in rows).encode()


class FileRun(dict[str, tuple[Ranked, ...]]):
    """A run from a file, ranked by score."""

    reordered: Collection[str] = ()
    """Queries whose ranks or order in the file contradict their scores. Equal scores never do."""

    def order_note(self, queries: Iterable[str]) -> str:
        """Return a note on the number of queries whose order contradicts the scores; "" without such queries."""
        ranked = {query_id for query_id in queries if self.get(query_id)}
        n = len(ranked.intersection(self.reordered))
        is_everywhere = n == sum(len(self[query_id]) > 1 for query_id in ranked)
        hint = "; negate scores if lower is better" if is_everywhere else ""
        note = f"in {n} of {len(ranked)} queries the order of the file contradicts the scores; scores rank{hint}"
        return note if n else ""


@_run_errors()
def read_trec(path: Path) -> FileRun:
    """Return the run in a TREC file: queries in file order, passages in rank order by score."""
    return _trec(path, _lines_of(path))


def _trec(path: Path, texts: Iterable[str]) -> FileRun:
    lines_of: dict[str, dict[str, RunLine]] = {}
    problems = Problems(path, "run", _FIX_LINES)
    for number, line in run_lines((number, text) for number, text in enumerate(texts, start=1) if text.strip()):
        if isinstance(line, Misfit):
            problems.add(number, line.expected, line.found)
        elif line.passage_id in lines_of.setdefault(line.query_id, {}):
            problems.add(number, "each passage of a query once", line.passage_id, line.query_id)
        else:
            lines_of[line.query_id][line.passage_id] = line
    problems.raise_if_any()
    return run_of_lines({query_id: tuple(lines.values()) for query_id, lines in lines_of.items()})


def run_of_lines(lines_of: Mapping[str, Sequence[RunLine]]) -> FileRun:
    """Return the run in lines (query id -> lines in file order), ranked by score.

    Ranks in the file only decide whether a query is `reordered`.
    """
    run = FileRun()
    run.reordered = reordered = set[str]()
    for query_id, lines in lines_of.items():
        run[query_id] = in_rank_order(Ranked(line.passage_id, line.score) for line in lines)
        has_ranks = all(line.rank.isdecimal() for line in lines)
        by_rank = sorted(lines, key=lambda line: int(line.rank[:18])) if has_ranks else lines
        reordered |= {query_id} if _rises(line.score for line in by_rank) else set()
    return run


def _rises(scores: Iterable[float]) -> bool:
    """Return whether any score is higher than its predecessor, as trec_eval compares them."""
    return any(_single(first) < _single(second) for first, second in pairwise(scores) if first < second)


def _lines_of(path: Path) -> list[str]:
    try:
        with open_unpacked(path) as stream:
            return [line.decode("utf-8-sig") for lines in bounded_lines(stream) for line in lines.splitlines()]
    except OSError as error:
        raise Problems(path, "run", _FIX_LINES).unreadable(error) from error
    except ValueError as error:
        found, next_step = other_form(path) or (str(error), "save it as text in UTF-8")
        raise BenchmarkFileError("run", where=str(path), expected="text", found=found, next_step=next_step) from error


# Relevance judgements in other people's files: three cells per line as in BEIR, or four as in TREC.

_LEAST_GRADE = -9  # TREC marks spam and the like below 0


def read_qrels(path: Path) -> tuple[Qrel, ...]:
    """Return the judgements in a file, in file order, with normalized task ids.

    A line contains query, passage and grade (BEIR), or query, an unused column, passage and grade (TREC). Cells are
    separated by tabs or blanks; ids with blanks need tabs. The first line may be a header. JSON is read as one object
    {query: {passage: grade}} (ranx), or as lines with `query-id`, `corpus-id` and `score` (BEIR on the hub).
    """
    problems = Problems(path, "qrels", "fix these lines: query, passage and a whole number")
    if _has_rows(path):
        judgements = _judgements_in_rows(problems)
    else:
        texts = (line.decode("utf-8", errors="replace") for line in read_content(problems).splitlines())
        lines = ((number, text) for number, text in enumerate(texts, start=1) if text.strip())
        judgements = qrel_lines(lines, (3, 4), least=_LEAST_GRADE)
    qrels: dict[tuple[str, str], Qrel] = {}
    for number, judged in judgements:
        if isinstance(judged, Misfit):
            problems.add(number, judged.expected, judged.found)
            continue
        query_id = query_key(judged.query_id)
        if (query_id, judged.passage_id) in qrels:
            problems.add(number, "each judgement once", judged.passage_id, query_id)
        qrels[query_id, judged.passage_id] = Qrel(query_id, judged.passage_id, judged.relevance)
    problems.raise_if_any()
    return tuple(qrels.values())


def _judgements_in_rows(problems: Problems) -> Iterator[tuple[int, Qrel | Misfit]]:
    for number, row in _rows(problems):
        triples: list[tuple[object, object, object]]
        if isinstance(row, _Scored):
            triples = [(row.query_id, passage_id, grade) for passage_id, grade in row.scores.items()]
        else:
            triples = [(row.get("query-id"), row.get("corpus-id"), row.get("score"))]
        for query_id, passage_id, grade in triples:
            if not isinstance(query_id, str) or not isinstance(passage_id, str):
                yield number, Misfit("`query-id`, `corpus-id` and `score`", row)
            elif not (match := _GRADE.fullmatch(str(grade))) or int(match[1]) < _LEAST_GRADE:
                yield number, Misfit(f"a grade that is a whole number from {_LEAST_GRADE}", grade)
            else:
                yield number, Qrel(query_id, passage_id, int(match[1]))


def write_qrels(path: Path, qrels: Iterable[Qrel]) -> None:
    """Write judgements in TREC's format (query, 0, passage, grade), atomically. `read_qrels` returns them unchanged."""
    write_atomically(path, _written([(qrel.query_id, 0, qrel.passage_id, qrel.relevance) for qrel in qrels]))


# Rankings in other people's files: TREC runs, and JSON as written by MTRAGEval, Anserini, ranx, mteb and BEIR.
# MTRAGEval's format is JSON lines with `task_id` and `contexts`, a list of `document_id` and `score`. A query with an
# empty list gets an empty ranking; a query missing from the file is missing from the run. Official scripts distinguish
# the two. Retrieval results have `query` and `candidates`. Rows may also be the members of a JSON array. ranx, mteb and
# BEIR write one object {query: {passage: score}}, whose order carries no meaning.

_ROW_FORMS = "task_id and contexts with document_id and score, or query and candidates with docid and score"


@dataclass(frozen=True, slots=True)
class _Scored:
    """A member of one JSON object: a query with the scores (or grades) of its passages."""

    query_id: str
    scores: Mapping[str, Any]


@_run_errors()
def read_run(path: Path) -> FileRun:
    """Return the run in a TREC file or in rows (see above), with normalized task ids.

    The format is detected from the content, and the file may be compressed. Passages are ranked by score. Queries whose
    ranks or order contradict the scores are listed in `reordered`.
    """
    if _has_rows(path):
        return _run_of_rows(path)
    lines = _lines_of(path)
    if not any(map(str.strip, lines)):
        raise CacheError("run", where=str(path), expected="rankings", found="no line", next_step="write the file again")
    run = _trec(path, lines)
    result = FileRun((query_key(query_id), ranking) for query_id, ranking in run.items())
    if len(result) != len(run):
        problems = Problems(path, "run", "use the same spelling for all lines of a task")
        problems.add(0, "one spelling of each task's id", "two spellings of a task")
        problems.raise_if_any()
    result.reordered = set(map(query_key, run.reordered))
    return result


def _run_of_rows(path: Path) -> FileRun:
    run = FileRun()
    run.reordered = reordered = set[str]()
    problems = Problems(path, "run", "correct these, or write a TREC run")
    for number, row in _rows(problems):
        try:
            query_id, scores = _ranking(row)
        except (ValueError, KeyError, TypeError) as error:
            expected = "a finite score for each passage" if isinstance(row, _Scored) else _ROW_FORMS
            problem = f"no {error}" if isinstance(error, KeyError) else str(error)
            problems.add(number, expected, problem, row.query_id if isinstance(row, _Scored) else "")
            continue
        if query_id in run:
            problems.add(number, "each task once", query_id)
        run[query_id] = in_rank_order(Ranked(*passage) for passage in scores.items())
        is_ordered = not isinstance(row, _Scored)
        reordered |= {query_id} if is_ordered and _rises(scores.values()) else set()
    problems.raise_if_any()
    return run


def _rows(problems: Problems) -> Iterator[tuple[int, dict[str, Any] | _Scored]]:
    """Yield (number, row) of a file of rows. The queries of a single JSON object are rows too (`_Scored`)."""
    rows = json_lines(problems)
    first = list(islice(rows, 2))
    scores_of = queries_in(first[0][1]) if len(first) == 1 else {}
    if scores_of and all(isinstance(scores, dict) for scores in scores_of.values()):
        problems.unit = "query"
        yield from enumerate((_Scored(*query) for query in scores_of.items()), start=1)
    else:
        yield from chain(first, rows)


def queries_in(content: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return query -> scores of one JSON object. mteb nests it below the names of one subset and one split."""
    queries = {key: value for key, value in content.items() if key != "mteb_model_meta"}
    inner = next(iter(queries.values()), None)
    is_nested = (
        len(queries) == 1 and isinstance(inner, dict) and all(isinstance(scores, dict) for scores in inner.values())
    )
    return queries_in(inner) if is_nested and inner else queries


def _has_rows(path: Path) -> bool:
    """Return whether a file contains JSON, Parquet or BEIR's columns as CSV, not lines of cells."""
    if not path.is_file():  # a pipe can be read only once
        return False
    try:
        begin = first_bytes(path).lstrip()
    except OSError:  # the reader of the file reports it
        return False
    return begin.startswith((b"{", b"[", PARQUET, b"query-id,"))


def trec_form(path: Path) -> Literal["run", "qrels"] | None:
    """Return whether most of the first lines of a file fit a TREC run or judgements; None if neither."""
    try:
        content = first_bytes(path)
    except OSError:
        return None
    whole_lines = content if len(content) < LOOK_AT else content.rpartition(b"\n")[0]
    texts = enumerate(whole_lines.decode("utf-8", errors="replace").splitlines(), start=1)
    lines = [(number, text) for number, text in texts if text.strip()]
    # Single lines of any text may fit: "# written in 2025".
    n_ranked = sum(isinstance(line, RunLine) for _, line in run_lines(lines))
    n_judged = sum(isinstance(line, Qrel) for _, line in qrel_lines(lines, (3, 4), least=_LEAST_GRADE))
    if 2 * max(n_ranked, n_judged) < max(len(lines), 1):
        return None
    return "run" if n_ranked > n_judged else "qrels"


def _ranking(row: Any) -> tuple[str, dict[str, float]]:
    """Return task id and passage id -> score of a row, in any of the formats."""
    if isinstance(row, _Scored):
        return query_key(row.query_id), _scores(row.scores.items())
    if has_candidates(row):
        topic = retrieved_topic(row)
        return query_key(topic.topic_id), {candidate.passage_id: candidate.score for candidate in topic.candidates}
    task_id, contexts = row["task_id"], row["contexts"]
    if not isinstance(contexts, list):
        raise TypeError(f"contexts {contexts!r}")
    return query_key(task_id), _scores((context["document_id"], context["score"]) for context in contexts)


def _scores(pairs: Iterable[tuple[object, object]]) -> dict[str, float]:
    scores: dict[str, float] = {}
    for passage_id, score in pairs:
        if not isinstance(passage_id, str) or not passage_id:
            raise ValueError(f"document_id {passage_id!r}")
        if isinstance(score, bool) or not isinstance(score, int | float) or not math.isfinite(score):
            raise ValueError(f"score {score!r} of {passage_id!r}")
        if passage_id in scores:
            raise ValueError(f"passage {passage_id!r} twice")
        scores[passage_id] = float(score)
    return scores


def query_key(query_id: object) -> str:
    """Return a normalized task id. Other query ids are returned unchanged."""
    if not isinstance(query_id, str):
        raise TypeError(f"task_id {query_id!r}")
    try:
        return normalise_task_id(query_id)
    except ValueError:
        return query_id


# Retrieval results with passage texts: JSON lines, one topic with its candidates per line. Anserini writes them
# (`-outputRerankerRequests`), Ragnarok and RankLLM read them: `query` {`qid`, `text`}, `candidates` [{`docid`, `score`,
# `doc` {`segment`, `title`, `url`, ...}}]. Source: castorini/ragnarok at 7233fa7, `src/ragnarok/data.py`.


@dataclass(frozen=True, slots=True)
class Candidate:
    """A passage retrieved for a topic."""

    passage_id: str
    score: float
    """Higher is better; finite."""
    doc: Mapping[str, Any]
    """The passage's record; empty if the line contains no record."""


@dataclass(frozen=True, slots=True)
class RetrievedTopic:
    """The passages retrieved for a topic."""

    topic_id: str
    text: str
    """Text of the topic; empty if the line contains no text."""
    candidates: tuple[Candidate, ...]
    """In the order of the line, each passage once."""


def has_candidates(row: object) -> bool:
    """Return whether a row of JSON lines is a topic with its candidates."""
    return isinstance(row, dict) and "candidates" in row


def retrieved_topic(row: Mapping[str, Any]) -> RetrievedTopic:
    """Return the topic of a row. Raises ValueError for an invalid row."""
    query, candidates = row.get("query"), row.get("candidates")
    topic_id = query.get("qid") if isinstance(query, dict) else None
    if not isinstance(query, dict) or not isinstance(topic_id, str | int) or isinstance(topic_id, bool):
        raise ValueError(f"`query` with a `qid`, found {query!r:.80}")
    if not isinstance(candidates, list):
        raise ValueError(f"a list `candidates`, found {candidates!r:.80}")
    candidate_of = {candidate.passage_id: candidate for candidate in map(_candidate, candidates)}
    if len(candidate_of) < len(candidates):
        raise ValueError("each candidate of a topic once, found one twice")
    return RetrievedTopic(str(topic_id), str(query.get("text") or ""), tuple(candidate_of.values()))


def _candidate(row: object) -> Candidate:
    passage_id = row.get("docid") if isinstance(row, dict) else None
    if not isinstance(row, dict) or not isinstance(passage_id, str) or not passage_id:
        raise ValueError(f"candidates with a `docid`, found {row!r:.80}")
    score, doc = row.get("score"), row.get("doc") or {}
    if isinstance(score, bool) or not isinstance(score, int | float) or not math.isfinite(score):
        raise ValueError(f"a finite `score` of {passage_id}, found {score!r}")
    if not isinstance(doc, dict):
        raise ValueError(f"`doc` of {passage_id} as an object, found {doc!r:.80}")
    return Candidate(passage_id, float(score), doc)
