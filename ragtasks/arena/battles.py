"""Pairs of answers to the same task, and their comparison by judges."""

from __future__ import annotations

import hashlib
import heapq
import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from ragtasks.arena.votes import Preference, Vote, VotedAnswer
from ragtasks.benchmarks import Benchmark
from ragtasks.clients import Usage
from ragtasks.errors import ConfigurationError, JudgeError, close_matches
from ragtasks.files import OFFICIAL, canonical_hash
from ragtasks.judges import PAIRWISE, Rubric, Verdicts, pair_of, pairwise
from ragtasks.metrics import NgramIdk, n_words
from ragtasks.records import IdkVerdict, Response, Setting
from ragtasks.results import SavedTask, evaluation_files, model_of, read_predictions, read_results
from ragtasks.scoring import EXEMPT, CheckedAnswers, find_implausible
from ragtasks.statistics import MIN_CLUSTERS, Race, Values
from ragtasks.tables import grouped

# Battles by judges. Each pair is sent in both orders, and only the same preference in both is a win.

AskJudges = Callable[[Sequence[Response], Sequence[Rubric]], Verdicts]
"""(responses, rubrics) -> verdicts of all judges: `judge_responses` with its other arguments fixed."""

_N_ROUNDS = 8
_PREFERRED: dict[float, Preference] = {1.0: "first", 0.5: "tie", 0.0: "second"}
_TURNED: dict[Preference, Preference] = {"first": "second", "second": "first", "tie": "tie"}


class JudgedBattles:
    """Battles that judges compare in rounds, and their votes."""

    def __init__(self, ask: AskJudges, n_all: int) -> None:
        """Begin without votes. `n_all` is the number of battles that could be judged."""
        self.votes: list[Vote] = []
        """A vote per judge and battle with verdicts in both orders, in the order of judging."""
        self.judged: list[Battle] = []
        self.n_unvoted = 0
        """Number of missing votes: a judge gave no verdict in at least one order."""
        self.usage: dict[str, Usage] = {}
        """Judge -> requests, cached replies, failures and cost."""
        self.shortfalls: list[str] = []
        """Messages about rounds with too many missing verdicts."""
        self._ask, self._n_all = ask, n_all

    @property
    def n_battles(self) -> int:
        """Number of judged battles."""
        return len(self.judged)

    @property
    def n_left(self) -> int:
        """Number of battles that were not judged, such as those beyond a budget."""
        return self._n_all - len(self.judged)

    def judge(self, battles: Sequence[Battle]) -> None:
        """Send battles to the judges in both orders."""
        if not battles:
            return
        sides = [(battle.first.response, battle.second.response) for battle in battles]
        verdicts = self._ask(
            [pair for first, second in sides for pair in (pair_of(first, second), pair_of(second, first))], [pairwise()]
        )
        votes = [vote for index, battle in enumerate(battles) for vote in _votes(battle, index, verdicts)]
        self.n_unvoted += len(battles) * len(verdicts.judges) - len(votes)
        self.votes += votes
        self.judged += battles
        self.usage |= {name: self.usage.get(name, Usage()) + verdicts.usage[name] for name in verdicts.judges}
        try:
            verdicts.require_coverage()
        except JudgeError as error:
            self.shortfalls.append(str(error))

    def require_coverage(self) -> None:
        """Raise JudgeError if any judge gave too few verdicts."""
        if self.shortfalls:
            raise JudgeError(self.shortfalls[0])


def judge_battles(battles: Sequence[Battle], ask: AskJudges, *, max_battles: int | None = None) -> JudgedBattles:
    """Return the battles with the votes of judges.

    With a budget, battles are judged in eight rounds. Each round selects the pairs with the least certain result.
    Without a budget, all battles are sent at once.
    """
    budget = min(len(battles), len(battles) if max_battles is None else max_battles)
    size = budget if budget == len(battles) else max(1, -(-budget // _N_ROUNDS))
    rounds = JudgedBattles(ask, len(battles))
    while rounds.n_battles < budget:
        judged_ids = {battle.battle_id for battle in rounds.judged}
        remaining = [battle for battle in battles if battle.battle_id not in judged_ids]
        rounds.judge(next_battles(remaining, rounds.votes, min(size, budget - rounds.n_battles)))
    return rounds


# Battles until the winner is decided. A system's score on a task is the share of its battles on that task that it wins,
# with a tie as half a win. `Race` compares these scores like any other metric.

_EQUAL_WIN_RATES = 0.1


def race_battles(
    pool: AnswerPool,
    ask: AskJudges,
    *,
    margin: float | None = None,
    after_wave: Callable[[Race], None] = lambda _: None,
) -> tuple[Race, JudgedBattles]:
    """Return the result of a race between systems by win rate, and its battles.

    The race stops if too many verdicts are missing. `Race.verdict` is then None, and `JudgedBattles.shortfalls`
    contains the reasons. Win rates are equal if they differ by less than `margin`; default: 0.1, such as .55 and .45.
    """
    items = {"\n".join(item): pool.answers_to(item) for item in pool.items}
    shared = {key: answers for key, answers in items.items() if len(answers) == len(pool.systems)}
    conversations = {key: _conversation_of(answers) for key, answers in shared.items()}
    battles = {key: _battles_of(answers) for key, answers in shared.items()}
    _require_battles(pool, battles, conversations)
    margin = _EQUAL_WIN_RATES if margin is None else margin
    race = Race(pool.systems, conversations, margin=margin, bounds=(0.0, 1.0))
    n_battles = sum(not battle.is_equal for task_battles in battles.values() for battle in task_battles)
    rounds = JudgedBattles(ask, n_battles)
    while (wave := race.next_wave()) is not None:
        selected = {key: [battle for battle in battles[key] if {*battle.systems} <= {*race.remaining}] for key in wave}
        rounds.judge([battle for task_battles in selected.values() for battle in task_battles if not battle.is_equal])
        if rounds.shortfalls:
            break
        race.add(_win_rates(race.remaining, selected, rounds.votes))
        after_wave(race)
    return race, rounds


def _conversation_of(answers: Mapping[str, Answer]) -> str:
    answer = next(iter(answers.values()))
    return f"{answer.benchmark} {answer.response.task.conversation_id}"


def _battles_of(answers: Mapping[str, Answer]) -> list[Battle]:
    return [Battle(answers[first], answers[second]) for first, second in itertools.combinations(answers, 2)]


def _require_battles(
    pool: AnswerPool, battles: Mapping[str, Sequence[Battle]], conversations: Mapping[str, str]
) -> None:
    """Raise ConfigurationError if no decision is possible, before any request."""
    names, n = ", ".join(pool.systems), len(set(conversations.values()))
    if n < MIN_CLUSTERS:
        raise ConfigurationError(
            f"the winner among {names} cannot be decided: tasks answered by all of them are from {n} conversations, "
            f"and no test with fewer than {MIN_CLUSTERS} keeps its level. Next step: answer more conversations; no "
            "request was sent to judges"
        )
    if all(battle.is_equal for task_battles in battles.values() for battle in task_battles):
        raise ConfigurationError(
            f"the winner among {names} cannot be decided: all their answers have the same text. "
            "Next step: name different systems; no request was sent to judges"
        )


def _win_rates(systems: Sequence[str], battles_of: Mapping[str, Sequence[Battle]], votes: Sequence[Vote]) -> Values:
    """Return system -> task -> share of its battles won; None if any of these battles has no verdict."""
    votes_of = grouped(votes, lambda vote: vote.battle_id)

    def share(system: str, battle: Battle) -> float | None:
        values = [vote.value_of(system) for vote in votes_of.get(battle.battle_id, ())]
        return 0.5 if battle.is_equal else math.fsum(values) / len(values) if values else None

    rates: dict[str, dict[str, float | None]] = {}
    for system in systems:
        for key, battles in battles_of.items():
            shares = [share(system, battle) for battle in battles if system in battle.systems]
            present = [value for value in shares if value is not None]
            rates.setdefault(system, {})[key] = (
                math.fsum(present) / len(present) if len(present) == len(shares) else None
            )
    return rates


def _votes(battle: Battle, index: int, verdicts: Verdicts) -> Iterator[Vote]:
    """Yield the vote of each judge with verdicts in both orders."""
    for judge in verdicts.judges:
        values = [verdicts.verdict(2 * index + turn, PAIRWISE, judge).value for turn in (0, 1)]
        if None not in values:
            straight, turned = (_PREFERRED[value] for value in values if value is not None)
            orders = straight, _TURNED[turned]
            vote_id = canonical_hash(["judge", judge, battle.battle_id])[:16]
            preference = straight if orders[0] == orders[1] else "tie"
            yield battle.vote(vote_id, preference, rater=judge, kind="judge", orders=orders)


# Answers of battles: every system's answer to a task in a setting, from logs or predictions.

LIVE = "live"
"""Setting of live answers, which have no answerability label."""
REFERENCE = "reference"
"""Name of the system whose answers are the benchmark's own."""

ItemKey = tuple[str, str, str]
"""(label of the benchmark, setting, task id)."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A system's answer to a task."""

    system: str
    benchmark: str
    """Label of the benchmark, with a mark for samples."""
    setting: str
    response: Response
    refuses: bool
    """Whether `NgramIdk` detects a refusal."""
    scores: Mapping[str, float]
    """Metric -> score in the logs; empty for answers without scores."""

    @property
    def item(self) -> ItemKey:
        """Key of the answered item."""
        return self.benchmark, self.setting, self.response.task.task_id

    @property
    def version(self) -> str:
        """Hash of the text and its passages."""
        passages = [[passage.title, passage.text] for passage in self.response.passages]
        return canonical_hash([self.response.text, passages])[:16]

    @property
    def side(self) -> VotedAnswer:
        """The answer as stored in a vote."""
        return VotedAnswer(
            system=self.system, version=self.version, n_words=n_words([self.response.text]), refuses=self.refuses
        )


@dataclass(frozen=True, slots=True)
class Battle:
    """Two systems' answers to the same task. The first system is the first by name, regardless of display order."""

    first: Answer
    second: Answer

    @property
    def battle_id(self) -> str:
        """Hash of the compared answers."""
        sides = [[answer.system, answer.version] for answer in (self.first, self.second)]
        return canonical_hash([list(self.first.item), sides])[:16]

    @property
    def systems(self) -> tuple[str, str]:
        """Names of both systems."""
        return self.first.system, self.second.system

    @property
    def is_equal(self) -> bool:
        """Whether both texts are equal: a tie that needs no rater."""
        return self.first.response.text == self.second.response.text

    @property
    def conversation_id(self) -> str:
        """The conversation of the task."""
        return self.first.response.task.conversation_id

    def vote(self, vote_id: str, preference: Preference, *, is_turned: bool = False, **details: Any) -> Vote:
        """Return a vote on the battle. `is_turned` means that its second answer was displayed first."""
        task = self.first.response.task
        first, second = (self.second, self.first) if is_turned else (self.first, self.second)
        return Vote(
            vote_id=vote_id,
            battle_id=self.battle_id,
            benchmark=self.first.benchmark,
            setting=self.first.setting,
            task_id=task.task_id,
            conversation_id=task.conversation_id,
            answerability="" if self.first.setting == LIVE else task.answerability.value,
            first=first.side,
            second=second.side,
            preference=preference,
            **details,
        )


class AnswerPool:
    """The answers of all systems."""

    def __init__(self, answers: Iterable[Answer]) -> None:
        """Store the answers. Failed requests are counted and omitted."""
        self.n_failed = 0
        self._items: dict[ItemKey, dict[str, Answer]] = {}
        for answer in answers:
            if answer.response.no_answer:
                self.n_failed += 1
            elif self._items.setdefault(answer.item, {}).setdefault(answer.system, answer) is not answer:
                raise ConfigurationError(
                    f"{answer.system} answers {answer.item[2]} in {answer.item[1]} twice: name one evaluation per model"
                )
        if not any(len(answers_by_system) > 1 for answers_by_system in self._items.values()):
            raise ConfigurationError(
                "no task has answers of two systems in the same setting; found: "
                f"{', '.join(self.systems) or 'no answer'}. Next step: name the results of another model on the "
                "same tasks"
            )

    @property
    def systems(self) -> tuple[str, ...]:
        """Names of the systems, sorted."""
        return tuple(sorted({system for answers_by_system in self._items.values() for system in answers_by_system}))

    @property
    def items(self) -> tuple[ItemKey, ...]:
        """Tasks with answers of at least two systems, in input order."""
        return tuple(key for key, answers_by_system in self._items.items() if len(answers_by_system) > 1)

    def implausible(self) -> list[str]:
        """Return a line per type of implausible answers, which make battles uninformative."""
        answers = [answer for answers_by_system in self._items.values() for answer in answers_by_system.values()]
        groups = grouped(answers, lambda answer: f"{answer.system}, {answer.benchmark} in {answer.setting}")
        lines = []
        for location, own in groups.items():
            if own[0].system not in {REFERENCE, *EXEMPT}:
                pairs = zip(own, find_implausible([answer.response for answer in own]), strict=True)
                checked = CheckedAnswers("", tuple((answer.item[2], problems) for answer, problems in pairs))
                lines += [f"{location}: {line}" for line in checked.summary]
        return lines

    def answers_to(self, item: ItemKey) -> Mapping[str, Answer]:
        """Return system -> its answer; {} for an unknown item."""
        return dict(sorted(self._items.get(item, {}).items()))

    @cached_property
    def battles(self) -> tuple[Battle, ...]:
        """Every pair of answers to the same item."""
        return tuple(battle for item in self.items for battle in _battles_of(self.answers_to(item)))


def shuffled(texts: Iterable[str], seed: str = "") -> list[str]:
    """Return texts in a pseudorandom order that depends only on the texts and the seed."""
    return sorted(texts, key=lambda text: hashlib.sha256(f"{seed}\n{text}".encode(errors="replace")).digest())


def read_answers(
    paths: Sequence[Path],
    *,
    benchmark: Benchmark | None = None,
    setting: str | None = None,
    with_reference: bool = False,
) -> AnswerPool:
    """Return the answers in results of the harness (with logged samples) and in prediction files.

    Systems are named as in reports: the model, and the run if it is not the benchmark's own. Predictions are named
    after their file.
    """
    answers = [answer for path in paths for answer in _answers_at(path.resolve(), benchmark, setting)]
    if with_reference:
        answers += _references(answers)
    return AnswerPool(answers)


def _answers_at(path: Path, benchmark: Benchmark | None, setting: str | None) -> Iterator[Answer]:
    results, predictions = evaluation_files(path)
    for file in results:
        saved = read_results(file, Path(), {})
        model = model_of(saved.results)
        for task in saved.tasks:
            run = str(task.recorded.get("run", OFFICIAL))
            system = model if run == OFFICIAL else f"{model} (run {run})"
            yield from (answer for answer in _answers_of_task(task, system) if setting in {None, answer.setting})
    if not predictions:
        return
    if benchmark is None or setting is None:
        raise ConfigurationError(
            f"{predictions[0]}: predictions do not contain their benchmark and setting: use --benchmark and --setting"
        )
    settings = [member.value for member in Setting]
    if setting not in settings:
        raise ConfigurationError(f"unknown setting {setting!r}: {close_matches(setting, settings)}")
    for file in predictions:
        saved = read_predictions(file, Path(), benchmark, Setting(setting), store=Path())
        for task in saved.tasks:
            yield from _answers_of_task(task, file.stem)


def _answers_of_task(task: SavedTask, system: str) -> Iterator[Answer]:
    refusals = NgramIdk().detect(task.responses)
    for answer, label in zip(task.answers, refusals, strict=True):
        yield Answer(
            system=system,
            benchmark=str(task.provenance["benchmark"]),
            setting=answer.setting,
            response=answer.response,
            refuses=label.verdict is IdkVerdict.YES,
            scores={name: value for name, value in answer.scores.items() if value is not None},
        )


def _references(answers: Sequence[Answer]) -> list[Answer]:
    """Return the benchmark's own answer to every item, with the passages of the first system."""
    firsts: dict[ItemKey, Answer] = {}
    for answer in answers:
        if answer.response.task.target:
            firsts.setdefault(answer.item, answer)
    given = [answer.response for answer in firsts.values()]
    responses = [Response(response.task, response.passages, response.task.target) for response in given]
    refusals = NgramIdk().detect(responses)
    return [
        Answer(REFERENCE, answer.benchmark, answer.setting, response, label.verdict is IdkVerdict.YES, {})
        for answer, response, label in zip(firsts.values(), responses, refusals, strict=True)
    ]


# Selection of the next battle under a budget: from the pair of systems with the least certain win rate. Uncertainty is
# the standard error of the win rate with one vote added for each side. Within a pair, conversations alternate, since
# battles of one conversation are similar. The selection depends only on votes and names, so a repeated command sends
# the same requests.

Systems = tuple[str, str]
"""Two systems, ordered by name."""


def next_battles(battles: Sequence[Battle], votes: Sequence[Vote], n: int) -> list[Battle]:
    """Return up to `n` battles without votes, least certain pairs first."""
    fought = {vote.battle_id for vote in votes}
    by_pair = grouped(battles, lambda battle: battle.systems)
    queues = {pair: _queue(battles_of, fought) for pair, battles_of in by_pair.items()}
    shares = {pair: _share(pair, votes) for pair in queues}
    heap = [(-_uncertainty(share, n_votes), pair) for pair, (share, n_votes) in shares.items()]
    heapq.heapify(heap)
    selected: list[Battle] = []
    n_more: Counter[Systems] = Counter()
    while heap and len(selected) < n:
        _, pair = heapq.heappop(heap)
        following = next(queues[pair], None)
        if following is not None:
            selected.append(following)
            n_more[pair] += 1
            share, n_votes = shares[pair]
            heapq.heappush(heap, (-_uncertainty(share, n_votes + n_more[pair]), pair))
    return selected


def _queue(battles: Sequence[Battle], fought: set[str]) -> Iterator[Battle]:
    """Return the battles of a pair that have no votes. Conversations with the fewest battles come first."""
    n_battles = Counter(battle.conversation_id for battle in battles if battle.battle_id in fought)
    by_id = {battle.battle_id: battle for battle in battles if battle.battle_id not in fought}
    positions: list[tuple[int, Battle]] = []
    for battle_id in shuffled(by_id):
        battle = by_id[battle_id]
        positions.append((n_battles[battle.conversation_id], battle))
        n_battles[battle.conversation_id] += 1
    return (battle for _, battle in sorted(positions, key=lambda position: position[0]))


def _share(pair: Systems, votes: Sequence[Vote]) -> tuple[float, int]:
    """Return the share of the first system with one vote added for each side, and the number of votes."""
    values = [vote.value_of(pair[0]) for vote in votes if set(vote.systems) == set(pair)]
    return (math.fsum(values) + 1) / (len(values) + 2), len(values)


def _uncertainty(share: float, n_votes: int) -> float:
    return math.sqrt(share * (1 - share) / (n_votes + 2))
