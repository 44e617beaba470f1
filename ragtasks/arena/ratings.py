"""Ratings of systems from votes, with intervals; who wins against whom, how far raters agree."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np

from ragtasks.arena.votes import RaterKind, Vote
from ragtasks.metrics import Level, cohen_kappa, krippendorff_alpha
from ragtasks.records import Score
from ragtasks.statistics import MIN_CLUSTERS, Estimate, Floats, cluster, estimate_means, holm
from ragtasks.tables import Cell, Section, Table, dashed, fixed, p_text

# Elo ratings of votes, over many orders of them: the order in which votes came says nothing about systems.
# A rating moves after each vote by K times what the vote was better than expected. The value is the mean over drawn
# orders, its interval what resampled conversations in drawn orders give. Ratings by Bradley-Terry are the ones to
# quote; Elo stands beside them because arenas are used to it. evalica, which the tests compare with, gives the same
# ratings of one order and is six times as slow over all of them: it takes whole tables of names.
# Source: A. E. Elo, The rating of chessplayers, past and present (1978).

INITIAL, SCALE, K_FACTOR = 1000.0, 400.0, 4.0
"""Where ratings start; the difference that wins ten of eleven; points that one vote can move."""
_N_ORDERS = 200


@dataclass(frozen=True, slots=True)
class Elo:
    """One system's rating."""

    rating: float
    """Mean over orders."""
    low: float
    """2.5 % of the resamples lie below."""
    high: float
    """2.5 % of the resamples lie above."""


def elo(comparisons: Sequence[Comparison], conversations: Sequence[str]) -> dict[str, Elo]:
    """Return system -> its Elo rating, in order of names; {} for no vote."""
    systems = sorted({system for one, other, _ in comparisons for system in (one, other)})
    place = {system: index for index, system in enumerate(systems)}
    votes = [(place[one], place[other], share) for one, other, share in comparisons]
    members: dict[str, list[int]] = {}
    for index, name in enumerate(conversations):
        members.setdefault(name, []).append(index)
    groups = [members[name] for name in sorted(members)]
    chance = np.random.default_rng(0)
    ordered, resampled = [], []
    for _ in range(_N_ORDERS if votes else 0):
        ordered.append(_played(votes, chance.permutation(len(votes)).tolist(), len(systems)))
        drawn = [index for number in chance.integers(len(groups), size=len(groups)) for index in groups[number]]
        resampled.append(_played(votes, chance.permutation(drawn).tolist(), len(systems)))
    return {
        system: Elo(
            float(np.mean([run[index] for run in ordered])),
            float(np.quantile([run[index] for run in resampled], 0.025)),
            float(np.quantile([run[index] for run in resampled], 0.975)),
        )
        for index, system in enumerate(systems)
    }


def _played(votes: Sequence[tuple[int, int, float]], order: Sequence[int], n_systems: int) -> list[float]:
    """Return the ratings after the votes of one order."""
    ratings = [INITIAL] * n_systems
    for index in order:
        one, other, share = votes[index]
        expected = 1 / (1 + 10 ** ((ratings[other] - ratings[one]) / SCALE))
        change = K_FACTOR * (share - expected)
        ratings[one] += change
        ratings[other] -= change
    return ratings


# Ratings from votes of one kind: ratings, who wins against whom, and what length and refusals do.
# All intervals draw conversations again with `ragtasks.statistics`. A rating's interval is that of a mean: each
# vote has a value whose mean is the rating, the rating plus the votes' number times what this vote moves it. A
# model's number that has no interval is not given at all: on eight votes a rating is a story about chance, and the
# votes themselves say more.

POINTS = SCALE / math.log(10)
"""Points of a rating for one unit of log-odds."""
TOO_FEW = f"votes on fewer than {MIN_CLUSTERS} conversations"
"""The reason of a system without a rating: too little to tell it from chance."""
LONGER = "points for an answer that is longer by one standard deviation"
"""The name of length's effect, which is in points; all others are shares."""


@dataclass(frozen=True, slots=True)
class Rating:
    """One system."""

    system: str
    n_battles: int
    """Votes that it was in."""
    n_wins: int
    n_losses: int
    n_ties: int
    """Votes that both are equally good; with wins, losses and `n_both_bad` they add up to the votes."""
    n_both_bad: int
    """Votes that neither answer is good."""
    win_rate: Estimate
    """Share of its votes won, a tie and both bad counting half."""
    rating: Estimate | None
    """Bradley-Terry with ties, 1000 on average; None where there is no finite one, or none with an interval."""
    controlled: Estimate | None
    """The same for answers of equal length."""
    elo: Elo | None
    """Elo; None where it has no interval."""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class HeadToHead:
    """Two systems against each other."""

    first: str
    """The one whose share is given."""
    second: str
    share: Estimate
    """Share of the votes that the first won, a tie counting half."""
    p: float | None
    """Of a share of a half, over conversations; None with fewer than ten of them."""
    adjusted_p: float | None
    """The same by Holm, over all pairs."""


@dataclass(frozen=True, slots=True)
class Effect:
    """What something about answers does to votes."""

    name: str
    estimate: Estimate
    """Share of the votes that the answer with it won; of length, the rating's points for one standard deviation."""


@dataclass(frozen=True, slots=True)
class Ratings:
    """Everything that votes of one kind, on one benchmark, say."""

    systems: tuple[Rating, ...]
    """Best first: by rating, then those without one by win rate."""
    pairs: tuple[HeadToHead, ...]
    """Every two systems that met, by name."""
    effects: tuple[Effect, ...]
    """Of length and refusals."""
    votes: tuple[Vote, ...]


def rate(votes: Sequence[Vote]) -> Ratings:
    """Return the ratings of votes of one kind; nothing in it for no vote.

    The length-controlled rating is that of answers of equal length: the difference of the logs of their words, in
    standard deviations, takes part in the fit. Source: Y. Dubois et al., Length-controlled AlpacaEval (2024).
    """
    comparisons = [(vote.first.system, vote.second.system, vote.value) for vote in votes]
    conversations = [vote.conversation_id for vote in votes]
    plain, longer = fit(comparisons), _longer(votes)
    controlled = fit(comparisons, longer) if longer.any() else plain
    ratings, reasons = _strengths(plain, votes)
    at_equal_length, _ = _strengths(controlled, votes)
    systems = [
        _rating(votes, system, own_elo, ratings.get(system), at_equal_length.get(system), reasons.get(system, ""))
        for system, own_elo in elo(comparisons, conversations).items()
    ]
    effects = [*_length_effect(controlled, conversations), *_refusal_effects(votes)]
    return Ratings(tuple(sorted(systems, key=_rank)), tuple(_pairs(votes)), tuple(effects), tuple(votes))


def _longer(votes: Sequence[Vote]) -> Floats:
    """Return how much longer each first answer is: difference of log words, in standard deviations; 0 for all alike."""
    differences = np.array([math.log((1 + vote.first.n_words) / (1 + vote.second.n_words)) for vote in votes])
    spread = math.sqrt(float((differences**2).mean())) if len(votes) else 0.0
    return np.asarray(differences / spread) if spread else np.zeros(len(votes))


def _strengths(found: Fit, votes: Sequence[Vote]) -> tuple[dict[str, Estimate], dict[str, str]]:
    """Return system -> its rating in points with the interval over conversations, and system -> why it has none."""
    used = [votes[place] for place in found.votes]
    clusters = [vote.conversation_id for vote in used]
    columns = [
        cluster((INITIAL + POINTS * found.pseudo_values(place)).tolist(), clusters)
        for place in range(len(found.systems))
    ]
    estimates = dict(zip(found.systems, estimate_means(columns), strict=True))
    reasons = {system: TOO_FEW for system in found.unrated if _n_conversations(_of(votes, system)) < MIN_CLUSTERS}
    reasons |= {system: TOO_FEW for system in estimates if _n_conversations(_of(used, system)) < MIN_CLUSTERS}
    reasons = found.unrated | {system: item.reason for system, item in estimates.items() if item.low is None} | reasons
    return {system: item for system, item in estimates.items() if system not in reasons}, reasons


def _of(votes: Sequence[Vote], system: str) -> list[Vote]:
    return [vote for vote in votes if system in {vote.first.system, vote.second.system}]


def _n_conversations(votes: Sequence[Vote]) -> int:
    return len({vote.conversation_id for vote in votes})


def _rating(  # noqa: PLR0917 (one parameter a column)
    votes: Sequence[Vote], system: str, own_elo: Elo, rating: Estimate | None, controlled: Estimate | None, reason: str
) -> Rating:
    battles = _of(votes, system)
    shares = [vote.value_of(system) for vote in battles]
    (win_rate,) = estimate_means([cluster(shares, [vote.conversation_id for vote in battles], (0.0, 1.0))])
    n_both_bad = sum(vote.preference == "both_bad" for vote in battles)
    has_interval = _n_conversations(battles) >= MIN_CLUSTERS and own_elo.low < own_elo.high
    return Rating(
        system=system,
        n_battles=len(battles),
        n_wins=shares.count(1.0),
        n_losses=shares.count(0.0),
        n_ties=shares.count(0.5) - n_both_bad,
        n_both_bad=n_both_bad,
        win_rate=win_rate,
        rating=rating,
        controlled=controlled,
        elo=own_elo if has_interval else None,
        reason=reason,
    )


def _rank(rating: Rating) -> tuple[float, float, str]:
    value = rating.rating.value if rating.rating else None
    return -(value or -math.inf), -(rating.win_rate.value or 0.0), rating.system


def _pairs(votes: Sequence[Vote]) -> list[HeadToHead]:
    met: dict[tuple[str, str], list[Vote]] = {}
    for vote in votes:
        one, other = sorted((vote.first.system, vote.second.system))
        met.setdefault((one, other), []).append(vote)
    names = sorted(met)
    shares = [
        cluster([v.value_of(name[0]) for v in met[name]], [v.conversation_id for v in met[name]], (0.0, 1.0))
        for name in names
    ]
    estimates = estimate_means(shares, tested=0.5)
    rows = zip(names, estimates, holm([share.p for share in estimates]), strict=True)
    return [HeadToHead(*name, share, share.p, adjusted_p) for name, share, adjusted_p in rows]


def _length_effect(found: Fit, conversations: Sequence[str]) -> list[Effect]:
    if found.slope is None:
        return []
    values = POINTS * found.pseudo_values(len(found.systems))
    (estimate,) = estimate_means([cluster(values.tolist(), [conversations[place] for place in found.votes])])
    return [Effect(LONGER, estimate)] if estimate.low is not None else []


def _refusal_effects(votes: Sequence[Vote]) -> list[Effect]:
    """Return how often an answer that refuses wins against one that does not, by what the corpus holds."""
    effects = []
    for label in sorted({vote.answerability for vote in votes}):
        relevant = [vote for vote in votes if vote.answerability == label and vote.first.refuses != vote.second.refuses]
        if relevant:
            shares = [vote.value if vote.first.refuses else 1 - vote.value for vote in relevant]
            (estimate,) = estimate_means([cluster(shares, [vote.conversation_id for vote in relevant], (0.0, 1.0))])
            effects.append(Effect(f"share won by the one that refuses, {label or 'no label'}", estimate))
    return effects


# Bradley-Terry strengths with ties, by Newton's method, and how much each vote moves them.
# The model is Davidson's: first wins, second wins and tie have probabilities in the ratio exp(d/2) : exp(-d/2) :
# nu. Here d is the difference of the strengths, plus a slope times a covariate where one is given. Without ties it
# is plain Bradley-Terry. Strengths add up to 0.
# evalica and choix fit the same model; neither takes a covariate or says how much a vote moves the result, which
# the intervals over conversations are made of. evalica is what the tests compare with.
# Sources: R. R. Davidson, On extending the Bradley-Terry model to accommodate ties (1970); L. R. Ford, Solution of
# a ranking problem from binary comparisons (1957), on when there is a solution.

Comparison = tuple[str, str, float]
"""(First system, second system, share of the first: 1, 0.5 or 0)."""

NO_MAXIMUM = "no finite rating explains these votes: too few of them, or too one-sided"
"""The reason where Newton's method runs away."""
ONLY_TIES = "nothing but ties"
"""The reason where nobody ever won."""

_MOST_STEPS = 100
_FARTHEST = 30.0  # a strength that wins 1 in 10^13: the likelihood has no maximum
_CLOSE_ENOUGH = 1e-10


@dataclass(frozen=True, slots=True, eq=False)
class Fit:
    """The strengths of systems that can be compared, and what they rest on."""

    systems: tuple[str, ...]
    """Systems with a finite strength, sorted; () for none."""
    strengths: Floats
    """Log-odds of winning, they add up to 0; shape (systems,)."""
    slope: float | None
    """What one unit of the covariate adds to the difference; None without one."""
    log_tie: float | None
    """Log of Davidson's nu; None where no vote is a tie."""
    votes: tuple[int, ...]
    """Places of the votes that were used: those between two of the systems."""
    influence: Floats
    """How much each vote moves each strength, and last the slope where there is one; shape (votes, systems [+ 1]).
    Columns add up to 0.
    """
    unrated: dict[str, str]
    """System -> why it has no strength."""

    def pseudo_values(self, place: int) -> Floats:
        """Return one value a vote, whose mean is strength `place` (or the slope, past the last)."""
        value = self.strengths[place] if place < len(self.systems) else (self.slope or 0.0)
        return np.asarray(value + len(self.votes) * self.influence[:, place])


def fit(comparisons: Sequence[Comparison], covariate: Floats | None = None) -> Fit:
    """Return the strengths that make the votes most likely.

    A strength is finite only among systems of which each has beaten or tied the next in a circle; the largest such
    group is rated, and the others are named with the reason.
    """
    systems, unrated = _rated_group(comparisons)
    chosen = [place for place, (one, other, _) in enumerate(comparisons) if {one, other} <= set(systems)]
    used = [comparisons[place] for place in chosen]
    if all(share == 0.5 for *_, share in used):
        return _without(unrated | dict.fromkeys(systems, ONLY_TIES if used else "no vote"))
    design = _design(systems, used)
    if covariate is not None:
        design = np.column_stack([design, covariate[chosen]])
    found = _maximise(design, np.array([share for *_, share in used]))
    if found is None:
        return _without(unrated | dict.fromkeys(systems, NO_MAXIMUM))
    estimate, log_tie, influence = found
    n_free = len(systems) - 1
    rows = influence[:, :n_free]
    columns = [rows, -rows.sum(axis=1, keepdims=True)]
    if covariate is not None:
        columns.append(influence[:, n_free : n_free + 1])
    return Fit(
        systems=tuple(systems),
        strengths=np.append(estimate[:n_free], -estimate[:n_free].sum()),
        slope=float(estimate[n_free]) if covariate is not None else None,
        log_tie=log_tie,
        votes=tuple(chosen),
        influence=np.hstack(columns),
        unrated=unrated,
    )


def _without(unrated: dict[str, str]) -> Fit:
    return Fit((), np.zeros(0), None, None, (), np.zeros((0, 0)), unrated)


def _design(systems: Sequence[str], used: Sequence[Comparison]) -> Floats:
    """Return what each free strength adds to a vote's difference; the last one is minus the sum of the others."""
    place = {system: index for index, system in enumerate(systems)}
    signs = np.zeros((len(used), len(systems)))
    for row, (one, other, _) in enumerate(used):
        signs[row, place[one]] += 1
        signs[row, place[other]] -= 1
    return np.asarray(signs[:, :-1] - signs[:, -1:])


def _maximise(design: Floats, shares: Floats) -> tuple[Floats, float | None, Floats] | None:
    """Return (parameters, log nu, influence of each vote on each), or None where there is no finite maximum."""
    has_ties = bool((shares == 0.5).any())
    n_free = design.shape[1]
    point = np.zeros(n_free + has_ties)
    value, gradients, information = _derivatives(design, shares, point, has_ties)
    for _ in range(_MOST_STEPS):
        try:
            step = np.linalg.solve(information, gradients.sum(axis=0))
        except np.linalg.LinAlgError:
            return None
        size = 1.0
        while size > 1e-6:
            following = _derivatives(design, shares, point + size * step, has_ties)
            if following[0] >= value:
                break
            size /= 2
        point = point + size * step
        value, gradients, information = following
        if np.abs(point).max() > _FARTHEST:
            return None
        if np.abs(step).max() < _CLOSE_ENOUGH:
            break
    else:
        return None
    influence = np.linalg.solve(information, gradients.T).T
    return point, float(point[-1]) if has_ties else None, np.asarray(influence)


def _derivatives(design: Floats, shares: Floats, point: Floats, has_ties: bool) -> tuple[float, Floats, Floats]:
    """Return the log-likelihood, each vote's gradient (shape (votes, parameters)) and the information matrix."""
    n_free = design.shape[1]
    half = design @ point[:n_free] / 2
    log_tie = point[-1] if has_ties else -np.inf
    total = np.logaddexp(np.logaddexp(half, -half), log_tie)
    win, loss, tie = np.exp(half - total), np.exp(-half - total), np.exp(log_tie - total)
    is_tie = shares == 0.5
    value = float((np.where(is_tie, log_tie if has_ties else 0.0, (2 * shares - 1) * half) - total).sum())
    expected = (win - loss) / 2
    gradients = (shares - 0.5 - expected)[:, None] * design
    information = design.T @ (((win + loss) / 4 - expected**2)[:, None] * design)
    if not has_ties:
        return value, gradients, information
    cross = -design.T @ (tie * expected)
    below = np.append(cross, (tie * (1 - tie)).sum())
    return (
        value,
        np.column_stack([gradients, is_tie - tie]),
        np.vstack([np.column_stack([information, cross]), below]),
    )


def _rated_group(comparisons: Sequence[Comparison]) -> tuple[list[str], dict[str, str]]:
    """Return the largest group in which everyone leads to everyone by wins and ties, and why the others are not in it.

    Of groups of one size, the one with most votes is taken, then the first by name.
    """
    beaten: dict[str, set[str]] = {system: set() for one, other, _ in comparisons for system in (one, other)}
    for one, other, share in comparisons:
        if share > 0:
            beaten[one].add(other)
        if share < 1:
            beaten[other].add(one)
    reached = {system: _reachable(system, beaten) for system in beaten}
    groups = {tuple(sorted(other for other in found if system in reached[other])) for system, found in reached.items()}
    if not groups:
        return [], {}
    n_votes = {group: sum({one, other} <= set(group) for one, other, _ in comparisons) for group in groups}
    best = min(groups, key=lambda group: (-len(group), -n_votes[group], group))
    if len(best) == 1:
        return [], {system: _reason(system, comparisons, set()) for system in beaten}
    return list(best), {system: _reason(system, comparisons, set(best)) for system in beaten if system not in best}


def _reachable(start: str, beaten: dict[str, set[str]]) -> set[str]:
    found, waiting = {start}, [start]
    while waiting:
        new = beaten[waiting.pop()] - found
        found |= new
        waiting += new
    return found


def _reason(system: str, comparisons: Sequence[Comparison], group: set[str]) -> str:
    """Return why a system is not rated: what its votes were all alike in, else those against the rated ones alone."""
    relevant = [
        (share if one == system else 1 - share, other if one == system else one)
        for one, other, share in comparisons
        if system in {one, other}
    ]
    against = [(share, other) for share, other in relevant if other in group]
    for chosen, words in ((relevant, ""), (against, " against those that are rated")):
        shares = {share for share, _ in chosen}
        if shares in ({1.0}, {0.0}):
            return f"{'won' if shares == {1.0} else 'lost'} every battle{words}: no finite rating"
    return "no circle of wins or ties with those that are rated"


# How far raters agree on the same battles: people with people, judges with judges, and both with each other.

_MOST_PAIRS = 15
_Opinions = Mapping[str, Mapping[str, float]]


@dataclass(frozen=True, slots=True)
class VoteAgreement:
    """One row of the table."""

    who: str
    measure: str
    """`alpha`, of any number of raters, or `kappa`, of two."""
    score: Score
    """1 for agreement everywhere, 0 for as much as by chance."""
    same: float | None
    """Share of the battles on which they say the same; None where there is none."""
    n: int
    """Battles that at least two of them voted on."""


def vote_agreement(votes: Sequence[Vote]) -> list[VoteAgreement]:
    """Return the agreement within people, within judges, of every two raters, and of people with judges.

    Labels are the preferred system or a tie, whatever the order shown; people and judges meet as the median of their
    votes. Of more than 15 pairs of raters, those with most battles in common are given.
    """
    rows: list[VoteAgreement] = []
    sides: dict[str, _Opinions] = {}
    for kind, name in (("human", "people"), ("judge", "judges")):
        opinions = _by_rater([vote for vote in votes if vote.kind == kind])
        if opinions:
            sides[name] = opinions
        if len(opinions) > 1:
            rows.append(_all_of(f"all {name}", opinions))
            rows += _every_two(opinions)
    if len(sides) == 2:
        rows.append(_two("people", _medians(sides["people"]), "judges", _medians(sides["judges"])))
    return rows


def _by_rater(votes: Sequence[Vote]) -> _Opinions:
    """Return rater -> battle -> share of the system that comes first by name."""
    found: dict[str, dict[str, float]] = {}
    for vote in votes:
        system = min(vote.first.system, vote.second.system)
        found.setdefault(vote.rater, {})[vote.battle_id] = vote.value_of(system)
    return found


def _all_of(who: str, opinions: _Opinions) -> VoteAgreement:
    battles = sorted({battle for votes in opinions.values() for battle in votes})
    rows = [[votes[battle] for votes in opinions.values() if battle in votes] for battle in battles]
    rows = [row for row in rows if len(row) > 1]
    same = sum(len(set(row)) == 1 for row in rows) / len(rows) if rows else None
    return VoteAgreement(who, "alpha", krippendorff_alpha(rows, Level.ORDINAL), same, len(rows))


def _every_two(opinions: _Opinions) -> Iterator[VoteAgreement]:
    pairs = [_two(a, opinions[a], b, opinions[b]) for a, b in itertools.combinations(sorted(opinions), 2)]
    shared = sorted((pair for pair in pairs if pair.n), key=lambda pair: -pair.n)
    yield from shared[:_MOST_PAIRS]


def _two(one: str, own: Mapping[str, float], other: str, others: Mapping[str, float]) -> VoteAgreement:
    battles = sorted(own.keys() & others.keys())
    first, second = [own[battle] for battle in battles], [others[battle] for battle in battles]
    same = sum(a == b for a, b in zip(first, second, strict=True)) / len(battles) if battles else None
    return VoteAgreement(f"{one} and {other}", "kappa", cohen_kappa(first, second), same, len(battles))


def _medians(opinions: _Opinions) -> dict[str, float]:
    """Return battle -> which system most raters prefer: 1, 0, or 0.5 for a tie or a split."""
    battles = {battle for votes in opinions.values() for battle in votes}
    middle = {battle: median(votes[battle] for votes in opinions.values() if battle in votes) for battle in battles}
    return {battle: value if value in {0.0, 1.0} else 0.5 for battle, value in middle.items()}


# The tables of votes: a section for people and one for judges of each benchmark, and one for their agreement.

_NAMES: Mapping[RaterKind, str] = {"human": "people", "judge": "judges"}
_RATING_NOTE = "Best first; intervals of 95 % over conversations."
_LEGEND = (
    "rating: Bradley-Terry with ties (Davidson), 1000 on average; 200 points more win three of four decided votes.",
    "at equal length: the same, with the difference of the answers' lengths taken out.",
    "Elo: mean over 200 orders of the votes, K = 4.",
    "win rate: share of the votes won; a tie and both bad count half. The last four columns add up to the votes.",
)
_COUNTS = "A share without an interval is given in votes."


def rating_sections(votes: Sequence[Vote]) -> list[Section]:
    """Return the sections of all votes, those whose rater knew the names apart from the blinded ones.

    Votes by people and by judges never share a table, but for their agreement, which is that of blinded votes.
    """
    sections = []
    for benchmark in sorted({vote.benchmark for vote in votes}):
        own = [vote for vote in votes if vote.benchmark == benchmark]
        for kind, name in _NAMES.items():
            of_kind = [vote for vote in own if vote.kind == kind]
            blinded = [vote for vote in of_kind if vote.view == "blinded"]
            named = [vote for vote in of_kind if vote.view != "blinded"]
            sections += [_section(f"{benchmark}: votes by {name}", blinded)] if blinded else []
            sections += [_section(f"{benchmark}: votes by {name} who knew the systems", named)] if named else []
        agreement = _agreement([vote for vote in own if vote.view == "blinded"])
        if agreement.rows:
            sections.append(Section(f"{benchmark}: agreement of raters", {}, (agreement,)))
    return sections


def _section(title: str, votes: Sequence[Vote]) -> Section:
    ratings = rate(votes)
    raters = sorted({vote.rater for vote in votes})
    shown = ", ".join(raters) if len(raters) <= 5 else f"{len(raters)} of them"
    provenance = {
        "raters": shown,
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
            item.system,
            _points(item.rating) if item.rating else "-",
            _points(item.controlled) if item.controlled else "-",
            f"{item.elo.rating:.0f} [{item.elo.low:.0f}, {item.elo.high:.0f}]" if item.elo else "-",
            _share(item.win_rate),
            item.n_battles,
            item.n_wins,
            item.n_losses,
            item.n_ties,
            item.n_both_bad,
        )
        for item in ratings.systems
    )
    heads = ("system", "rating", "at equal length", "Elo", "win rate", "votes", "won", "lost", "tied", "both bad")
    if caution := _caution(ratings):
        return Table("Ratings", heads, rows, caution, _LEGEND[-1:])
    reasons = (f"{item.system}: {item.reason}." for item in ratings.systems if item.reason)
    return Table("Ratings", heads, rows, _RATING_NOTE, (*_LEGEND, *reasons))


def _caution(ratings: Ratings) -> str:
    """Return that there are too few conversations for any conclusion; empty where there are enough."""
    n = len({vote.conversation_id for vote in ratings.votes})
    if n >= MIN_CLUSTERS:
        return ""
    noun = "conversation" if n == 1 else "conversations"
    return f"{n} {noun}, fewer than {MIN_CLUSTERS}: no ratings and no intervals, the votes are counted."


def _matrix(ratings: Ratings) -> Table:
    names = [item.system for item in ratings.systems]
    shares = {(pair.first, pair.second): pair.share for pair in ratings.pairs}

    def cell(row: str, column: str) -> str:
        direct, turned = shares.get((row, column)), shares.get((column, row))
        found = direct or turned
        if row == column or found is None or found.value is None:
            return "" if row == column else "-"
        share = found.value if direct else 1 - found.value
        return f"{100 * share:.1f}" if found.low is not None else _won(share, found.n_values)

    rows = tuple((row, *(cell(row, column) for column in names)) for row in names)
    note = f"A tie counts half; `-`: they never met. {_COUNTS}"
    return Table("Win rates", ("share of the row, in %", *names), rows, note)


def _pair_table(ratings: Ratings) -> Table:
    rows = tuple(
        (pair.first, pair.second, _share(pair.share), pair.share.n_clusters, p_text(pair.p), p_text(pair.adjusted_p))
        for pair in sorted(ratings.pairs, key=_by_share)
    )
    heads = ("first", "second", "share of the first", "conversations", "p", "p (Holm)")
    note = (
        "p: of a share of a half, at most 0.05 where its 95 % interval leaves the half out; Holm's correction is over "
        f"all pairs. {_COUNTS}"
    )
    return Table("Pairs", heads, rows, note)


def _by_share(pair: HeadToHead) -> tuple[float, str, str]:
    return -abs((pair.share.value or 0.5) - 0.5), pair.first, pair.second


def _effects(ratings: Ratings) -> Table:
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (effect.name, _points(effect.estimate) if effect.name == LONGER else _share(effect.estimate), n)
        for effect in ratings.effects
        if (n := effect.estimate.n_values)
    )
    return Table("Length and refusals", ("what", "effect", "votes"), rows, "Refusals are detected by `ngrams`.")


def _positions(votes: Sequence[Vote]) -> Table:
    """Return what each judge does when the order is turned."""
    rows = []
    for judge in sorted({vote.rater for vote in votes if vote.orders}):
        orders = [vote.orders for vote in votes if vote.rater == judge and vote.orders]
        same = sum(one == other for one, other in orders)
        # The first order shows `first` first, the other one shows it second.
        always_first = orders.count(("first", "second"))
        always_second = orders.count(("second", "first"))
        half = len(orders) - same - always_first - always_second
        rows.append((judge, len(orders), same, always_first, always_second, half))
    heads = ("judge", "battles", "same in both orders", "always the first", "always the second", "tie in one order")
    note = "Only what is the same in both orders is a win; everything else counts as a tie."
    return Table("Position bias", heads, tuple(rows), note if rows else "")


def _agreement(votes: Sequence[Vote]) -> Table:
    rows = tuple(
        (
            item.who,
            item.measure,
            dashed(item.score.value),
            "-" if item.same is None else f"{100 * item.same:.1f} %",
            item.n,
        )
        for item in vote_agreement(votes)
    )
    note = "1 always, 0 as by chance; people and judges are compared by the median of their votes."
    return Table("Agreement", ("who", "measure", "agreement", "same vote", "battles"), rows, note)


def _share(estimate: Estimate) -> Cell:
    """Return a share with its interval, or how many of how many votes where it has none."""
    if estimate.low is None and estimate.value is not None:
        return _won(estimate.value, estimate.n_values)
    return estimate.cell


def _won(share: float, n: int) -> str:
    return f"{round(2 * share * n) / 2:g} of {n}"


def _points(estimate: Estimate) -> str:
    """Return a number of points, which is given with its interval only."""
    if estimate.value is None or estimate.low is None or estimate.high is None:
        return "-"
    return f"{fixed(estimate.value, 0)} [{fixed(estimate.low, 0)}, {fixed(estimate.high, 0)}]"
