"""Requirements of a run: the line of its retriever, queries and their rewriter, corpora, weights, servers, disk."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from ragtasks.benchmarks import retrieval_side
from ragtasks.clients import endpoint_of, endpoint_requirements
from ragtasks.errors import ConfigurationError, RagtasksError, close_matches, missing_path
from ragtasks.files import writable_folder
from ragtasks.requirements import Requirement
from retrieval_cache.retrievers.protocol import requirements_of
from retrieval_cache.service import Place, Rewriter, check_request
from retrieval_cache.spec import parse


def retrieval_requirements(
    place: Place,
    line: str,
    forms: Sequence[str],
    *,
    rewriter: Rewriter,
    corpora: Mapping[str, str] | None = None,
    encode_with: str | None = None,
) -> list[Requirement]:
    """Return the requirements of the runs that `retrieve` makes of these arguments, one for each query form."""

    def check_data() -> str:
        benchmark = place.open()
        return f"{benchmark.label} in {benchmark.root}"

    def check_form(form: str) -> str:
        check_request(place, line, form, rewriter, encode_with)
        return form

    def check_corpora() -> str:
        return f"{len(_corpora(place, corpora or {}))} corpora"

    found = [Requirement("data", f"data of {place.benchmark}", check_data)]
    found += [Requirement("queries", "queries", partial(check_form, form)) for form in forms]
    found.append(Requirement("corpus", "corpora", check_corpora))
    with suppress(RagtasksError):  # reported by the requirement of the queries
        found += requirements_of(parse(line, place.secrets), place.secrets)
    if rewriter.model:
        endpoint = endpoint_of(rewriter.model, base_url=rewriter.base_url)
        found += endpoint_requirements(endpoint, "rewriter", place.secrets)
    return [*found, writable_folder(place.store, "runs")]


def _corpora(place: Place, others: Mapping[str, str]) -> list[str]:
    """Return where the corpora of a benchmark's domains are: a rewriter would be paid before they are read."""
    benchmark = place.open()
    side = retrieval_side(benchmark.name)
    domains = side.domains_of(benchmark.tasks)
    problems: list[str] = []
    for domain, location in others.items():
        if domain not in domains:
            problems.append(f"corpora: {benchmark.name} has no domain {domain!r}; {close_matches(domain, domains)}")
        elif not location.startswith("hf:") and not Path(location).expanduser().exists():
            found, next_step = missing_path(Path(location))
            problems.append(f"corpora: {domain}: {location}: {found}. Next step: {next_step}")
    files = {domain: side.corpus_file(benchmark.root, domain) for domain in domains if domain not in others}
    if missing := [str(file) for file in files.values() if not file.exists()]:
        problems.append(
            f"corpora of {benchmark.name}: not there: {', '.join(missing)}. Next step: `ragtasks data fetch "
            f"{benchmark.name} --group corpora`, or name another corpus for the domain"
        )
    if problems:
        raise ConfigurationError("\n".join(problems))
    return [*map(str, files.values()), *others.values()]
