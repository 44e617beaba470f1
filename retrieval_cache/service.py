"""Functions of the retrieval commands: names and folders in, stored runs and tables out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from ragtasks.benchmarks import Benchmark, benchmark_folder, open_benchmark, retrieval_side
from ragtasks.benchmarks.mtrag import NO_LABELS, read_standalone_labels
from ragtasks.clients import CachedClient, OpenAIClient, Secrets, Spending, credentials_for, endpoint_of, no_secrets
from ragtasks.errors import BenchmarkFileError, ConfigurationError, JudgeError, close_matches
from ragtasks.files import OFFICIAL
from ragtasks.metrics import RETRIEVAL_METRICS, RetrievalMetric, measure_name
from ragtasks.progress import Progress, progress_bars
from ragtasks.records import Passage
from ragtasks.statistics import Column, Comparisons, compare_columns, mean_columns
from ragtasks.tables import ALL, Section
from retrieval_cache.evaluation import (
    PAPER_BENCHMARK,
    JudgedRun,
    columns_of,
    judge,
    notes_of,
    retrieval_section,
)
from retrieval_cache.evidence import evidence_table, foreign_passages, result_files_table
from retrieval_cache.queries import (
    DECOMPOSE,
    LLM_REWRITE,
    MIN_REWRITTEN,
    MODEL_FORMS,
    SEPARATOR,
    Queries,
    TrainedRewriter,
    build_queries,
    fused_queries,
    needs_model,
    rewrite_queries,
    select_queries,
)
from retrieval_cache.rankings import is_result_file, judgements_of, ranking_named
from retrieval_cache.retrievers.protocol import Retriever, searched, spending_of
from retrieval_cache.retrievers.vectors import encode_with
from retrieval_cache.spec import filled_by, parse
from retrieval_cache.stage import DEPTH, RunRequest, build_run, domain_retriever
from retrieval_cache.store import RunStore, StoredRun

BY_DOMAIN = "domain"
DEFAULT_METRICS = ("R@5", "nDCG@5")
"""Default metrics of comparisons: those for the 5 passages shown to a model (MTRAG paper, Table 3)."""
_TRAINED = f"{LLM_REWRITE}:"


@dataclass(frozen=True, slots=True)
class Workspace:
    """A benchmark, its data and the store of its runs."""

    benchmark: str
    data: str | None
    """`sample`, a folder, or None for the data folder."""
    data_folder: Path
    store: Path
    secrets: Secrets = field(default=no_secrets, repr=False)

    def open(self) -> Benchmark:
        """Return the benchmark."""
        folder = benchmark_folder(self.benchmark, self.data, self.data_folder)
        return open_benchmark(self.benchmark, folder.resolve())


@dataclass(frozen=True, slots=True)
class Rewriter:
    """The model that writes the queries of the forms `llm_rewrite` and `decompose`."""

    model: str | None
    """An endpoint in the notation of `endpoint_of`."""
    min_rewritten: float = MIN_REWRITTEN
    """Minimum share of rewritten questions, 0 to 1. Below it no run is stored."""


def retrieve(
    workspace: Workspace,
    retriever: str,
    form: str,
    *,
    name: str | None = None,
    depth: int,
    rewriter: Rewriter | None = None,
    corpora: Mapping[str, str] | None = None,
    encode_with: str | None = None,
    progress: Progress | None = None,
) -> StoredRun:
    """Return the stored run of a retriever over a benchmark's queries; it is computed if missing.

    Args:
        workspace: benchmark, data and store.
        retriever: a line such as `bm25` or `hybrid(bm25,dense:minilm)`.
        form: query form, or several separated by `/`, whose rankings are fused by reciprocal rank (k = 60); or
            `llm_rewrite:FOLDER` for a trained rewriter in a folder.
        name: name of the run; default: retriever, query form and data.
        depth: passages stored per query.
        rewriter: model that rewrites or splits questions for the forms `llm_rewrite` and `decompose`.
        corpora: domain -> corpus that replaces the benchmark's own.
        encode_with: workers that encode the passages, as `KIND:ADDRESS`; default: this process. Results are equal.
        progress: called after each step; default: bars on standard error.

    Raises:
        RagtasksError: unknown names, missing files or libraries, a full disk.
    """
    check_request(workspace, retriever, form, rewriter, encode_with)
    benchmark, store = workspace.open(), RunStore(workspace.store)
    make = partial(_retriever_of, retriever, workspace.secrets, store.replies, encode_with)
    with nullcontext(progress) if progress else progress_bars() as report:
        queries = _queries(workspace, benchmark, form, rewriter or Rewriter(None), report)
        return build_run(RunRequest(benchmark, queries, make, depth, name, corpora), store, report)


def check_request(
    workspace: Workspace, retriever: str, form: str, rewriter: Rewriter | None = None, workers: str | None = None
) -> None:
    """Check the arguments of `retrieve` and raise ConfigurationError before any request is sent."""
    _retriever_of(retriever, workspace.secrets, RunStore(workspace.store).replies, workers)
    by = rewriter or Rewriter(None)
    if form.startswith(_TRAINED):
        if by.model:
            raise ConfigurationError(f"{form} names a rewriter: leave out --rewriter")
        return
    if not needs_model(form) and by.model:
        raise ConfigurationError(
            f"--rewriter is for the query forms {LLM_REWRITE!r} and {DECOMPOSE!r}, and the form is {form!r}: add "
            f"--queries {LLM_REWRITE}, or leave it out"
        )
    names = form.split(SEPARATOR)
    fused_queries([Queries(name, {}) for name in names])
    if plain_forms := [name for name in names if name not in MODEL_FORMS]:
        benchmark = workspace.open()
        for name in plain_forms:
            build_queries(benchmark, name, ())
    if needs_model(form) and not by.model:
        raise ConfigurationError(f"query form {form!r} needs a model: --rewriter openai/NAME, or NAME,base_url=ADDRESS")


def _retriever_of(line: str, secrets: Secrets, replies: Path, workers: str | None) -> Retriever:
    """Return a new retriever, with workers that encode its passages if named."""
    made = parse(line, secrets, replies)
    if workers is not None and not encode_with(made, filled_by(workers)):
        raise ConfigurationError(
            f"--encode-with {workers}: retriever {line!r} encodes no passages into vectors. Next step: leave it out, "
            "or choose dense:MODEL"
        )
    return made


def _queries(workspace: Workspace, benchmark: Benchmark, form: str, rewriter: Rewriter, progress: Progress) -> Queries:
    """Return the queries of a form, or of several separated by `/`."""
    if form.startswith(_TRAINED):  # not split, because a path contains the separator of forms
        folder = Path(form.removeprefix(_TRAINED)).expanduser()
        queries = TrainedRewriter(folder).rewrite(benchmark.tasks, progress)
        queries.require_share(rewriter.min_rewritten)
        return queries
    names = form.split(SEPARATOR)
    parts = {name: build_queries(benchmark, name) for name in names if name not in MODEL_FORMS}
    # Last, because requests cost money and the other forms may raise errors.
    for name in [name for name in names if name in MODEL_FORMS]:
        assert rewriter.model  # checked by `check_request`
        endpoint = endpoint_of(rewriter.model)
        client = OpenAIClient(endpoint, credentials_for(endpoint, workspace.secrets))
        cached = CachedClient(client, RunStore(workspace.store).replies)
        queries = rewrite_queries(benchmark.tasks, cached, progress, form=name)
        if queries.n_unanswered:
            raise JudgeError(
                f"{queries.n_unanswered} of {len(benchmark.tasks)} questions got no reply from {endpoint.model}; "
                "answers so far are saved. Next step: run the same command again"
            )
        queries.require_share(rewriter.min_rewritten)
        parts[name] = queries
    return fused_queries([parts[name] for name in names])


def evaluate_runs(workspace: Workspace, names: Sequence[str], domains: Sequence[str] = ()) -> Section:
    """Return the tables of several runs side by side."""
    side, store = retrieval_side(workspace.benchmark), RunStore(workspace.store)
    files = [name for name in dict.fromkeys(names) if is_result_file(workspace.benchmark, store, name)]
    if files and domains:
        raise ConfigurationError(f"--domain: {files[0]} has no domains. Next step: leave it out")
    ranked = [name for name in dict.fromkeys(names) if name not in files]
    report = Section(f"Retrieval on {workspace.benchmark}", {}, ())
    more = [result_files_table(side, list(map(Path, files)))]
    if ranked:
        benchmark = workspace.open()
        judged = judge_runs(benchmark, workspace.store, ranked, RETRIEVAL_METRICS, domains)
        runs = {
            run.name: None if name == OFFICIAL else run.ranking.run for name, run in zip(ranked, judged, strict=True)
        }
        report, more = retrieval_section(judged), [evidence_table(benchmark, runs), *more]
    return replace(report, tables=(*report.tables, *filter(None, more)))


def compare_runs(
    workspace: Workspace,
    names: Sequence[str],
    *,
    metrics: Sequence[str] = (),
    by: str = ALL,
    baseline: str | None = None,
    n_least: int = 2,
) -> Comparisons:
    """Return every run's mean over the judged queries, and the differences of all pairs of runs."""
    by_name = {metric.name: metric for metric in RETRIEVAL_METRICS}
    for metric in metrics:
        if measure_name(metric) not in by_name:
            raise ConfigurationError(f"unknown metric {metric!r}: {close_matches(metric, by_name)}")
    if by not in {ALL, BY_DOMAIN}:
        raise ConfigurationError(f"unknown value of `by` {by!r}: {close_matches(by, (ALL, BY_DOMAIN))}")
    if len(set(names)) < n_least:
        raise ConfigurationError(f"runs to compare: expected at least two (`official` counts), found {names[:1]}")
    chosen = [by_name[measure_name(name)] for name in metrics or DEFAULT_METRICS]
    columns: list[Column] = []
    distinct = list(dict.fromkeys(names))
    for name, judged in zip(distinct, judge_runs(workspace.open(), workspace.store, distinct, chosen), strict=True):
        run = replace(judged, ranking=replace(judged.ranking, name=name))
        groups = dict.fromkeys(result.domain for result in run.results) if by == BY_DOMAIN else [ALL]
        note = "; ".join(text.lstrip(": ") for text in notes_of(run, chosen))
        columns += [column for group in groups for column in columns_of(run, chosen, group, note)]
    return compare_columns(columns, baseline) if len(set(names)) > 1 else Comparisons(mean_columns(columns), ())


def has_judgements(workspace: Workspace) -> bool:
    """Return whether a benchmark has judgements of passages. Judgements that are only missing on this machine count."""
    benchmark = workspace.open()
    side = retrieval_side(benchmark.name)
    try:
        return any(side.load_qrels(benchmark.root, domain) for domain in side.domains_of(benchmark.tasks))
    except ConfigurationError:
        return False
    except BenchmarkFileError:
        return True


def judge_runs(
    benchmark: Benchmark,
    store: Path,
    names: Sequence[str],
    metrics: Sequence[RetrievalMetric],
    domains: Sequence[str] = (),
) -> list[JudgedRun]:
    """Return the scores of stored runs, files and the benchmark's own run by the judgements of some domains, or all."""
    rankings = {name: ranking_named(benchmark, RunStore(store), name) for name in names}
    if len({ranking.name for ranking in rankings.values()}) < len(rankings):  # equal file names in several folders
        rankings = {name: replace(ranking, name=name) for name, ranking in rankings.items()}
    return [
        judge(
            ranking,
            judgements_of(benchmark, domains),
            [task for task in benchmark.tasks if not domains or task.domain in domains],
            data=benchmark.label,
            standalone=read_standalone_labels(benchmark.root) if benchmark.name == PAPER_BENCHMARK else NO_LABELS,
            unscored=foreign_passages(benchmark, ranking.run),
            metrics=metrics,
        )
        for ranking in rankings.values()
    ]


# Searches for questions of live conversations, without storing them.


def searcher(
    benchmark: Benchmark, domain: str | None, line: str, store: Path, secrets: Secrets = no_secrets
) -> Callable[[str], tuple[Passage, ...]]:
    """Return a function: question -> passages, best first, as many as the benchmark shows to models.

    The corpus is kept in memory, so a question costs only the search.
    """
    domains = retrieval_side(benchmark.name).domains_of(benchmark.tasks)
    chosen = domain or next(iter(domains), "")
    if chosen not in domains:
        raise ConfigurationError(f"unknown domain {chosen!r}: {close_matches(chosen, domains)}")
    search = searcher_of_many(benchmark, chosen, line=line, store=store, secrets=secrets)
    return lambda question: search({"question": question})["question"]


def searcher_of_many(
    benchmark: Benchmark, domain: str, *, line: str, store: Path, secrets: Secrets = no_secrets
) -> CorpusSearcher:
    """Return a function that searches passages for many queries at once.

    Rankings have the depth of a stored run, which affects fusion and reranking. The same text therefore finds the same
    passages.
    """
    runs = RunStore(store)
    with progress_bars() as progress:
        make = partial(parse, line, secrets, runs.replies)
        retriever, source = domain_retriever(benchmark, domain, make, runs, progress)
        passages = {passage.passage_id: passage for passage in source}

    return CorpusSearcher(retriever, passages, benchmark.n_passages)


@dataclass(frozen=True, slots=True)
class CorpusSearcher:
    """A retriever over one corpus, with the corpus in memory."""

    retriever: Retriever
    passages: Mapping[str, Passage]
    n_passages: int

    def __call__(self, queries: Mapping[str, str]) -> dict[str, tuple[Passage, ...]]:
        """Return query id -> passages, best first, for query id -> text."""
        rankings = searched(self.retriever, dict(queries), DEPTH)
        return {
            name: tuple(self.passages[ranked.passage_id] for ranked in rankings[name][: self.n_passages])
            for name in queries
        }

    def spending(self) -> Spending:
        """Return the spending on the retriever's replies."""
        return spending_of(self.retriever)


def checked_form(form: str, *, has_rewriter: bool) -> str:
    """Return a query form that can be used in a live conversation. Raises ConfigurationError for others."""
    if DECOMPOSE in form.split(SEPARATOR):
        raise ConfigurationError(
            f"queries {form!r}: a live conversation is searched with one query per turn, and {DECOMPOSE!r} "
            f"makes several. Next step: {LLM_REWRITE}, or for a stored run `ragtasks retrieve --retriever NAME "
            f"--queries {form}`"
        )
    if has_rewriter != (form == LLM_REWRITE):
        raise ConfigurationError(
            f"queries {form!r} and a rewriter: {LLM_REWRITE!r} requires a rewriter, and no other form accepts one"
        )
    if form != LLM_REWRITE:
        select_queries((), form)
    return form
