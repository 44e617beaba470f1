"""What synthetic dialogues train: a light query rewriter and a bi-encoder, by the libraries' own trainers."""

from __future__ import annotations

import hashlib
import json
import logging
import shutil
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

import orjson

from ragtasks.benchmarks import CONDITIONAL_CONTRACT, NO_REWRITE, Benchmark, retrieval_side, rows_benchmark
from ragtasks.benchmarks.custom import REWRITE as OWN_REWRITE
from ragtasks.benchmarks.custom import rewrites_of
from ragtasks.clients import Progress, no_progress
from ragtasks.errors import ConfigurationError
from ragtasks.files import NO_CODE, Problems, Ranked, canonical_hash, loading, parse_json
from ragtasks.metrics import retrieval_metric, score_run, token_f1, without_bars
from ragtasks.records import Answerability, Message, Passage, Qrel, Role, Task, task_id
from ragtasks.requirements import importing
from retrieval_cache import (
    REWRITE,
    DenseRetriever,
    Recipe,
    Retriever,
    TrainedRewriter,
    build_queries,
    encoded,
    load_language_model,
    load_model,
    passage_text,
    read_corpus,
    source_text,
    write_recipe,
)

# What both trainings share: settings, checkpoints that a killed one goes on from, a folder that is whole or absent.

_KEY = "ragtasks_training.json"
_STATE = "trainer_state.json"
_Scores = TypeVar("_Scores")


@dataclass(frozen=True, slots=True)
class Fitting:
    """How long and how fast weights are fitted; the defaults are the rewriter's of the OR-CONVQA paper, appendix D."""

    epochs: int = 100
    """Most passes over the training dialogues."""
    batch_size: int = 8
    learning_rate: float = 1e-4
    """Divided by ten after ten looks at the validation dialogues without a better one."""
    patience: int = 15
    """Looks (one an epoch) without a better one after which training stops."""
    seed: int = 0
    """Decides splits, order and new weights."""

    def arguments(self, folder: Path) -> dict[str, Any]:
        """Return what the libraries' trainers are told."""
        return {
            "output_dir": str(folder),
            "num_train_epochs": self.epochs,
            "per_device_train_batch_size": self.batch_size,
            "per_device_eval_batch_size": self.batch_size,
            "learning_rate": self.learning_rate,
            "lr_scheduler_type": "reduce_lr_on_plateau",
            "lr_scheduler_kwargs": {"factor": 0.1, "patience": 10},
            "eval_strategy": "epoch",
            "save_strategy": "epoch",
            "save_total_limit": 2,
            "load_best_model_at_end": True,
            "metric_for_best_model": "eval_loss",
            "greater_is_better": False,
            "seed": self.seed,
            "data_seed": self.seed,
            "restore_callback_states_from_checkpoint": True,  # how long there was no better one
            "report_to": [],
            "disable_tqdm": True,
            "logging_strategy": "no",
            "dataloader_pin_memory": False,
        }


def needs_new_folder(folder: Path) -> None:
    """Refuse a folder that holds something."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        shutil.rmtree(_work_folder(folder), ignore_errors=True)  # a kill may leave it after the last step
        raise ConfigurationError(f"{folder} is there already: name another folder with --out, or remove it")


def fit(
    make_trainer: Callable[[Path], Any], folder: Path, made_by: Mapping[str, Any], progress: Progress
) -> tuple[Any, dict[str, Any]]:
    """Return a trainer whose model is fitted, and what happened: epochs, best validation loss.

    Checkpoints stand beside `folder`; a killed call with the same `made_by` goes on from the last whole one.
    """
    work = _work_folder(folder)
    _keep_only(work, canonical_hash(made_by))
    trainer = make_trainer(work)
    _show_by(progress, trainer)
    checkpoint = _last_checkpoint(work)
    if checkpoint:
        _end_where_it_ended(trainer, checkpoint)
    trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
    state = trainer.state
    return trainer, {"epochs": round(float(state.epoch or 0), 2), "best_validation_loss": state.best_metric}


def _end_where_it_ended(trainer: Any, checkpoint: Path) -> None:
    """Let a trainer run no further epoch where its checkpoint had stopped early: the best one is loaded as it is."""
    state = json.loads((checkpoint / _STATE).read_bytes())
    stopping = state["stateful_callbacks"]["EarlyStoppingCallback"]
    patience = stopping["args"]["early_stopping_patience"]
    if stopping["attributes"]["early_stopping_patience_counter"] >= patience:
        trainer.args.num_train_epochs = round(state["epoch"])


def _work_folder(folder: Path) -> Path:
    """Return where checkpoints of a training stand until it has ended."""
    return folder.with_name(f".{folder.name}.training")


def publish_model(folder: Path, save: Callable[[Path], None], score: Callable[[Path], _Scores]) -> _Scores:
    """Give a model its folder in one step, remove its checkpoints, and return its scores.

    It is scored before it has its name, so that a killed call never leaves a model whose scores nobody saw.
    """
    part = _work_folder(folder) / folder.name  # results name a model by its folder
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir()
    save(part)
    scores = score(part)
    if folder.is_dir():
        folder.rmdir()
    part.rename(folder)
    shutil.rmtree(_work_folder(folder), ignore_errors=True)
    return scores


def _keep_only(work: Path, key: str) -> None:
    """Empty a folder of checkpoints that another training left."""
    try:
        is_ours = json.loads((work / _KEY).read_bytes())["key"] == key
    except (OSError, ValueError, LookupError):
        is_ours = False
    if not is_ours:
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir(parents=True)
        (work / _KEY).write_bytes(orjson.dumps({"key": key}))


def _last_checkpoint(work: Path) -> Path | None:
    """Return the last checkpoint that is whole; those that a kill left in pieces go."""
    found = sorted(work.glob("checkpoint-*"), key=lambda path: int(path.name.rpartition("-")[2]), reverse=True)
    for path in found:
        try:
            json.loads((path / _STATE).read_bytes())
        except (OSError, ValueError):
            shutil.rmtree(path)
        else:
            return path
    return None


def _show_by(progress: Progress, trainer: Any) -> None:
    """Let a trainer tell our progress in the place of its own prints."""
    from transformers import PrinterCallback, TrainerCallback

    class EpochProgress(TrainerCallback):  # type: ignore[misc]
        """Tells progress after every epoch."""

        def on_epoch_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            progress("training\tepochs", round(state.epoch or 0), int(args.num_train_epochs))

    trainer.remove_callback(PrinterCallback)
    trainer.add_callback(EpochProgress())


# A light query rewriter, trained on dialogues whose questions are there in both forms.
# T5 and its like, or GPT-2, Mamba and theirs: the model's own configuration says which. With the conditional
# contract the first word of a reply says whether the question needs rewriting (OR-CONVQA paper, sections 4.3 and
# 4.7).

MAX_SOURCE_TOKENS, MAX_NEW_TOKENS = 512, 64
_IGNORED = -100  # what the loss leaves out


@dataclass(frozen=True, slots=True)
class RewriterScores:
    """How a rewriter does on dialogues that it never saw; first turns are left out, since nobody rewrites them."""

    n: int
    f1: float
    """Mean token F1 of its queries with the standalone questions, 0 to 1."""
    f1_unchanged: float
    """The same of the questions as they were asked."""
    right_decision: float
    """Share of questions that it leaves alone or changes as it should, 0 to 1."""
    seconds_a_question: float
    """Mean time of one question, asked alone."""


@dataclass(frozen=True, slots=True)
class TrainedOne:
    """A trained model."""

    folder: Path
    statistics: dict[str, Any]
    """Dialogues of each set, epochs, best validation loss."""
    scores: RewriterScores
    """On the test dialogues."""


def train_rewriter(
    benchmark: Benchmark,
    base: str,
    folder: Path,
    fitting: Fitting,
    *,
    is_conditional: bool = True,
    progress: Progress = no_progress,
) -> TrainedOne:
    """Train a rewriter on a benchmark's rewritten questions; a killed call goes on from its last checkpoint."""
    needs_new_folder(folder)
    own = rewrites_of(benchmark.tasks)
    gold = {task.task_id: own.get(task.task_id, task.question) for task in benchmark.tasks}
    gold = gold if own else dict(build_queries(benchmark, "rewrite").texts)
    later_turns = [task for task in benchmark.tasks if len(task.messages) > 1]
    if not any(gold[task.task_id] != task.question for task in later_turns):
        raise ConfigurationError(f"{benchmark.label}: no question has a standalone form that differs from it")
    split = split_by_dialogue(later_turns, fitting.seed)
    recipe = Recipe(_kind(base), is_conditional, MAX_SOURCE_TOKENS, MAX_NEW_TOKENS)
    data = _checksum((task.task_id, source_text(task), gold[task.task_id]) for task in later_turns)
    made_by = {"fitting": asdict(fitting), "recipe": asdict(recipe), "base": base, "data": data}

    def make_trainer(work: Path) -> Any:
        sets = (split.train, split.validation)
        return _trainer(base, recipe, fitting, work, [[(task, gold[task.task_id]) for task in part] for part in sets])

    with without_bars():
        trainer, happened = fit(make_trainer, folder, made_by, progress)

    def save(part: Path) -> None:
        trainer.save_model(str(part))
        trainer.processing_class.save_pretrained(str(part))
        (part / "training_args.bin").unlink(missing_ok=True)  # a pickle of paths on this machine
        write_recipe(part, recipe)

    with without_bars():
        scores = publish_model(folder, save, lambda part: score_rewriter(TrainedRewriter(part), split.test, gold))
    return TrainedOne(folder, {**split.sizes, **happened}, scores)


def score_rewriter(rewriter: TrainedRewriter, tasks: Sequence[Task], gold: Any) -> RewriterScores:
    """Return how a rewriter does on later turns, of which there is one at least."""
    rewriter.generate([source_text(tasks[0])])  # weights are read, and what is slow once is done
    begin = time.perf_counter()
    for task in tasks:
        rewriter.generate([source_text(task)])
    seconds = (time.perf_counter() - begin) / len(tasks)
    queries = rewriter.rewrite(tasks).queries().texts
    rows = [(queries[task.task_id], task.question, gold[task.task_id]) for task in tasks]
    return RewriterScores(
        len(rows),
        sum(token_f1(query, wanted) for query, _, wanted in rows) / len(rows),
        sum(token_f1(question, wanted) for _, question, wanted in rows) / len(rows),
        sum((query == question) == (wanted == question) for query, question, wanted in rows) / len(rows),
        seconds,
    )


def _kind(base: str) -> Any:
    with importing("transformers", "train", "training a rewriter"):
        from transformers import AutoConfig
    next_step = "check the name; without a network, name a folder"
    with loading("--base", base, expected="a language model", next_step=next_step):
        config = AutoConfig.from_pretrained(base, **NO_CODE)
    return "seq2seq" if config.is_encoder_decoder else "causal"


def _checksum(rows: Iterable[tuple[str, ...]]) -> str:
    """Return the hash of texts: what a model is trained on decides whether a killed training may go on."""
    digest = hashlib.sha256()
    for row in rows:
        digest.update("".join(f"{text}\0" for text in row).encode())
    return digest.hexdigest()


def _trainer(
    base: str, recipe: Recipe, fitting: Fitting, work: Path, sets: Sequence[Sequence[tuple[Task, str]]]
) -> Any:
    with importing("transformers with accelerate", "train", "training a rewriter"):
        import accelerate  # noqa: F401  the trainer's own error names no extra of ours
        from datasets import Dataset
        from transformers import DataCollatorForSeq2Seq, EarlyStoppingCallback, Trainer, TrainingArguments, set_seed
    set_seed(fitting.seed)  # tokens that are added have new weights
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
    """Make room for added tokens; the library explains at length how their weights begin."""
    logger = logging.getLogger("transformers.modeling_utils")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        model.resize_token_embeddings(n_tokens)
    finally:
        logger.setLevel(before)


def _example(task: Task, wanted: str, tokenizer: Any, recipe: Recipe) -> dict[str, list[int]]:
    """Return one example: what is read, and what is to be written."""
    source = encoded(tokenizer, recipe, source_text(task))
    target = CONDITIONAL_CONTRACT.write(task.question, wanted) if recipe.is_conditional else wanted
    text = target if recipe.kind == "seq2seq" else f" {target}"
    ids = tokenizer(text, add_special_tokens=False, truncation=True, max_length=recipe.max_new_tokens - 1)["input_ids"]
    ids = [*ids, tokenizer.eos_token_id]
    if recipe.kind == "seq2seq":
        return {"input_ids": source, "attention_mask": [1] * len(source), "labels": ids}
    whole = [*source, *ids]
    return {"input_ids": whole, "attention_mask": [1] * len(whole), "labels": [_IGNORED] * len(source) + ids}


# A bi-encoder that finds what a question in its conversation rests on, trained on dialogues with references.
# The question goes in with its history as a query form says (`context`: the previous question and answer before
# it), so that at search the same form is named: `--retriever dense:FOLDER --queries context`.
# Source: OR-CONVQA paper, sections 3.3 and 4.3, appendix D.

FORM = "context"
"""The query form of the paper's retriever."""
MEASURES = ("AP", "R@5", "R@10", "R@20")
"""Those of the paper, in the notation of ir-measures."""
RETRIEVER_FITTING = Fitting(batch_size=16, learning_rate=1e-5)
"""The paper's settings for the retriever."""


@dataclass(frozen=True, slots=True)
class TrainedRetriever:
    """A trained bi-encoder."""

    folder: Path
    statistics: dict[str, Any]
    """Dialogues of each set, epochs, best validation loss."""
    scores: Mapping[str, float]
    """On the test dialogues: measure -> mean."""
    scores_before: Mapping[str, float]
    """The same of the model that it was trained from."""


def train_retriever(
    benchmark: Benchmark,
    base: str,
    folder: Path,
    fitting: Fitting = RETRIEVER_FITTING,
    *,
    form: str = FORM,
    progress: Progress = no_progress,
) -> TrainedRetriever:
    """Train a bi-encoder on a benchmark's questions and relevant passages; a killed call goes on."""
    needs_new_folder(folder)
    queries = build_queries(benchmark, form).texts
    qrels = relevant(benchmark)
    split = split_by_dialogue([task for task in benchmark.tasks if task.task_id in qrels], fitting.seed)
    texts = {item.passage_id: passage_text(item) for item in _passages(benchmark, split.train + split.validation)}
    pairs = [_pairs(tasks, queries, qrels, texts) for tasks in (split.train, split.validation)]
    data = _checksum((pair["anchor"], pair["positive"]) for part in pairs for pair in part)
    made_by = {"fitting": asdict(fitting), "base": base, "form": form, "data": data}

    def make_trainer(work: Path) -> Any:
        return _retriever_trainer(base, fitting, work, pairs)

    def compare(part: Path) -> list[dict[str, float]]:
        models = (DenseRetriever(name) for name in (base, str(part)))
        return [score_retriever(benchmark, split.test, model, queries, progress) for model in models]

    with without_bars():
        trainer, happened = fit(make_trainer, folder, made_by, progress)
        before, after = publish_model(
            folder, lambda part: trainer.model.save_pretrained(str(part), create_model_card=False), compare
        )
    return TrainedRetriever(folder, {**split.sizes, **happened}, after, before)


def relevant(benchmark: Benchmark) -> dict[str, list[str]]:
    """Return task id -> ids of what is relevant to it, for the tasks that have something."""
    side = retrieval_side(benchmark.name)
    found: dict[str, list[str]] = {}
    for domain in side.domains_of(benchmark.tasks):
        for qrel in side.load_qrels(benchmark.root, domain):
            if qrel.relevance > 0:
                found.setdefault(qrel.query_id, []).append(qrel.passage_id)
    return found


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
    return [item for domain in domains for item in read_corpus(str(side.corpus_file(benchmark.root, domain)))]


def _pairs(
    tasks: Sequence[Task], queries: Mapping[str, str], qrels: Mapping[str, list[str]], texts: Mapping[str, str]
) -> list[dict[str, str]]:
    return [
        {"anchor": queries[task.task_id], "positive": texts[name]} for task in tasks for name in qrels[task.task_id]
    ]


def _retriever_trainer(base: str, fitting: Fitting, work: Path, pairs: Sequence[list[dict[str, str]]]) -> Any:
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
    # Two passages of one question must not be each other's negatives.
    arguments = {**fitting.arguments(work), "batch_sampler": BatchSamplers.NO_DUPLICATES}
    return SentenceTransformerTrainer(
        model=model,
        args=SentenceTransformerTrainingArguments(**arguments),
        train_dataset=Dataset.from_list(pairs[0]),
        eval_dataset=Dataset.from_list(pairs[1]),
        loss=MultipleNegativesRankingLoss(model),
        callbacks=[EarlyStoppingCallback(early_stopping_patience=fitting.patience)],
    )


# Dialogues for training, validation and test: whole ones, by a seed and nothing else.

TEST_SHARE = 0.2
"""Of all dialogues: what trained models are measured on."""
VALIDATION_SHARE = 0.25
"""Of the others: what training stops by (OR-CONVQA paper, appendix D)."""

_LEAST_DIALOGUES = 5


@dataclass(frozen=True)
class TaskSplit:
    """The tasks of three sets of dialogues."""

    train: tuple[Task, ...]
    validation: tuple[Task, ...]
    test: tuple[Task, ...]
    """What the result is measured on; training never sees them."""

    @property
    def sizes(self) -> dict[str, int]:
        """Name of each set -> its dialogues."""
        return {item.name: len({task.conversation_id for task in getattr(self, item.name)}) for item in fields(self)}


def split_by_dialogue(tasks: Sequence[Task], seed: int) -> TaskSplit:
    """Return tasks in three sets that share no dialogue, each with one at least."""
    names = list(dict.fromkeys(task.conversation_id for task in tasks))
    if len(names) < _LEAST_DIALOGUES:
        raise ConfigurationError(
            f"training needs at least {_LEAST_DIALOGUES} dialogues, found {len(names)}: synthesize more"
        )
    shuffled = sorted(names, key=lambda name: hashlib.sha256(f"{seed} {name}".encode()).digest())
    n_test = max(1, round(TEST_SHARE * len(names)))
    n_validation = max(1, round(VALIDATION_SHARE * (len(names) - n_test)))
    test, validation = set(shuffled[:n_test]), set(shuffled[n_test : n_test + n_validation])
    return TaskSplit(
        tuple(task for task in tasks if task.conversation_id not in test | validation),
        tuple(task for task in tasks if task.conversation_id in validation),
        tuple(task for task in tasks if task.conversation_id in test),
    )


# Rewritten questions in the form of QReCC (Anantha et al. 2021): one JSON list of turns, each with its conversation.

_QRECC_KEYS = ("Conversation_no", "Turn_no", "Context", "Question", "Rewrite")
_QRECC_STEP = (
    "fix these rows; the form is that of qrecc_train.json: Conversation_no, Turn_no, Question, Rewrite, and Context, a "
    "list of texts, question and reply in turn"
)


def read_qrecc(file: Path) -> Benchmark:
    """Return the questions of a file in the form of QReCC, each with its rewrite; errors are named by row, from 1."""
    problems = Problems(file, "rewritten questions", _QRECC_STEP)
    try:
        rows = parse_json(file.read_bytes())
    except OSError as error:
        raise problems.unreadable(error) from error
    except ValueError:
        rows = None
    if not isinstance(rows, list) or not rows:
        problems.add(0, "a JSON list of turns", type(rows).__name__ if rows is not None else "no JSON")
        problems.raise_if_any()
    tasks: dict[str, Task] = {}
    for number, row in enumerate(rows, start=1):
        task = _qrecc_task(number, row, problems)
        if task is not None and tasks.setdefault(task.task_id, task) is not task:
            problems.add(number, "each turn once", f"{task.task_id} again")
    problems.raise_if_any()
    return rows_benchmark(tasks.values())


def _qrecc_task(number: int, row: Any, problems: Problems) -> Task | None:
    """Return the task of a row, None after noting what is wrong with it."""
    missing = [key for key in _QRECC_KEYS if not isinstance(row, dict) or key not in row]
    if missing:
        problems.add(number, f"an object with {', '.join(_QRECC_KEYS)}", f"no {', '.join(missing)}")
        return None
    context, question, rewrite = (row[key] for key in ("Context", "Question", "Rewrite"))
    texts = [*context, question, rewrite] if isinstance(context, list) else [None]
    if not all(isinstance(text, str) for text in texts) or not question.strip() or not rewrite.strip():
        problems.add(number, "texts as Question and Rewrite, and a list of texts as Context", texts)
        return None
    roles = (Role.USER if place % 2 == 0 else Role.ASSISTANT for place in range(len(context)))
    history = tuple(Message(role, text) for role, text in zip(roles, context, strict=True))
    name = str(row["Conversation_no"])
    answer = row.get("Answer")
    return Task(
        task_id=task_id(name, int(row["Turn_no"])) if str(row["Turn_no"]).isdecimal() else f"{name} row {number}",
        conversation_id=name,
        turn=len(history) // 2 + 1,
        domain="qrecc",
        messages=(*history, Message(Role.USER, question)),
        target=answer if isinstance(answer, str) else "",
        answerability=Answerability.ANSWERABLE,
        multi_turn="Follow-up" if history else "N/A",
        extra={OWN_REWRITE: " ".join(rewrite.split())},
    )
