"""Rankings judged without a corpus: stored runs, the benchmark's own, or files, by its qrels or those of a file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ragtasks.benchmarks import Benchmark, published_passages, retrieval_side, tasks_checksum
from ragtasks.errors import BenchmarkFileError, CacheError, ConfigurationError, close_matches
from ragtasks.files import (
    MANIFEST,
    OFFICIAL,
    Problems,
    Ranked,
    Run,
    has_candidates,
    in_rank_order,
    json_lines,
    read_qrels,
    read_run,
    retrieved_topic,
)
from ragtasks.metrics import JudgedRun, RetrievalMetric, score_run
from ragtasks.records import Answerability, Message, Passage, Qrel, Role, Task
from retrieval_cache.corpora import DEFAULT_FIELDS, passage_of, read_corpus
from retrieval_cache.evaluation import check_overlap, coverage_notes, foreign_passages, some
from retrieval_cache.stage import read_run as read_stored
from retrieval_cache.store import RunStore, data_label, fallbacks_of


@dataclass(frozen=True, slots=True)
class Ranking:
    """A run of a benchmark's tasks, wherever it comes from."""

    name: str
    """What tables call it."""
    run: Run
    """Task id -> passages."""
    query_form: str = ""
    """What was sent to the retriever; empty where unknown."""
    corpus_sizes: Mapping[str, int] = field(default_factory=dict)
    """Domain -> passages that were searched; empty where unknown."""
    fallbacks: str = ""
    """How many queries are the last turn in the place of a rewrite, and why; empty where none is, or unknown."""


def ranking_named(benchmark: Benchmark, store: RunStore, name: str) -> Ranking:
    """Return a stored run, the benchmark's own (`official`), or that of a file, if no stored run has the name."""
    if name == OFFICIAL:
        own_name = retrieval_side(benchmark.name).rankings_name
        return Ranking(own_name(benchmark.root) if own_name else name, _official(benchmark))
    if is_result_file(benchmark.name, store, name):
        raise ConfigurationError(
            f"{name}: a result file of {benchmark.name}'s script ranks texts, not passages with ids. Next step: "
            "`ragtasks evaluate-run` without --measures, --per-query and --format prints its scores"
        )
    if is_file_of_run(store, name):
        return Ranking(Path(name).name, read_run(Path(name)))
    stored = store.named(name, is_no_file=True)
    spec = stored.manifest.spec
    here = (benchmark.name, benchmark.is_sample, tasks_checksum(benchmark.tasks))
    if (spec["benchmark"], spec["is_sample"], spec["tasks"]) != here:
        made_for = data_label(stored.manifest)
        raise CacheError(
            f"run {name!r} was made for other data ({made_for}) than {benchmark.label}; next step: name the data of "
            "the run with --benchmark and --data"
        )
    sizes = {domain: corpus["n_passages"] for domain, corpus in spec["corpora"].items() if "n_passages" in corpus}
    run = read_stored(stored, [task.task_id for task in benchmark.tasks])
    return Ranking(name, run, spec["queries"]["form"], sizes, fallbacks_of(stored.manifest))


def is_file_of_run(store: RunStore, name: str) -> bool:
    """Return whether a name means a file: it is a path, or a file of that name is here and no stored run has it."""
    return "/" in name or (Path(name).is_file() and not (store.runs / name / MANIFEST).is_file())


def is_result_file(benchmark: str, store: RunStore, name: str) -> bool:
    """Return whether a name means a file as the benchmark's official retrieval script writes it: one JSON array."""
    writes_results = retrieval_side(benchmark).load_results is not None
    return writes_results and Path(name).suffix == ".json" and is_file_of_run(store, name)


def judgements_of(benchmark: Benchmark, domains: Sequence[str] = ()) -> list[Qrel]:
    """Return the benchmark's judgements, of all its domains or of those that are named."""
    side = retrieval_side(benchmark.name)
    present = side.domains_of(benchmark.tasks)
    for domain in domains:
        if domain not in present:
            raise ConfigurationError(
                f"unknown domain {domain!r} of {benchmark.label}: {close_matches(domain, present)}"
            )
    chosen = [domain for domain in present if not domains or domain in domains]
    return [qrel for domain in chosen for qrel in side.load_qrels(benchmark.root, domain)]


def judge_rankings(
    benchmark: Benchmark, rankings: Sequence[Ranking], metrics: Sequence[RetrievalMetric], domains: Sequence[str] = ()
) -> list[JudgedRun]:
    """Return the scores of rankings by a benchmark's judgements."""
    qrels, side = judgements_of(benchmark, domains), retrieval_side(benchmark.name)
    domain_of = {task.task_id: task.domain for task in benchmark.tasks}
    return [_judged(one, qrels, metrics, domain_of, foreign_passages(benchmark, side, one.run)) for one in rankings]


def judge_files(files: Sequence[Path], qrels: Sequence[Path], metrics: Sequence[RetrievalMetric]) -> list[JudgedRun]:
    """Return the scores of run files by the judgements in files; no benchmark and no corpus is needed."""
    judgements = [qrel for path in qrels for qrel in read_qrels(path)]
    return [_judged(Ranking(path.name, read_run(path)), judgements, metrics, {}, "") for path in files]


def _judged(
    ranking: Ranking,
    qrels: Sequence[Qrel],
    metrics: Sequence[RetrievalMetric],
    domain_of: Mapping[str, str],
    unscored: str,
) -> JudgedRun:
    check_overlap(ranking.run, qrels, ranking.name)
    found = score_run(ranking.run, qrels, metrics)
    judged = list(found.values)
    notes = [f"{ranking.name}: {unscored}, so the judgements do not apply to it"] if unscored else []
    notes += [f"{ranking.name}: {ranking.fallbacks}"] if ranking.fallbacks else []
    notes += coverage_notes(
        ranking.name,
        judged,
        omitted=found.omitted,
        empty=found.empty,
        without_relevant=found.without_relevant,
        domain_of=domain_of,
    )
    if found.unjudged:
        # A benchmark's own tasks without judgements are known; of a file, the names show what it was made for.
        named = "" if domain_of else f": {some(found.unjudged)}"
        notes.append(f"{ranking.name}: {len(found.unjudged)} of its queries are not judged (ignored){named}")
    values = {query: dict.fromkeys(row) if unscored else row for query, row in found.values.items()}
    return JudgedRun(ranking.name, values, {query: domain_of[query] for query in judged if domain_of}, tuple(notes))


def _official(benchmark: Benchmark) -> Run:
    """Return the published top passages as a run: by their scores, or in their order where no scores are published."""
    side = retrieval_side(benchmark.name)
    if side.load_run:
        return side.load_run(benchmark.root)
    contexts = side.load_rankings(benchmark.root) if side.load_rankings else published_passages(benchmark)
    distinct = {task_id: dict.fromkeys(passages) for task_id, passages in contexts.items()}
    return {
        task_id: in_rank_order(Ranked(item.passage_id, float(-rank)) for rank, item in enumerate(passages))
        for task_id, passages in distinct.items()
    }


# What judges grade: questions with the passages that runs rank first for them, pooled over the runs.

_MAX_LISTED = 5


def pairs_of_benchmark(benchmark: Benchmark, runs: Sequence[Run], depth: int) -> list[tuple[Task, Passage]]:
    """Return each task with the passages that a run ranks among its first `depth`, by task, then in rank order.

    The benchmark's corpora are read once for the texts.
    """
    ranked = {
        task.task_id: list(dict.fromkeys(item.passage_id for run in runs for item in run.get(task.task_id, ())[:depth]))
        for task in benchmark.tasks
    }
    wanted = {passage_id for ids in ranked.values() for passage_id in ids}
    side = retrieval_side(benchmark.name)
    files = dict.fromkeys(str(side.corpus_file(benchmark.root, name)) for name in side.domains_of(benchmark.tasks))
    passages = (passage for file in files for passage in read_corpus(file, blank="skip"))
    texts = {passage.passage_id: passage for passage in passages if passage.passage_id in wanted}
    if missing := sorted(wanted - texts.keys()):
        raise BenchmarkFileError(
            "passages to judge",
            where=benchmark.label,
            expected="the text of every passage that the runs rank",
            found=f"none of {len(missing)}, such as {', '.join(missing[:_MAX_LISTED])}",
            next_step="give the runs that were made over these corpora",
        )
    return [(task, texts[passage_id]) for task in benchmark.tasks for passage_id in ranked[task.task_id]]


def pairs_of_files(files: Sequence[Path], depth: int) -> list[tuple[Task, Passage]]:
    """Return each topic of files of retrieval results with its first `depth` candidates; no benchmark is needed."""
    tasks: dict[str, Task] = {}
    found: dict[str, dict[str, Passage]] = {}
    for file in files:
        for task, passages in _topics(file, depth):
            first = tasks.setdefault(task.task_id, task)
            for passage in passages:
                found.setdefault(first.task_id, {}).setdefault(passage.passage_id, passage)
    return [(tasks[topic_id], passage) for topic_id, by_passage in found.items() for passage in by_passage.values()]


def _topics(file: Path, depth: int) -> Iterator[tuple[Task, list[Passage]]]:
    problems = Problems(file, "retrieval results", "fix them, or name the --benchmark of a run without texts")
    for number, row in json_lines(problems):
        try:
            topic = retrieved_topic(row)
        except ValueError as error:
            problems.add(number, "query and candidates", str(error) if has_candidates(row) else list(row))
            continue
        if not topic.text.strip():
            problems.add(number, "`query` with a `text`", "none", topic.topic_id)
        rows: list[Mapping[str, object]] = [{**one.doc, "docid": one.passage_id} for one in topic.candidates[:depth]]
        passages = [passage_of(one, DEFAULT_FIELDS, "refuse") for one in rows]
        for wrong in (one for one in passages if isinstance(one, str)):
            problems.add(number, "a text of every candidate", wrong, topic.topic_id)
        yield _task(topic.topic_id, topic.text), [one for one in passages if isinstance(one, Passage)]
    problems.raise_if_any()


def _task(topic_id: str, text: str) -> Task:
    return Task(
        task_id=topic_id,
        conversation_id=topic_id,
        turn=1,
        domain="",
        messages=(Message(Role.USER, text),),
        target="",
        answerability=Answerability.ANSWERABLE,
        question_types=(),
        multi_turn="N/A",
        references=(),
    )
