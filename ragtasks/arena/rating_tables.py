"""Tables of votes. Each benchmark has a section for people, for judges and for their agreement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ragtasks.arena.agreement import vote_agreement
from ragtasks.arena.ratings import LONGER, Ratings, rate
from ragtasks.arena.votes import RaterKind, Vote
from ragtasks.statistics import MIN_CLUSTERS, Estimate
from ragtasks.tables import Cell, Section, Table, dashed, fixed, p_text

_NAMES: Mapping[RaterKind, str] = {"human": "people", "judge": "judges"}
_RATING_NOTE = "Best first; intervals of 95 % over conversations."
_LEGEND = (
    "rating: Bradley-Terry with ties (Davidson), 1000 on average; 200 more points win three of four decided votes.",
    "at equal length: the same, adjusted for the lengths of the answers.",
    "Elo: mean over 200 orders of the votes, K = 4.",
    "win rate: share of the votes won; a tie and both bad count half. The last four columns sum to the votes.",
)
_COUNTS = "Shares without an interval are shown as numbers of votes."


def rating_sections(votes: Sequence[Vote]) -> list[Section]:
    """Return the sections of all votes, with blinded votes separate from votes by raters who knew the names.

    Votes by people and by judges never share a table, except for their agreement, which uses blinded votes.
    """
    sections = []
    for benchmark in sorted({vote.benchmark for vote in votes}):
        benchmark_votes = [vote for vote in votes if vote.benchmark == benchmark]
        for kind, name in _NAMES.items():
            votes_of_kind = [vote for vote in benchmark_votes if vote.kind == kind]
            blinded = [vote for vote in votes_of_kind if vote.view == "blinded"]
            named = [vote for vote in votes_of_kind if vote.view != "blinded"]
            sections += [_section(f"{benchmark}: votes by {name}", blinded)] if blinded else []
            sections += [_section(f"{benchmark}: votes by {name} who knew the systems", named)] if named else []
        agreement = _agreement([vote for vote in benchmark_votes if vote.view == "blinded"])
        if agreement.rows:
            sections.append(Section(f"{benchmark}: agreement of raters", {}, (agreement,)))
    return sections


def _section(title: str, votes: Sequence[Vote]) -> Section:
    ratings = rate(votes)
    raters = sorted({vote.rater for vote in votes})
    names = ", ".join(raters) if len(raters) <= 5 else str(len(raters))
    provenance = {
        "raters": names,
        "votes": str(len(votes)),
        "battles": str(len({vote.battle_id for vote in votes})),
        "conversations": str(len({vote.conversation_id for vote in votes})),
        "settings": ", ".join(sorted({vote.setting for vote in votes})),
    }
    for view, words in (("side_by_side", "side by side"), ("revealed", "after the names were revealed")):
        if n := sum(vote.view == view for vote in votes):
            provenance[words] = str(n)
    tables = [_systems(ratings), _matrix(ratings), _pair_table(ratings)]
    tables += [table for table in (_effects(ratings), _positions(votes)) if table.rows]
    return Section(title, provenance, tuple(tables))


def _systems(ratings: Ratings) -> Table:
    rows = tuple(
        (
            rating.system,
            _points(rating.rating),
            _points(rating.controlled),
            f"{rating.elo.rating:.0f} [{rating.elo.low:.0f}, {rating.elo.high:.0f}]" if rating.elo else "-",
            _share(rating.win_rate),
            *(rating.n_battles, rating.n_wins, rating.n_losses, rating.n_ties, rating.n_both_bad),
        )
        for rating in ratings.systems
    )
    heads = ("system", "rating", "at equal length", "Elo", "win rate", "votes", "won", "lost", "tied", "both bad")
    n = len({vote.conversation_id for vote in ratings.votes})
    if n < MIN_CLUSTERS:
        noun = "conversation" if n == 1 else "conversations"
        caution = f"{n} {noun}, fewer than {MIN_CLUSTERS}: no ratings or intervals, only counts."
        return Table("Ratings", heads, rows, caution, _LEGEND[-1:])
    reasons = (f"{rating.system}: {rating.reason}." for rating in ratings.systems if rating.reason)
    return Table("Ratings", heads, rows, _RATING_NOTE, (*_LEGEND, *reasons))


def _matrix(ratings: Ratings) -> Table:
    names = [rating.system for rating in ratings.systems]
    shares = {(pair.first, pair.second): pair.share for pair in ratings.pairs}

    def cell(row: str, column: str) -> str:
        direct, turned = shares.get((row, column)), shares.get((column, row))
        share_of_pair = direct or turned
        if row == column or share_of_pair is None or share_of_pair.value is None:
            return "" if row == column else "-"
        share = share_of_pair.value if direct else 1 - share_of_pair.value
        return f"{100 * share:.1f}" if share_of_pair.low is not None else _won(share, share_of_pair.n_values)

    rows = tuple((row, *(cell(row, column) for column in names)) for row in names)
    note = f"A tie counts half; `-`: no battle. {_COUNTS}"
    return Table("Win rates", ("share of the row, in %", *names), rows, note)


def _pair_table(ratings: Ratings) -> Table:
    rows = tuple(
        (pair.first, pair.second, _share(pair.share), pair.share.n_clusters, p_text(pair.p), p_text(pair.adjusted_p))
        for pair in sorted(
            ratings.pairs, key=lambda pair: (-abs((pair.share.value or 0.5) - 0.5), pair.first, pair.second)
        )
    )
    heads = ("first", "second", "share of the first", "conversations", "p", "p (Holm)")
    note = (
        "p: test of a share of one half, at most 0.05 if the 95 % interval excludes one half; Holm's correction covers "
        f"all pairs. {_COUNTS}"
    )
    return Table("Pairs", heads, rows, note)


def _effects(ratings: Ratings) -> Table:
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (effect.name, _points(effect.estimate) if effect.name == LONGER else _share(effect.estimate), n)
        for effect in ratings.effects
        if (n := effect.estimate.n_values)
    )
    return Table("Length and refusals", ("what", "effect", "votes"), rows, "Refusals are detected by `ngrams`.")


def _positions(votes: Sequence[Vote]) -> Table:
    """Return the effect of reversing the order on each judge."""
    rows = []
    for judge in sorted({vote.rater for vote in votes if vote.orders}):
        orders = [vote.orders for vote in votes if vote.rater == judge and vote.orders]
        same = sum(straight == turned for straight, turned in orders)
        # The first order displays `first` first, the second order displays it second.
        always_first = orders.count(("first", "second"))
        always_second = orders.count(("second", "first"))
        half = len(orders) - same - always_first - always_second
        rows.append((judge, len(orders), same, always_first, always_second, half))
    heads = ("judge", "battles", "same in both orders", "always the first", "always the second", "tie in one order")
    note = "Only the same preference in both orders is a win; any other result is a tie."
    return Table("Position bias", heads, tuple(rows), note if rows else "")


def _agreement(votes: Sequence[Vote]) -> Table:
    rows = tuple(
        (
            agreement.raters,
            agreement.measure,
            dashed(agreement.score.value),
            "-" if agreement.equal_share is None else f"{100 * agreement.equal_share:.1f} %",
            agreement.n,
        )
        for agreement in vote_agreement(votes)
    )
    note = "1: full agreement, 0: agreement by chance. People and judges are compared by the median of their votes."
    return Table("Agreement", ("who", "measure", "agreement", "same vote", "battles"), rows, note)


def _share(estimate: Estimate) -> Cell:
    """Return a share with its interval or, without an interval, as a number of votes."""
    if estimate.low is None and estimate.value is not None:
        return _won(estimate.value, estimate.n_values)
    return estimate.cell


def _won(share: float, n: int) -> str:
    return f"{round(2 * share * n) / 2:g} of {n}"


def _points(estimate: Estimate | None) -> str:
    """Return rating points with their interval; "-" without an interval."""
    if estimate is None or estimate.value is None or estimate.low is None or estimate.high is None:
        return "-"
    return f"{fixed(estimate.value, 0)} [{fixed(estimate.low, 0)}, {fixed(estimate.high, 0)}]"
