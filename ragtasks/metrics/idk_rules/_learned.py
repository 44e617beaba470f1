"""What was learned from labelled sentences: which say that information is missing, and which give an answer beside it.

Two logistic regressions over `features_of`, with few weights (`weights.json`). `perf/idk_training.py` makes the file.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path

GAP = 0.75
"""From this probability on, a sentence says that information is missing."""

_CONDITIONS = (["if"], ["when"], ["whenever"], ["unless"])
_LONG, _MANY = 40, 12
"""Words of a sentence and sentences of a response beyond which more make no difference."""


@dataclass(frozen=True, slots=True)
class Sentences:
    """The sentences of one response, read once."""

    tokens: list[list[str]]
    features: list[set[str]]

    @classmethod
    def of(cls, sentences: Sequence[str], features: Features | None = None) -> Sentences:
        """Return the sentences of `sentences_of`, read, with all their features or those that are asked for."""
        tokens = [tokens_of(sentence) for sentence in sentences]
        return cls(tokens, list(map(features.of if features else features_of, tokens)))


@dataclass(frozen=True, slots=True)
class Learned:
    """Two regressions, and what reads the features that they weigh."""

    weights: Mapping[str, Mapping[str, float]]
    """Regression -> feature -> weight; the empty feature is the intercept."""
    features: Mapping[str, Features]
    """Regression -> what reads its features alone."""

    @classmethod
    def of(cls, weights: Mapping[str, Mapping[str, float]]) -> Learned:
        """Return the regressions of these weights."""
        return cls(weights, {name: Features(one) for name, one in weights.items()})

    def probability(self, name: str, features: Mapping[str, float]) -> float:
        """Return what a regression (`gap`, `answer`) gives for feature -> value."""
        weights = self.weights[name]
        return _logistic(weights[""] + sum(weights[one] * features[one] for one in weights.keys() & features.keys()))


def _logistic(total: float) -> float:
    return 1 / (1 + math.exp(-total))


def gap_probability(sentence: str) -> float:
    """Return the probability (0 to 1) that a sentence says that information is missing.

    It is 0 without a negation, and where the sentence opens with a condition.
    """
    tokens = tokens_of(sentence)
    if tokens[:1] in _CONDITIONS or not has_sign(tokens) or is_of_others(tokens):
        return 0.0
    learned = _learned()
    weights = learned.weights["gap"]
    return _logistic(weights[""] + sum(map(weights.__getitem__, learned.features["gap"].of(tokens))))


def answer_probabilities(sentences: Sequence[str], gaps: Sequence[bool]) -> list[float]:
    """Return the probability (0 to 1) of each sentence to give an answer."""
    learned = _learned()
    read = Sentences.of(sentences, learned.features["answer"])
    return [learned.probability("answer", features) for features in answer_features(read, gaps)]


def answer_features(read: Sentences, gaps: Sequence[bool]) -> list[dict[str, float]]:
    """Return feature -> value of each sentence: its own, and where it stands beside those that say what is missing."""
    missing = set().union(*(content_of(tokens) for tokens, gap in zip(read.tokens, gaps, strict=True) if gap))
    last = len(gaps) - 1
    first_gap = next((place for place, gap in enumerate(gaps) if gap), len(gaps))
    last_gap = next((place for place in range(last, -1, -1) if gaps[place]), -1)
    found = []
    for place, (tokens, features) in enumerate(zip(read.tokens, read.features, strict=True)):
        content = content_of(tokens)
        found.append(
            {
                **dict.fromkeys(features, 1.0),
                "#gap": float(gaps[place]),
                "#after a gap": float(place > first_gap),
                "#right after a gap": float(place > 0 and gaps[place - 1]),
                "#before a gap": float(place < last_gap),
                "#first": float(place == 0),
                "#last": float(place == last),
                "#question": float(tokens[-1:] == ["?"]),
                "#length": min(len(tokens), _LONG) / _LONG,
                "#about what is missing": len(content & missing) / max(1, len(content)),
                "#sentences": min(last + 1, _MANY) / _MANY,
            }
        )
    return found


@cache
def _learned() -> Learned:
    return Learned.of(json.loads(Path(__file__).with_name("weights.json").read_text("utf-8")))


# The words that refusals and answers are made of, by what they do; in lower case, without contractions.
# A plural that is not listed counts as its singular. A word may do more than one thing.

WORDS: dict[str, str] = {
    # What was retrieved, and what it consists of.
    "SOURCE": (
        "archive archives article articles author authors base catalog catalogue chapter comment comments content "
        "contents context contexts conversation corpus coverage data database description descriptions details "
        "document documentation documents entries entry excerpt excerpts extract extracts faq faqs file files "
        "guide guides handbook history index info information input knowledge library listing listings literature "
        "manual manuals material materials note notes page pages passage passages policies policy post posts "
        "record records reference references report reports resource resources result results search section "
        "sections site sites snippet snippets source sources summaries summary table tables text texts thread "
        "threads transcript website"
    ),
    # Who answers.
    "SPEAKER": ("assistant bot i me my our system us we"),
    # Negations.
    "NOT": (
        "barely bupkis cannot hardly nada nah neither never no nobody none noone nope nor not nothing nowhere "
        "without zilch"
    ),
    # Words that say by themselves that something is not there.
    "LACK": (
        "absence absent aside beyond blank confined dunno elsewhere empty fail failed fails gap gaps idk "
        "incomplete inconclusive insufficient lack lacked lacking lacks limited missing omit omits omitted open "
        "outside scant short silence silent stumped thin unable unaddressed unanswerable unanswered unavailable "
        "uncatalogued uncertain unclear unconfirmed uncovered undefined undescribed undetermined undisclosed "
        "undocumented unknown unlisted unmentioned unreadable unrecorded unseen unspecified unstated unsupported "
        "unsure untouched"
    ),
    # What a source does with information, in the forms that occur.
    "SAY": (
        "address addressed addresses addressing answer answered answering answers appear appeared appears attempt "
        "attempts attribute attributes bear bears break breaks carried carries carry catalogue catalogued "
        "clarified clarifies clarify come comes compare compared compares confirm confirmed confirms connect "
        "connects contain contained containing contains cover covered covering covers deal deals dealt define "
        "defined defines describe described describes describing detail detailed detailing details disclose "
        "disclosed discloses discuss discussed discusses discussing document documented documents draw draws "
        "elaborate elaborates establish establishes explain explained explaining explains extend extends feature "
        "features get gets give given gives giving go goes held help helps hold holds identified identifies "
        "identify include included includes including index indexed indicate indicated indicates list listed "
        "listing lists make makes mention mentioned mentioning mentions name named names naming note noted notes "
        "occur occurs offer offered offers outline outlined outlines point pointed points provide provided "
        "provides providing publish published publishes put puts quantifies quantify quote quoted quotes raise "
        "raised raises rank ranking ranks reach recommend recommends record recorded records refer referred "
        "refers report reported reporting reports resolve resolves reveal reveals said say saying says set sets "
        "settle settles shed show showed shown shows speak speaks specified specifies specify specifying spell "
        "spelled spells state stated states stating store stored stores suggest suggests supplied supplies supply "
        "support supported supports talk talks tell telling tells told touch touches track tracked tracks venture "
        "ventures verified verify"
    ),
    # What one who answers does with it.
    "FIND": (
        "access accessed advise answer ascertain assess came check come comment compare conclude confirm "
        "determine determined determining establish estimate figure find finding finds found gauge give guess "
        "help identify judge know knowing known knows list locate located look name offer pin pinpoint point "
        "predict promise provide pull quote recall recommend resolve retrieve retrieved return returned returns "
        "rule saw say see seeing seen sees settle share speak speculate spot surface surfaced tell turn turned "
        "verify vouch work"
    ),
    # What is asked for.
    "INFORMATION": (
        "answer answers basis breakdown clarity clue comparison confirmation cost costs coverage data date dates "
        "definition description detail details documentation entry estimate evidence example examples explanation "
        "figure figures guidance hint hit hits idea indication info information insight instructions list lists "
        "luck match matches material mention name names number numbers particulars price prices pricing ranking "
        "recommendation recommendations record records reference result results schedule specifics statistic "
        "statistics step steps timeline trace way word"
    ),
    # How what was retrieved is said to be at hand.
    "AT_HAND": (
        "above access attached available current front given hand here indexed material provided retrieved "
        "returned shared supplied"
    ),
    # Where to look instead, and how one is told to.
    "ADVICE": (
        "accurate advise adviser advisor agency agent ask attorney best better browse call check confirm consider "
        "consult contact current department desk directly doctor email help helpful latest lawyer local look "
        "office official please professional reach recommend recommended refer review search see speak specialist "
        "start suggest support team ticket try verify visit website worth"
    ),
    # Offers and requests.
    "OFFER": (
        "another can could else feel free further glad happy know let like more need question questions share "
        "tell want would"
    ),
    # Turns to something else.
    "CONTRAST": (
        "although apart beyond but however instead nevertheless nonetheless only otherwise said still that though "
        "whereas while yet"
    ),
    # Words that open an indirect question.
    "WHICH": ("how if what when where whether which who whom whose why"),
    # Words that narrow down what is missing.
    "EXACT": ("actual definitive directly exact exactly explicit explicitly particular precise specific specifically"),
    # Forms of to be.
    "BE": ("am are be been being is was were"),
}
"""What words do -> the words, apart by blanks."""

FUNCTION_WORDS = (
    "the a an of to in on for from by with as at this that these those it they there you your he she his her "
    "its their and or so than then any some all do does did has have had having will would can could may "
    "might must should shall about into up out if because since just also very more most much many one two "
    "other another each every both either own same such even already too quite rather"
)
"""Words of grammar, which stand for themselves."""

WHO_LACKS: dict[str, str] = {
    # Where another subject may begin.
    "START": ", : but however although though while whereas because since",
    # Verbs whose "not" is about what the subject does; without an object ("the file is not found") it is not.
    "AUXILIARY": "do does did can could will would may might has have had unable",
    # Verbs whose subject is the topic: "prices do not come up".
    "COME_UP": "appear appears appeared come came turn turned occur feature figure show surface surfaced",
    # Verbs of there being something.
    "EXIST": "exist exists existed survive survives survived",
    # Signs that are objects: "the letters give no date".
    "NO": "no nothing neither none",
    # What stands before such a sign where it is no object.
    "NO_VERB": "is are was were be been there and or with of in on for to by from that",
    # What opens a clause about something that its noun lacks: "a claim for which no papers were given".
    "OF_WHICH": "which whom whose",
    # What stands before it.
    "OF": "about at for from in of on to under with",
    # Who searches and tells, and is neither a source nor the speaker.
    "PERSON": "he she",
    # What dates the end of an absence: "no mention of it before 1871".
    "UNTIL": "before until till",
    # What is done with information by those who have it.
    "GIVEN": "given provided released disclosed shared",
    # What opens who does it, or how.
    "WITHHELD": "by over to unless until without",
    # What nobody but the one who asked is said to have.
    "READER": "you your yours yourself",
    # What a thing of the world has not been; what was retrieved has not been "provided".
    "HANDED": "provided given shared supplied included listed mentioned offered specified stated",
    # Pronouns of what was named before, be it what was retrieved.
    "IT": "it they this that these those which either both one",
    # People, and sources that may as well be what an answer is about.
    "OTHERS": "he she author authors policy policies library history report reports",
    # Verbs by which somebody else speaks.
    "REPORTED": (
        "said says told admitted replied answered claimed stated wrote testified complained recalled insisted argued "
        "confessed commented conceded"
    ),
    # What joins a verb to the subject of another.
    "JOINED": "and or nor but",
    # "no ..." and "not ..." that lack nothing.
    "NO_ISSUE": "longer doubt matter problem problems wonder need",
    "NOT_ALONE": "only just necessarily saying",
    # Verbs of duty: what one need not or must not do.
    "DUTY": "must should shall ought need needs",
    # What makes a comparison of "can not": "I can not say it better", "can not recommend it highly enough".
    "COMPARED": "better worse highly",
    # What those do not give away who have it.
    "GIVEN_AWAY": "share disclose release sell pass hand",
    # What is done by a search alone.
    "SEARCHED": "retrieved indexed returned",
    # What is of a time or a place in the world, as what was retrieved is not.
    "OF_ITS_TIME": (
        "contemporary ancient surviving extant medieval early roman greek written archaeological historical eyewitness"
    ),
    # What stands before an adjective.
    "ARTICLE": "the a an his her their its",
    # What opens a clause that tells which ones are meant.
    "THAT": "that which who",
}
"""Words by which is told who lacks what a sentence says is lacking, as `WORDS`."""


# What the learned part of the detector sees of a sentence: its words of grammar and of the word classes, in order.
# All other words are one and the same to it, so that what was learned on one topic holds on another.

_TOKEN = re.compile(r"[a-z]+(?:[-'][a-z]+)*|\d+(?:[.,]\d+)*|[?:,]")
_GRAMMAR = frozenset(FUNCTION_WORDS.split())
_CLASSES: dict[str, tuple[str, ...]] = {}
for _name, _words in WORDS.items():
    for _word in _words.split():
        _CLASSES[_word] = (*_CLASSES.get(_word, ()), _name)
_SIGNS = frozenset({"NOT", "LACK"})
_WORDS = _GRAMMAR.union(_CLASSES, ("0", "?", ":", ","))
"""Words and marks that stand for themselves; any other is the same as another."""
_OTHER = "_"
_START, _END = "^", "$"
_NO_FEATURES = frozenset({_OTHER, _START, _END})
_AROUND = 8
"""Words before and after a sign whose classes are noted."""
_WHO = {name: frozenset(words.split()) for name, words in WHO_LACKS.items()}
_VERBS_OF_WHICH = _WHO["AUXILIARY"].union(WORDS["BE"].split())
_LACKERS = frozenset({"SOURCE", "SPEAKER", "INFORMATION", "WHICH", "EXACT"})
"""Classes of what may lack information, or be lacking."""
_N_WORDS = 1 << 16

Step = tuple[str, ...]
"""What a word is to the learned part: itself, its classes, or nothing."""


def tokens_of(sentence: str) -> list[str]:
    """Return the words and marks of a sentence of `sentences_of`; every number is 0."""
    return ["0" if token[0].isdigit() else token for token in _TOKEN.findall(sentence)]


def has_sign(tokens: Sequence[str]) -> bool:
    """Return whether a negation or a word such as "unclear" is among the tokens."""
    return not SIGNS.isdisjoint(tokens)


def is_of_others(tokens: Sequence[str]) -> bool:
    """Return whether all that a sentence negates is what others do, or the world lacks: no source, no speaker.

    "The witness could not describe him" is an answer about a witness, "our pages could not" is none.
    """
    start, of_others, n_signs = 0, False, 0
    if _is_instruction(tokens):
        return True
    reported = _place_of_report(tokens)
    starts = _WHO["START"]
    for place, token in enumerate(tokens):
        if token in starts:
            start = place + 1
        elif token in SIGNS:
            n_signs += 1
            if place > reported or _is_idle(tokens, place):
                continue
            subject, after = tokens[start:place], tokens[place + 1 :]
            of_others = (
                _is_of_world(token, after)
                or _is_of_noun(subject, after)
                or _is_policy(subject, after)
                or (of_others and (subject[:2] == ["and", "there"] or _is_joined(subject)))
                or (
                    _is_active(subject, token, after)
                    and ((of_others and subject[0] in _WHO["IT"]) or _names_others(subject))
                )
            )
            if not of_others:
                return False
    return n_signs > 0


def _place_of_report(tokens: Sequence[str]) -> int:
    """Return from where on somebody else speaks: "The treasurer said she had no idea"; else beyond the end."""
    start = 0
    if _WHO["REPORTED"].isdisjoint(tokens):
        return len(tokens)
    for place, token in enumerate(tokens):
        if token in _WHO["START"]:
            start = place + 1
        elif token in _WHO["REPORTED"] and start < place:
            subject = tokens[start:place]
            if _names_others(subject) and all(_LACKERS.isdisjoint(_classes(one)) for one in subject):
                return place
    return len(tokens)


def _is_idle(tokens: Sequence[str], place: int) -> bool:
    """Return whether a sign says that nothing is missing: "no longer", "must not", "the missing funds"."""
    after = tokens[place + 1 :]
    token, last, following = tokens[place], tokens[place - 1] if place else "", after[0] if after else ""
    if token == "no":
        return following in _WHO["NO_ISSUE"] or after[1:2] == ["than"]
    if token != "not":
        is_adjective = last in _WHO["ARTICLE"] and following != "" and not _step(following)
        return is_adjective and "LACK" in _classes(token)
    is_choice = last == "or"
    is_duty = last in _WHO["DUTY"] or after[:2] in (["have", "to"], ["need", "to"])
    is_compared = after[-1:] == ["enough"] or (after[2:3] != [] and after[2] in _WHO["COMPARED"])
    is_able = last in {"can", "could"}
    return is_choice or is_duty or (is_able and is_compared) or following in _WHO["NOT_ALONE"] or "anymore" in after


def is_idle(tokens: Sequence[str]) -> bool:
    """Return whether no sign says that anything is missing, whoever speaks: "I can not say it better"."""
    signs = [place for place, token in enumerate(tokens) if token in SIGNS]
    return bool(signs) and all(_is_idle(tokens, place) for place in signs)


def _is_policy(subject: Sequence[str], after: Sequence[str]) -> bool:
    """Return whether it is told what is not given away: "we do not share details of applicants"."""
    is_given_out = after[:2] in (["given", "out"], ["given", "away"])
    return is_given_out or (subject[-2:] == ["we", "do"] and after[:1] != [] and after[0] in _WHO["GIVEN_AWAY"])


def _is_joined(subject: Sequence[str]) -> bool:
    """Return whether a verb has the subject of the one before: "and could not say"."""
    return len(subject) > 1 and subject[-2] in _WHO["JOINED"] and subject[-1] in _WHO["AUXILIARY"]


def _is_instruction(tokens: Sequence[str]) -> bool:
    """Return whether a sentence tells its reader what not to do: "never give your number"."""
    is_order = tokens[:1] == ["never"] or (tokens[:2] == ["do", "not"] and "know" not in tokens[2:4])
    return is_order and not _WHO["READER"].isdisjoint(tokens)


def _is_of_noun(subject: Sequence[str], after: Sequence[str]) -> bool:
    """Return whether what comes is said of a noun before: "a claim for which no papers were given"."""
    if len(subject) < 2 or not _WHO["SEARCHED"].isdisjoint(after):
        return False
    if subject[-1] in _WHO["OF_WHICH"] and subject[-2] in _WHO["OF"]:
        return True
    is_which = subject[-2] in _WHO["THAT"] and subject[-1] in _VERBS_OF_WHICH
    if not is_which or subject[-3:-2] == [] or _step(subject[-3]):
        return False
    return all({"SOURCE", "SPEAKER"}.isdisjoint(_classes(token)) for token in after[:_AROUND])


def _is_of_world(sign: str, after: Sequence[str]) -> bool:
    """Return whether a sign says what was never done, or that there is none in the world."""
    if sign == "never":
        return after[:1] == ["been"]
    if sign != "no":
        return False
    near, ends_in_year = after[:_AROUND], after[-2:-1] and after[-2] in _WHO["UNTIL"] and after[-1] == "0"
    is_there = not _WHO["EXIST"].isdisjoint(near) or (after[:1] != [] and after[0] in _WHO["OF_ITS_TIME"])
    return bool(ends_in_year or is_there or _has_not_been(near) or _is_withheld(near))


def _is_withheld(after: Sequence[str]) -> bool:
    """Return whether it is told who or what gives nothing away: "no information is given by telephone"."""
    return any(
        verb in _WHO["GIVEN"] and how in _WHO["WITHHELD"] and _LACKERS.isdisjoint(_classes(by))
        for verb, how, by in zip(after, after[1:], after[2:], strict=False)
    )


def _has_not_been(after: Sequence[str]) -> bool:
    """Return whether nothing of a kind has been found, or made, or proved, by anybody."""
    place = next((place for place, token in enumerate(after) if token == "been"), 0)
    has = not {"has", "have"}.isdisjoint(after[max(0, place - 2) : place])
    named = after[:place] and "INFORMATION" in {name for token in after[:place] for name in _classes(token)}
    return has and not named and _WHO["HANDED"].isdisjoint(after[place : place + 3])


def _is_active(subject: Sequence[str], sign: str, after: Sequence[str]) -> bool:
    """Return whether the verb that a sign negates is an active one, and none of those by which a subject comes up."""
    verbs = [token for token in subject if not token.endswith("ly")][-1:]
    if sign in _WHO["NO"]:
        return _WHO["NO_VERB"].isdisjoint(verbs) and bool(verbs)
    return not _WHO["AUXILIARY"].isdisjoint(verbs) and _WHO["COME_UP"].isdisjoint(after[:2])


def _names_others(subject: Sequence[str]) -> bool:
    if subject[0] in _WHO["PERSON"] or _searched(subject):
        return True
    others = [token in _WHO["OTHERS"] or not _step(token) for token in subject]
    lacks = (token in _WHO["IT"] or not _LACKERS.isdisjoint(_classes(token)) for token in subject)
    return any(others) and not any(lacking and not other for lacking, other in zip(lacks, others, strict=True))


def _searched(subject: Sequence[str]) -> bool:
    """Return whether "they" did what no source does."""
    return subject[0] == "they" and any(token.endswith("ed") and not _step(token) for token in subject[1:2])


def content_of(tokens: Sequence[str]) -> set[str]:
    """Return the beginnings of the words that are neither grammar nor of a class: what a sentence is about."""
    return {token[:6] for token in tokens if len(token) > 2 and not _step(token)}


def features_of(tokens: Sequence[str]) -> set[str]:
    """Return all features of a sentence: up to three words in a row, classes in a row, classes around a sign."""
    words, steps = _words_and_steps(tokens)
    found: set[str] = set()
    for one, two, three in zip(words, words[1:], words[2:], strict=False):
        rows = [(one,), (one, two), (one, two, three)]
        # No row of other words and ends alone, and none beyond the end.
        found.update(" ".join(row) for row in rows if row[-1] and not _NO_FEATURES.issuperset(row))
    for here, after, third, fourth in zip(steps, steps[1:], steps[2:], steps[3:], strict=False):
        for one in here:
            found.update(f"{one}+{two}" for two in after)
            found.update(f"{one}+{two}+{three}" for two in after for three in third)
            found.update(f"{one}..{far}" for far in third + fourth)
    for before, behind in _around_signs(steps):
        found.update(f"{one}<" for one in before)
        found.update(f">{one}" for one in behind)
        found.update(f"{one}<>{other}" for one in before for other in behind)
    return found


class Features:
    """Reads those features of sentences that are weighed, and puts no other together."""

    def __init__(self, weighed: Collection[str]) -> None:
        """Take the features that are weighed."""
        self._weighed = frozenset(weighed) - {""}  # the intercept is none
        self._rows = _by_parts(weighed, " ")
        self._classes = _by_parts(weighed, "+")
        self._far = _by_parts(weighed, "..")
        self._signs = _by_parts(weighed, "<>")
        self._before = {name[:-1]: name for name in weighed if name.endswith("<")}
        self._behind = {name[1:]: name for name in weighed if name.startswith(">")}

    def of(self, tokens: Sequence[str]) -> set[str]:
        """Return those of a sentence."""
        words, steps = _words_and_steps(tokens)
        found = set(self._weighed.intersection(words))
        self._add_words(words, found)
        self._add_classes(steps, found)
        self._add_signs(tokens, steps, found)
        return found

    def _add_words(self, words: Sequence[str], found: set[str]) -> None:
        rows = self._rows
        for place, one in enumerate(words):
            if one in rows and (thirds := rows[one].get(words[place + 1])) is not None:
                if "" in thirds:
                    found.add(thirds[""])
                if (third := words[place + 2]) in thirds:
                    found.add(thirds[third])

    def _add_classes(self, steps: Sequence[Step], found: set[str]) -> None:
        for place, here in enumerate(steps):
            for one in here:
                if one in self._classes:
                    seconds = self._classes[one]
                    for two in steps[place + 1]:
                        if two in seconds:
                            thirds = seconds[two]
                            if "" in thirds:
                                found.add(thirds[""])
                            for three in steps[place + 2]:
                                if three in thirds:
                                    found.add(thirds[three])
                if one in self._far:
                    farther = self._far[one]
                    for far in steps[place + 2] + steps[place + 3]:
                        if far in farther:
                            found.add(farther[far][""])

    def _add_signs(self, tokens: Sequence[str], steps: Sequence[Step], found: set[str]) -> None:
        for place, token in enumerate(tokens, 1):
            if token not in SIGNS:
                continue
            before = set().union(*steps[max(0, place - _AROUND) : place])
            behind = set().union(*steps[place + 1 : place + 1 + _AROUND])
            for one in before:
                if one in self._before:
                    found.add(self._before[one])
                if one in self._signs:
                    for other in self._signs[one]:
                        if other in behind:
                            found.add(self._signs[one][other][""])
            for other in behind:
                if other in self._behind:
                    found.add(self._behind[other])


def _by_parts(names: Iterable[str], link: str) -> dict[str, dict[str, dict[str, str]]]:
    """Return first part -> second part -> third part, or "" -> name, of the names whose parts such a link joins."""
    found: dict[str, dict[str, dict[str, str]]] = {}
    for name in names:
        if link in name.strip("<>"):
            first, second, third = (*name.split(link), "")[:3]
            found.setdefault(first, {}).setdefault(second, {})[third] = name
    return found


def _words_and_steps(tokens: Sequence[str]) -> tuple[list[str], list[Step]]:
    """Return the words of a sentence, the others as one, and what each token is; both with ends."""
    words = [_START]
    for token in tokens:
        if token in _WORDS:
            words.append(token)
        elif words[-1] != _OTHER:
            words.append(_OTHER)
    return [*words, _END, "", ""], [(_START,), *map(_step, tokens), (_END,), (), (), ()]


def _around_signs(steps: Sequence[Step]) -> Iterator[tuple[set[str], set[str]]]:
    """Yield the classes of the words before and behind each sign."""
    named = list(map(_names, steps))
    for place, here in enumerate(named):
        if not _SIGNS.isdisjoint(here):
            before, behind = named[max(0, place - _AROUND) : place], named[place + 1 : place + 1 + _AROUND]
            yield set().union(*before), set().union(*behind)


def _classes(token: str) -> Step:
    found = _CLASSES.get(token)
    return found if found is not None else _CLASSES.get(token[:-1], ()) if token.endswith("s") else ()


@lru_cache(_N_WORDS)
def _step(token: str) -> Step:
    return _classes(token) or ((token,) if token in _GRAMMAR else ())


@lru_cache(_N_WORDS)
def _names(step: Step) -> Step:
    return tuple(filter(str.isupper, step))


SIGNS = frozenset(token for word in _CLASSES for token in (word, f"{word}s") if not _SIGNS.isdisjoint(_classes(token)))
"""Negations and words such as "unclear"."""
