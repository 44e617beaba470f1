"""Training of a bi-encoder that finds the passages of a conversational question, on dialogues with references.

The question is encoded with its history in a query form (`context`: after the previous question and answer), so a
search uses the same form: `--retriever dense:FOLDER --queries context`. Source: OR-CONVQA paper, sections 3.3 and 4.3,
appendix D.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ragtasks.benchmarks import Benchmark, retrieval_side
from ragtasks.errors import ConfigurationError
from ragtasks.files import Ranked, canonical_hash
from ragtasks.metrics import retrieval_metric, score_run, without_progress_bars
from ragtasks.progress import Progress, no_progress
from ragtasks.records import Passage, Qrel, Task
from ragtasks.requirements import importing
from ragtasks.synthesis.training import Hyperparameters, fit, publish_model, require_new_folder, split_by_dialogue
from retrieval_cache import (
    DenseRetriever,
    Retriever,
    build_queries,
    load_model,
    passage_text,
    read_corpus,
)

FORM = "context"
"""Query form of the paper's retriever."""
MEASURES = ("AP", "R@5", "R@10", "R@20")
"""Measures of the paper, in the notation of ir-measures."""
RETRIEVER_FITTING = Hyperparameters(batch_size=16, learning_rate=1e-5)
"""The paper's settings for the retriever."""


@dataclass(frozen=True, slots=True)
class TrainedRetriever:
    """A trained bi-encoder."""

    folder: Path
    statistics: dict[str, Any]
    """Dialogues of each set, epochs, best validation loss."""
    scores: Mapping[str, float]
    """Measure -> mean on the test dialogues."""
    scores_before: Mapping[str, float]
    """The same for the base model."""


def train_retriever(
    benchmark: Benchmark,
    base: str,
    folder: Path,
    fitting: Hyperparameters = RETRIEVER_FITTING,
    *,
    form: str = FORM,
    progress: Progress = no_progress,
) -> TrainedRetriever:
    """Train a bi-encoder on a benchmark's questions and relevant passages; a killed call resumes from a checkpoint."""
    require_new_folder(folder)
    queries = build_queries(benchmark, form).texts
    qrels = relevant(benchmark)
    split = split_by_dialogue([task for task in benchmark.tasks if task.task_id in qrels], fitting.seed)
    texts = {
        passage.passage_id: passage_text(passage) for passage in _passages(benchmark, split.train + split.validation)
    }
    pairs = [
        [{"anchor": queries[task.task_id], "positive": texts[name]} for task in part for name in qrels[task.task_id]]
        for part in (split.train, split.validation)
    ]
    made_by = {"fitting": asdict(fitting), "base": base, "form": form, "data": canonical_hash(pairs)}

    def make_trainer(work: Path) -> Any:
        return _retriever_trainer(base, fitting, work, pairs)

    def compare(part: Path) -> list[dict[str, float]]:
        models = (DenseRetriever(name) for name in (base, str(part)))
        return [score_retriever(benchmark, split.test, model, queries, progress) for model in models]

    with without_progress_bars():
        trainer, training_statistics = fit(make_trainer, folder, made_by, progress)
        before, after = publish_model(
            folder, lambda part: trainer.model.save_pretrained(str(part), create_model_card=False), compare
        )
    return TrainedRetriever(folder, {**split.sizes, **training_statistics}, after, before)


def relevant(benchmark: Benchmark) -> dict[str, list[str]]:
    """Return task id -> ids of its relevant passages, for tasks with any."""
    side = retrieval_side(benchmark.name)
    passage_ids: dict[str, list[str]] = {}
    for domain in side.domains_of(benchmark.tasks):
        for qrel in side.load_qrels(benchmark.root, domain):
            if qrel.relevance > 0:
                passage_ids.setdefault(qrel.query_id, []).append(qrel.passage_id)
    return passage_ids


def score_retriever(
    benchmark: Benchmark,
    tasks: Sequence[Task],
    retriever: Retriever,
    queries: Mapping[str, str],
    progress: Progress = no_progress,
) -> dict[str, float]:
    """Return the mean of each of `MEASURES` over tasks, each searched in the corpus of its domain; 0 to 1."""
    qrels = relevant(benchmark)
    run: dict[str, tuple[Ranked, ...]] = {}
    for domain in dict.fromkeys(task.domain for task in tasks):
        of_domain = [task for task in tasks if task.domain == domain]
        with TemporaryDirectory() as work:
            retriever.index(_passages(benchmark, of_domain), Path(work), progress)
            run.update(retriever.search({task.task_id: queries[task.task_id] for task in of_domain}, 20, progress))
    judged = [Qrel(task.task_id, name, 1) for task in tasks for name in qrels[task.task_id]]
    metrics = [retrieval_metric(name) for name in MEASURES]
    values = score_run(run, judged, metrics).values
    return {metric.name: sum(row[metric.name] for row in values.values()) / len(values) for metric in metrics}


def _passages(benchmark: Benchmark, tasks: Sequence[Task]) -> list[Passage]:
    side = retrieval_side(benchmark.name)
    domains = dict.fromkeys(task.domain for task in tasks)
    return [passage for domain in domains for passage in read_corpus(str(side.corpus_file(benchmark.root, domain)))]


def _retriever_trainer(base: str, fitting: Hyperparameters, work: Path, pairs: Sequence[list[dict[str, str]]]) -> Any:
    with importing("sentence-transformers with accelerate", "train", "training a retriever"):
        import accelerate  # noqa: F401  the trainer's own error names no extra of ours
        from datasets import Dataset
        from sentence_transformers import SentenceTransformerTrainer, SentenceTransformerTrainingArguments
        from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss
        from sentence_transformers.sentence_transformer.training_args import BatchSamplers
        from transformers import EarlyStoppingCallback, set_seed
    if not all(pairs):
        raise ConfigurationError("training a retriever needs judged questions in training and validation dialogues")
    set_seed(fitting.seed)
    model = load_model("SentenceTransformer", base, "training a retriever")
    # Two passages of one question must not be negatives of each other.
    arguments = {**fitting.arguments(work), "batch_sampler": BatchSamplers.NO_DUPLICATES}
    return SentenceTransformerTrainer(
        model=model,
        args=SentenceTransformerTrainingArguments(**arguments),
        train_dataset=Dataset.from_list(pairs[0]),
        eval_dataset=Dataset.from_list(pairs[1]),
        loss=MultipleNegativesRankingLoss(model),
        callbacks=[EarlyStoppingCallback(early_stopping_patience=fitting.patience)],
    )
