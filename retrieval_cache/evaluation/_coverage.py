"""What a run leaves out of the judged queries, or has beside them, in words: no score can be read without it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

_MOST_NAMED = 10


def coverage_notes(
    name: str,
    judged: Sequence[str],
    *,
    omitted: Sequence[str],
    empty: Sequence[str],
    without_relevant: Sequence[str],
    domain_of: Mapping[str, str],
) -> Iterator[str]:
    """Yield a sentence for each kind of query that counts 0 for another reason than a bad ranking.

    Args:
        name: the run.
        judged: all judged queries.
        omitted: those that the run leaves out.
        empty: those for which it has no passage.
        without_relevant: those without a relevant passage.
        domain_of: query id -> domain; {} where there are none.
    """
    if missing := missing_domains(judged, omitted, domain_of):
        n = sum(domain_of[query_id] in missing for query_id in judged)
        others = sorted({domain_of[query_id] for query_id in judged} - set(missing))
        chosen = " ".join(f"--domain {domain}" for domain in others)
        yield f"{name} has no query of {', '.join(missing)} ({n} judged queries, counted 0); the others alone: {chosen}"
    if omitted:
        yield f"{name} leaves {len(omitted)} of {len(judged)} judged queries out (counted 0): {some(omitted)}"
    if empty:
        yield f"{name} has no passage for {len(empty)} of {len(judged)} judged queries (counted 0): {some(empty)}"
    if without_relevant:
        yield f"judged, but without a relevant passage (counted 0): {some(without_relevant)}"


def missing_domains(judged: Sequence[str], omitted: Sequence[str], domain_of: Mapping[str, str]) -> list[str]:
    """Return the domains of which a run has no judged query at all, where it has some of another."""
    left_out = set(omitted)
    present = {domain_of[query_id] for query_id in judged if query_id in domain_of and query_id not in left_out}
    known = dict.fromkeys(domain_of[query_id] for query_id in judged if query_id in domain_of)
    return [domain for domain in known if domain not in present] if present else []


def some(names: Sequence[str]) -> str:
    """Return the first names, and how many more there are."""
    more = len(names) - _MOST_NAMED
    return ", ".join(names[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


__all__ = ["coverage_notes", "some"]
