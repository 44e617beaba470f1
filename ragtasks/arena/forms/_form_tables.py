"""What forms say: means of the four properties and the win rate by system, and how far raters agree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median

from ragtasks.arena.battles import AnswerPool
from ragtasks.arena.forms._form import Rated, distinct_answers
from ragtasks.arena.forms._human_evaluation import WIN_RATE, win_rates
from ragtasks.benchmarks.mtrag import FANC
from ragtasks.metrics import Level, krippendorff_alpha, rater_agreement
from ragtasks.statistics import MIN_CLUSTERS, cluster, estimate_means
from ragtasks.tables import Cell, Section, Table, Value, fixed

_NAMES = (*FANC, WIN_RATE)
_STEPS = {WIN_RATE: 50.0}
_Ratings = Mapping[tuple[str, str], Mapping[str, Sequence[float]]]


def form_sections(pool: AnswerPool, forms: Sequence[Rated]) -> list[Section]:
    """Return a section a benchmark and setting: means by system, agreement of raters."""
    sections = []
    for benchmark, setting in sorted({rated.item[:2] for rated in forms}):
        own = [rated for rated in forms if rated.item[:2] == (benchmark, setting)]
        ratings = _collected(own)
        conversation_of = {
            rated.item[2]: next(iter(pool.answers_to(rated.item).values())).response.task.conversation_id
            for rated in own
        }
        provenance = {
            "raters": ", ".join(sorted({rated.rater for rated in own})),
            "forms": str(len(own)),
            "tasks": str(len(conversation_of)),
        }
        shown = {(name, rated.item[2]) for rated in own for name in distinct_answers(pool, rated.item)}
        once = {key: found for key, found in ratings.items() if key in shown}
        tables = (_means(ratings, conversation_of), _agreement(once))
        sections.append(Section(f"{benchmark}, {setting}: human evaluation", provenance, tables))
    return sections


def _collected(forms: Sequence[Rated]) -> _Ratings:
    """Return (system, task id) -> property -> ratings, one a rater."""
    found: dict[tuple[str, str], dict[str, list[float]]] = {}
    for rated in forms:
        shares = win_rates(rated)
        for system, ratings in rated.form.ratings.items():
            own = found.setdefault((system, rated.item[2]), {name: [] for name in _NAMES})
            for name in FANC:
                own[name].append(float(ratings[name]))
            own[WIN_RATE].append(shares[system])
    return found


def _means(ratings: _Ratings, conversation_of: Mapping[str, str]) -> Table:
    rows = []
    for system in sorted({system for system, _ in ratings}):
        own = {task_id: found for (name, task_id), found in ratings.items() if name == system}
        clusters = [conversation_of[task_id] for task_id in own]
        columns = [cluster([median(found[name]) for found in own.values()], clusters) for name in _NAMES]
        cells: list[Cell] = [
            Value(item.value, item.n_values, item.n_values, item.low, item.high) for item in estimate_means(columns)
        ]
        rows.append((system, len(own), *cells))
    note = (
        "Medians over raters, means over tasks. Properties are from 1 to 4; a win rate is the share of other answers "
        "that are not preferred, in %, so that a tie counts for both. "
    )
    n = len(set(conversation_of.values()))
    few = f"Conversations: {n}, fewer than {MIN_CLUSTERS}, so no intervals."
    note += few if n < MIN_CLUSTERS else "Intervals over conversations."
    return Table("Ratings", ("system", "tasks", *_NAMES), tuple(rows), note)


def _agreement(ratings: _Ratings) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for name in _NAMES:
        items = [found[name] for found in ratings.values()]
        alpha = krippendorff_alpha(items, Level.ORDINAL)
        shares = rater_agreement(items, _STEPS.get(name, 1.0))
        percents = (
            ["-"] * 3
            if shares is None
            else [_percent(shares.absolute), _percent(shares.high), _percent(shares.majority)]
        )
        rows.append((name, "-" if alpha.value is None else fixed(alpha.value), *percents, shares.n if shares else 0))
    heads = ("property", "alpha", "absolute", "absolute or high", "two of the raters", "answers")
    note = (
        "Absolute: all raters gave one score; high: two did, and every other is a step away (MTRAG paper, appendix E). "
        "alpha: Krippendorff's, ordinal, chance taken out."
    )
    return Table("Agreement of raters", heads, tuple(rows), note)


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


__all__ = ["form_sections"]
