"""Quality of synthetic dialogues, by counts and by language models."""

from __future__ import annotations

import itertools
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import orjson

from ragtasks.benchmarks import Benchmark, open_benchmark
from ragtasks.clients import Progress, Secrets, no_progress, no_secrets
from ragtasks.errors import ConfigurationError
from ragtasks.files import NO_CODE, loading
from ragtasks.metrics import retrieval_metric, score_run, whole_weights
from ragtasks.records import Answerability, Qrel, Task
from ragtasks.requirements import importing
from ragtasks.synthesis.asking import terms
from ragtasks.synthesis.folder import DETAILS, DIALOGUES, standalone
from ragtasks.synthesis.training import MEASURES, relevant
from ragtasks.tables import Cell, Section, Table, fixed
from retrieval_cache import LLM_REWRITE, Place, Rewriter, fallbacks_of, load_model, needs_model, read_run, retrieve

# Retrieval on synthetic dialogues by query form, in all and per domain.
# Source: OR-CONVQA paper, Tables 2, 3 and 8 to 10.

PAPER_FORMS = ("context", "contextualized", "decontextualized")
"""The query forms of Table 2: with the previous question and answer, as asked, standing alone."""

_DEPTH = 20
# Tables 2 and 3, dialogues from propositions, by reciprocal rank fusion: MAP, R@5, R@10, R@20.
_PUBLISHED_RETRIEVAL = {
    "paper: RRF, proprietary documents": {
        "context": ("0.19", "0.31", "0.44", "0.56"),
        "contextualized": ("0.46", "0.55", "0.63", "0.69"),
        "decontextualized": ("0.50", "0.60", "0.67", "0.73"),
        "llm_rewrite (T5)": ("0.49", "0.57", "0.65", "0.72"),
    },
    "paper: RRF, public documents": {
        "context": ("0.18", "0.30", "0.44", "0.56"),
        "contextualized": ("0.49", "0.59", "0.65", "0.72"),
        "decontextualized": ("0.54", "0.63", "0.71", "0.77"),
        "llm_rewrite (T5)": ("0.52", "0.62", "0.69", "0.76"),
    },
}
_NOTE = "Over the questions that rest on a passage; the first 20 found count."
_SEEN = "A rewriter that was trained on these dialogues has seen most of the answers."
_Values = Mapping[tuple[str, str], Mapping[str, Mapping[str, float]]]


def retrieval_tables(
    benchmark: Benchmark,
    retrievers: Sequence[str],
    forms: Sequence[str],
    *,
    place: Place,
    rewriter: Rewriter,
    progress: Progress,
) -> tuple[Table, ...]:
    """Return the means over all judged questions, and with several domains those of each."""
    qrels = relevant(benchmark)
    domains = {task.task_id: task.domain for task in benchmark.tasks if task.task_id in qrels}
    if not domains:
        raise ConfigurationError(f"{benchmark.label}: no question is judged, so retrieval cannot be measured")
    judged = [Qrel(name, passage, 1) for name in domains for passage in qrels[name]]
    metrics = [retrieval_metric(name) for name in MEASURES]
    values: dict[tuple[str, str], Mapping[str, Mapping[str, float]]] = {}
    fallbacks: list[str] = []
    for line, form in itertools.product(retrievers, forms):
        # One that is given and not used is refused.
        form_rewriter = rewriter if needs_model(form) else replace(rewriter, model=None, base_url=None)
        made = retrieve(place, line, form, depth=_DEPTH, rewriter=form_rewriter, progress=progress)
        values[line, form] = score_run(read_run(made, domains), judged, metrics).values
        fallbacks += [f"{form}: {found}" for found in [fallbacks_of(made.manifest)] if found]
    rows: list[tuple[Cell, ...]] = [
        (line, form, len(found), *_means(list(found.values()))) for (line, form), found in values.items()
    ]
    labels = {"llm_rewrite (T5)" if form.startswith(LLM_REWRITE) else form for form in forms}
    for source, published in _PUBLISHED_RETRIEVAL.items():
        rows += [(source, form, "-", *cells) for form, cells in published.items() if form in labels]
    is_trained = any(form.startswith(f"{LLM_REWRITE}:") for form in forms)
    note = " ".join([_NOTE, *([_SEEN] if is_trained else []), *(f"{text}." for text in dict.fromkeys(fallbacks))])
    whole = Table("Retrieval by query form", ("retriever", "query", "questions", *MEASURES), tuple(rows), note)
    names = list(dict.fromkeys(domains.values()))
    return (whole, _by_domain(values, domains, names)) if len(names) > 1 else (whole,)


def _by_domain(values: _Values, domains: Mapping[str, str], names: Sequence[str]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for name in names:
        for (line, form), found in values.items():
            of_domain = [row for task_id, row in found.items() if domains[task_id] == name]
            rows.append((name, line, form, len(of_domain), *_means(of_domain)))
    return Table("Retrieval per domain", ("domain", "retriever", "query", "questions", *MEASURES), tuple(rows))


def _means(rows: Sequence[Mapping[str, float]]) -> list[str]:
    names = [retrieval_metric(name).name for name in MEASURES]
    return [fixed(statistics.fmean(row[name] for row in rows)) for name in names]


# What can be counted of synthetic dialogues, each by itself and all together, beside what papers report of theirs.

_ALIKE = 0.8  # Jaccard similarity of the words of two questions of a dialogue

# MTRAG paper, Table 8 (questions and responses in words); OR-CONVQA paper, section 4.2 and Table 7, public documents.
_PUBLISHED: Mapping[str, tuple[str, str, str]] = {
    "turns": ("7.7", "5.9", "14.58"),
    "unique passages": ("16.9", "4.6", "-"),
    "question words": ("8.6", "13.7", "-"),
    "answer words": ("97.2", "72.4", "-"),
    "passages a turn": ("2.8", "4.1", "1.99"),
    "needs rewriting": ("-", "-", "0.27"),
}
_LEGEND = (
    "unique passages, passages a turn: what answers rest on (for the OR-CONVQA paper: propositions)",
    "needs rewriting: questions whose standalone form is another one",
    "grounded: pairs that were accepted and rest on something",
    f"alike: questions whose words repeat an earlier one's of the dialogue by {_ALIKE:.0%}",
)


@dataclass(frozen=True, slots=True)
class _Counts:
    """The sums of one dialogue, or of all."""

    turns: int
    passages: frozenset[str]
    references: int
    grounded: int
    question_words: int
    answer_words: int
    rewritten: int
    removed: int
    alike: int
    unanswerable: int


def quality_section(
    folder: Path,
    relevance: QRelScore | None = None,
    retrievers: Sequence[str] = (),
    queries: Sequence[str] = PAPER_FORMS,
    progress: Progress = no_progress,
    *,
    store: Path | None = None,
    rewriter: Rewriter | None = None,
    secrets: Secrets = no_secrets,
) -> Section:
    """Return the tables of a synthesized benchmark: all dialogues beside published ones, then each."""
    removed = _removed(folder)
    by_dialogue: dict[str, list[Task]] = {}
    benchmark = open_benchmark("custom", folder)
    for task in benchmark.tasks:
        by_dialogue.setdefault(task.conversation_id, []).append(task)
    counts = {name: _counted(tasks, removed[name]) for name, tasks in by_dialogue.items()}
    statistics = {"folder": str(folder), "dialogues": str(len(counts))}
    tables = [_whole(list(counts.values()))]
    if relevance:
        tables.append(relevance_table(benchmark, relevance, progress))
    if retrievers:
        with TemporaryDirectory() as work:
            place = Place("custom", str(folder), Path(work), store or Path(work), secrets)
            tables += retrieval_tables(
                benchmark, retrievers, queries, place=place, rewriter=rewriter or Rewriter(None), progress=progress
            )
    return Section(f"synthetic: {folder.name}", statistics, (*tables, _each(counts)))


def _removed(folder: Path) -> Counter[str]:
    """Return dialogue -> pairs that were taken out of it."""
    path = folder / DETAILS / DIALOGUES
    try:
        rows: list[Any] = [orjson.loads(line) for line in path.read_bytes().splitlines()]
        return Counter({row["dialogue_id"]: len(row["removed"]) for row in rows})
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise ConfigurationError(
            "synthesis",
            where=str(path),
            expected="the dialogues that `ragtasks synthesize` writes",
            found=getattr(error, "strerror", None) or type(error).__name__,
            next_step="name a folder that it made; `ragtasks data describe FOLDER` takes any other",
        ) from error


def _counted(tasks: Sequence[Task], n_removed: int) -> _Counts:
    alone = list(map(standalone, tasks))
    return _Counts(
        turns=len(tasks),
        passages=frozenset(one.passage_id for task in tasks for one in task.references),
        references=sum(len(task.references) for task in tasks),
        grounded=sum(bool(task.references) for task in tasks),
        question_words=sum(len(task.question.split()) for task in tasks),
        answer_words=sum(len(task.target.split()) for task in tasks),
        rewritten=sum(task.question != text for task, text in zip(tasks, alone, strict=True)),
        removed=n_removed,
        alike=sum(_repeats(alone[:place], question) for place, question in enumerate(alone)),
        unanswerable=sum(task.answerability is Answerability.UNANSWERABLE for task in tasks),
    )


def _repeats(earlier: Sequence[str], question: str) -> bool:
    words = terms(question)
    others = (terms(text) for text in earlier)
    return any(len(words & other) >= _ALIKE * len(words | other) for other in others if words | other)


def _whole(counts: Sequence[_Counts]) -> Table:
    turns, n = sum(one.turns for one in counts), len(counts)
    here = {
        "turns": turns / n,
        "unique passages": sum(len(one.passages) for one in counts) / n,
        "question words": sum(one.question_words for one in counts) / turns,
        "answer words": sum(one.answer_words for one in counts) / turns,
        "passages a turn": sum(one.references for one in counts) / max(1, sum(one.grounded for one in counts)),
        "needs rewriting": sum(one.rewritten for one in counts) / turns,
        "grounded": turns / (turns + sum(one.removed for one in counts)),
        "alike": sum(one.alike for one in counts) / turns,
        "unanswerable": sum(one.unanswerable for one in counts) / turns,
    }
    rows = tuple((name, fixed(value, 2), *_PUBLISHED.get(name, ("-", "-", "-"))) for name, value in here.items())
    columns = ("mean", "here", "MTRAG", "MTRAG-S", "OR-CONVQA paper")
    return Table(
        "All dialogues",
        columns,
        rows,
        "Needs rewriting, alike and unanswerable are shares of all questions; grounded is one of the pairs written.",
        _LEGEND,
    )


def _each(counts: Mapping[str, _Counts]) -> Table:
    columns = (
        *("dialogue", "turns", "unique passages", "question words", "answer words"),
        *("needs rewriting", "grounded", "alike", "unanswerable"),
    )
    rows = tuple(
        (
            name,
            one.turns,
            len(one.passages),
            fixed(one.question_words / one.turns, 1),
            fixed(one.answer_words / one.turns, 1),
            fixed(one.rewritten / one.turns, 2),
            fixed(one.turns / (one.turns + one.removed), 2),
            one.alike,
            one.unanswerable,
        )
        for name, one in counts.items()
    )
    return Table("Each dialogue", columns, rows)


# QRelScore: how relevant a question is to the passages that its answer rests on, by two language models as they
# are.
# The harmonic mean of two terms. Local: an encoder reads question and passages together; in each layer each token
# of the question goes with the token of the passages that it attends to most, and the cosines of the two are
# averaged. Global: by how much a causal language model finds the passages more likely after the question.
# Source: X. Wang et al., QRelScore: Better Evaluating Generated Questions with Deeper Understanding of Context-
# aware Relevance (EMNLP 2022), as its published implementation computes it. That one leaves out the last token of
# either text in the local term, and averages the probabilities of question and passages together in the global one;
# so does this.

PUBLISHED_MODELS = ("bert-base-cased", "gpt2")
"""Encoder and language model of the published values."""

_PURPOSE = "QRelScore"


@dataclass(frozen=True, slots=True)
class Relevance:
    """How relevant a question is to its passages."""

    local: float
    """Mean cosine of the tokens that belong together, -1 to 1."""
    gain: float
    """Share by which the passages are more likely after the question, 0 or more."""

    @property
    def score(self) -> float:
        """The harmonic mean of both; 0 where one of them is not positive."""
        return 2 * self.local * self.gain / (self.local + self.gain) if min(self.local, self.gain) > 0 else 0.0


class QRelScore:
    """The two models; one pair of texts at a time."""

    def __init__(self, encoder: str, language_model: str) -> None:
        """Load the models."""
        self.models = (encoder, language_model)
        # Only this implementation gives its attention away.
        loaded = load_model("SentenceTransformer", encoder, _PURPOSE, model_kwargs={"attn_implementation": "eager"})
        self._encoder = loaded[0].auto_model.eval()
        self._encoder_tokenizer = loaded.tokenizer
        self._model, self._tokenizer = _language_model(language_model)

    def __call__(self, question: str, passages: Sequence[str]) -> Relevance | None:
        """Return how relevant a question is to passages; None where one of them has fewer than two tokens."""
        context = " ".join(passages)
        local = self._local(question, context)
        before, after = self._likelihood(context), self._likelihood(f"{question} {context}")
        if local is None or not before or after is None:
            return None
        return Relevance(local, max(0.0, (after - before) / before))

    def _local(self, question: str, context: str) -> float | None:
        import torch

        encoding = self._encoder_tokenizer(
            question,
            context,
            truncation="only_second",
            max_length=self._encoder.config.max_position_embeddings,
            return_tensors="pt",
        )
        sides = encoding.sequence_ids(0)
        asked, given = ([place for place, side in enumerate(sides) if side == number][:-1] for number in (0, 1))
        if not asked or not given:
            return None
        with torch.no_grad():
            found = self._encoder(
                **encoding.to(self._encoder.device), output_hidden_states=True, output_attentions=True
            )
        cosines = []
        for hidden, attention in zip(found.hidden_states[1:], found.attentions, strict=True):
            by_pair = attention[0].amax(dim=0)[asked][:, given]
            vectors = torch.nn.functional.normalize(hidden[0], dim=-1)
            attended = vectors[given][by_pair.argmax(dim=1)]
            cosines.append((vectors[asked] * attended).sum(dim=1).mean())
        return float(torch.stack(cosines).mean())

    def _likelihood(self, text: str) -> float | None:
        """Return the mean probability of the tokens of a text after the first; None without one."""
        import torch

        longest = getattr(self._model.config, "max_position_embeddings", None)
        ids = self._tokenizer(text, return_tensors="pt", truncation=longest is not None, max_length=longest).input_ids
        if ids.shape[1] < 2:
            return None
        with torch.no_grad():
            logits = self._model(ids.to(self._model.device)).logits[0, :-1].float()
        return float(logits.softmax(dim=-1).gather(1, ids[0, 1:, None].to(logits.device)).mean())


def _language_model(name: str) -> tuple[Any, Any]:
    with importing("transformers", "train", _PURPOSE):
        from transformers import AutoModelForCausalLM, AutoTokenizer
    with (
        loading(
            _PURPOSE,
            name,
            expected="a name on the Hugging Face hub, or a folder with a causal language model",
            next_step="check the name; without a network, download the model first and name its folder",
        ),
        whole_weights(_PURPOSE, name, "take a causal language model, such as gpt2"),
    ):
        model = AutoModelForCausalLM.from_pretrained(name, **NO_CODE)
        return model.eval(), AutoTokenizer.from_pretrained(name, **NO_CODE)


# The table of QRelScore: questions as they are asked, and as they stand alone, beside the published values.

# OR-CONVQA paper, Table 1, dialogues from propositions of public and of proprietary documents.
_PUBLISHED_RELEVANCE = {"as asked": ("0.33", "0.36"), "standing alone": ("0.36", "0.41")}


def relevance_table(benchmark: Benchmark, measure: QRelScore, progress: Progress = no_progress) -> Table:
    """Return the means over all questions whose answers rest on passages."""
    tasks = [task for task in benchmark.tasks if task.references]
    forms = {"as asked": [task.question for task in tasks], "standing alone": list(map(standalone, tasks))}
    rows = []
    n_done = 0
    for form, questions in forms.items():
        found: list[Relevance | None] = []
        for task, question in zip(tasks, questions, strict=True):
            found.append(measure(question, [item.text for item in task.references]))
            n_done += 1
            progress("QRelScore\tquestions", n_done, 2 * len(tasks))
        scored = [one for one in found if one is not None]
        means = [_mean([getattr(one, name) for one in scored]) for name in ("local", "gain", "score")]
        rows.append((form, f"{len(scored)} of {len(benchmark.tasks)}", *means, *_PUBLISHED_RELEVANCE[form]))
    columns = ("questions", "scored", "local", "global", "QRelScore", "paper, public", "paper, proprietary")
    encoder, language_model = measure.models
    note = (
        f"Encoder {encoder}, language model {language_model}; the paper's values have {' and '.join(PUBLISHED_MODELS)}."
    )
    if measure.models != PUBLISHED_MODELS:
        note += " Values of other models do not compare with them, only with each other."
    legend = ("not scored: questions whose answers rest on no passage, and texts of one token",)
    return Table("QRelScore", columns, tuple(rows), note, legend)


def _mean(values: Sequence[float]) -> str:
    return fixed(sum(values) / len(values)) if values else "-"
