"""Training of a small query rewriter on dialogues that contain both forms of their questions.

The base model's configuration decides between T5-like models and GPT-2, Mamba and similar models. With the conditional
contract the first word of a reply states whether the question needs rewriting (OR-CONVQA paper, sections 4.3 and 4.7).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ragtasks.benchmarks import CONDITIONAL_CONTRACT, NO_REWRITE, Benchmark
from ragtasks.benchmarks.custom import rewrites_of
from ragtasks.errors import ConfigurationError
from ragtasks.files import NO_CODE, canonical_hash, loading
from ragtasks.metrics import token_f1, without_progress_bars
from ragtasks.progress import Progress, no_progress
from ragtasks.records import Task
from ragtasks.requirements import importing
from ragtasks.synthesis.training import Hyperparameters, fit, publish_model, require_new_folder, split_by_dialogue
from retrieval_cache import (
    REWRITE,
    Recipe,
    TrainedRewriter,
    build_queries,
    encoded,
    load_language_model,
    source_text,
    write_recipe,
)

MAX_SOURCE_TOKENS, MAX_NEW_TOKENS = 512, 64
_IGNORED = -100  # label that the loss ignores


@dataclass(frozen=True, slots=True)
class RewriterScores:
    """Scores of a rewriter on unseen dialogues, without first turns, which need no rewriting."""

    n: int
    f1: float
    """Mean token F1 of the rewriter's queries against the stand-alone questions, 0 to 1."""
    f1_unchanged: float
    """The same for the unchanged questions."""
    right_decision: float
    """Share of questions that the rewriter correctly changes or leaves unchanged, 0 to 1."""
    seconds_a_question: float
    """Mean time of one question without batching."""


@dataclass(frozen=True, slots=True)
class TrainedQueryRewriter:
    """A trained rewriter."""

    folder: Path
    statistics: dict[str, Any]
    """Dialogues of each set, epochs, best validation loss."""
    scores: RewriterScores
    """Scores on the test dialogues."""


def train_rewriter(
    benchmark: Benchmark,
    base: str,
    folder: Path,
    fitting: Hyperparameters,
    *,
    is_conditional: bool = True,
    progress: Progress = no_progress,
) -> TrainedQueryRewriter:
    """Train a rewriter on a benchmark's rewritten questions; a killed call resumes from its last checkpoint."""
    require_new_folder(folder)
    rewrites = rewrites_of(benchmark.tasks)
    gold = {task.task_id: rewrites.get(task.task_id, task.question) for task in benchmark.tasks}
    gold = gold if rewrites else dict(build_queries(benchmark, "rewrite").texts)
    later_turns = [task for task in benchmark.tasks if len(task.messages) > 1]
    if not any(gold[task.task_id] != task.question for task in later_turns):
        raise ConfigurationError(f"{benchmark.label}: no question has a standalone form that differs from it")
    split = split_by_dialogue(later_turns, fitting.seed)
    recipe = Recipe(_architecture(base), is_conditional, MAX_SOURCE_TOKENS, MAX_NEW_TOKENS)
    data = canonical_hash([[task.task_id, source_text(task), gold[task.task_id]] for task in later_turns])
    made_by = {"fitting": asdict(fitting), "recipe": asdict(recipe), "base": base, "data": data}

    def make_trainer(work: Path) -> Any:
        sets = (split.train, split.validation)
        return _trainer(base, recipe, fitting, work, [[(task, gold[task.task_id]) for task in part] for part in sets])

    with without_progress_bars():
        trainer, training_statistics = fit(make_trainer, folder, made_by, progress)

    def save(part: Path) -> None:
        trainer.save_model(str(part))
        trainer.processing_class.save_pretrained(str(part))
        (part / "training_args.bin").unlink(missing_ok=True)  # a pickle of paths on this machine
        write_recipe(part, recipe)

    with without_progress_bars():
        scores = publish_model(folder, save, lambda part: score_rewriter(TrainedRewriter(part), split.test, gold))
    return TrainedQueryRewriter(folder, {**split.sizes, **training_statistics}, scores)


def score_rewriter(rewriter: TrainedRewriter, tasks: Sequence[Task], gold: Any) -> RewriterScores:
    """Return the scores of a rewriter on later turns; at least one is required."""
    rewriter.generate([source_text(tasks[0])])  # warm-up: reads weights
    begin = time.perf_counter()
    for task in tasks:
        rewriter.generate([source_text(task)])
    seconds = (time.perf_counter() - begin) / len(tasks)
    queries = rewriter.rewrite(tasks).texts
    rows = [(queries[task.task_id], task.question, gold[task.task_id]) for task in tasks]
    return RewriterScores(
        len(rows),
        sum(token_f1(query, wanted) for query, _, wanted in rows) / len(rows),
        sum(token_f1(question, wanted) for _, question, wanted in rows) / len(rows),
        sum((query == question) == (wanted == question) for query, question, wanted in rows) / len(rows),
        seconds,
    )


def _architecture(base: str) -> Any:
    with importing("transformers", "train", "training a rewriter"):
        from transformers import AutoConfig
    next_step = "check the name; without a network, give a folder"
    with loading("--base", base, expected="a language model", next_step=next_step):
        config = AutoConfig.from_pretrained(base, **NO_CODE)
    return "seq2seq" if config.is_encoder_decoder else "causal"


def _trainer(
    base: str, recipe: Recipe, fitting: Hyperparameters, work: Path, sets: Sequence[Sequence[tuple[Task, str]]]
) -> Any:
    with importing("transformers with accelerate", "train", "training a rewriter"):
        import accelerate  # noqa: F401  the trainer's own error names no extra of ours
        from datasets import Dataset
        from transformers import DataCollatorForSeq2Seq, EarlyStoppingCallback, Trainer, TrainingArguments, set_seed
    set_seed(fitting.seed)  # added tokens have random weights
    tokenizer, model = load_language_model(base, recipe.kind)
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    if recipe.is_conditional and tokenizer.add_tokens([NO_REWRITE, REWRITE]):
        _resize(model, len(tokenizer))
    train, validation = (
        Dataset.from_list([_example(task, wanted, tokenizer, recipe) for task, wanted in part]) for part in sets
    )
    return Trainer(
        model=model,
        args=TrainingArguments(**fitting.arguments(work)),
        train_dataset=train,
        eval_dataset=validation,
        data_collator=DataCollatorForSeq2Seq(tokenizer, model=model, label_pad_token_id=_IGNORED),
        processing_class=tokenizer,
        callbacks=[EarlyStoppingCallback(early_stopping_patience=fitting.patience)],
    )


def _resize(model: Any, n_tokens: int) -> None:
    """Add embeddings for new tokens, without the library's long explanation of their initial weights."""
    logger = logging.getLogger("transformers.modeling_utils")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        model.resize_token_embeddings(n_tokens)
    finally:
        logger.setLevel(before)


def _example(task: Task, wanted: str, tokenizer: Any, recipe: Recipe) -> dict[str, list[int]]:
    """Return one training example: input and labels."""
    source = encoded(tokenizer, recipe, source_text(task))
    target = CONDITIONAL_CONTRACT.write(task.question, wanted) if recipe.is_conditional else wanted
    text = target if recipe.kind == "seq2seq" else f" {target}"
    ids = tokenizer(text, add_special_tokens=False, truncation=True, max_length=recipe.max_new_tokens - 1)["input_ids"]
    ids = [*ids, tokenizer.eos_token_id]
    if recipe.kind == "seq2seq":
        return {"input_ids": source, "attention_mask": [1] * len(source), "labels": ids}
    sequence = [*source, *ids]
    return {"input_ids": sequence, "attention_mask": [1] * len(sequence), "labels": [_IGNORED] * len(source) + ids}
