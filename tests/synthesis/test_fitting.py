"""Training: arguments and inputs of trainers, resumption after a kill, and the published folder."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ragtasks.benchmarks import NO_REWRITE, Benchmark, benchmark_folder, open_benchmark
from ragtasks.errors import BenchmarkFileError, ConfigurationError
from ragtasks.records import Answerability, Role, Task
from ragtasks.synthesis.encoder_training import (
    RETRIEVER_FITTING,
    _retriever_trainer,
    relevant,
    score_retriever,
    train_retriever,
)
from ragtasks.synthesis.qrecc import read_qrecc
from ragtasks.synthesis.rewriter_training import _example, _trainer, train_rewriter
from ragtasks.synthesis.training import (
    Hyperparameters,
    _keep_early_stop,
    _last_checkpoint,
    publish_model,
    require_new_folder,
    split_by_dialogue,
)
from retrieval_cache import REWRITE, DenseRetriever, Recipe, build_queries, encoded, source_text
from tests._messages import raises
from tests.synthesis._tiny import (
    benchmark,
    one_thread,
    tokenizer_of,
    words_of,
    write_dialogues,
    write_encoder,
    write_gpt2,
    write_t5,
)

__all__ = ["benchmark", "one_thread"]
SHORT = Hyperparameters(epochs=2, learning_rate=5e-3)


@pytest.fixture(scope="module")
def t5(benchmark: Benchmark, tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(write_t5(tmp_path_factory.mktemp("t5") / "base", words_of(benchmark.root)))


@pytest.fixture(scope="module")
def encoder(benchmark: Benchmark, tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(write_encoder(tmp_path_factory.mktemp("encoder") / "base", words_of(benchmark.root)))


def test_default_settings_are_those_of_the_paper() -> None:
    assert Hyperparameters() == Hyperparameters(epochs=100, batch_size=8, learning_rate=1e-4, patience=15, seed=0)
    assert Hyperparameters(batch_size=16, learning_rate=1e-5) == RETRIEVER_FITTING


def test_trainers_keep_the_best_epoch_and_send_no_reports() -> None:
    arguments = Hyperparameters(3, 4, 0.5, 6, 7).arguments(Path("work"))
    assert (arguments["output_dir"], arguments["num_train_epochs"], arguments["learning_rate"]) == ("work", 3, 0.5)
    assert arguments["per_device_train_batch_size"] == arguments["per_device_eval_batch_size"] == 4
    assert arguments["seed"] == arguments["data_seed"] == 7
    assert arguments["load_best_model_at_end"]
    assert (arguments["metric_for_best_model"], arguments["greater_is_better"]) == ("eval_loss", False)
    assert arguments["eval_strategy"] == arguments["save_strategy"] == "epoch", "every saved model is evaluated"
    assert arguments["save_total_limit"] == 2, "the best and the last"
    assert arguments["lr_scheduler_type"] == "reduce_lr_on_plateau"
    assert arguments["lr_scheduler_kwargs"] == {"factor": 0.1, "patience": 10}
    assert arguments["restore_callback_states_from_checkpoint"], (
        "a resumed training keeps its count of evaluations without improvement"
    )
    assert arguments["report_to"] == []


def test_a_folder_with_contents_is_an_error_and_its_checkpoints_are_removed(tmp_path: Path) -> None:
    out, work = tmp_path / "out", tmp_path / ".out.training"
    work.mkdir()
    require_new_folder(out)
    out.mkdir()
    require_new_folder(out)
    assert work.is_dir(), "an empty folder is allowed"
    (out / "a").touch()
    with raises(ConfigurationError):
        require_new_folder(out)
    assert not work.exists()
    with pytest.raises(ConfigurationError, match="already exists"):
        require_new_folder(out / "a")


def test_the_last_complete_checkpoint_has_the_highest_number(tmp_path: Path) -> None:
    assert _last_checkpoint(tmp_path) is None
    for number, state in {2: "{}", 9: "{}", 10: "{}", 11: "{", 12: None}.items():
        (tmp_path / f"checkpoint-{number}").mkdir()
        if state is not None:
            (tmp_path / f"checkpoint-{number}" / "trainer_state.json").write_text(state)
    assert _last_checkpoint(tmp_path) == tmp_path / "checkpoint-10"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["checkpoint-10", "checkpoint-2", "checkpoint-9"]


@pytest.mark.parametrize(("looks", "expected"), [(1, 100), (2, 7), (3, 7)])
def test_a_training_that_stopped_early_runs_no_further_epoch(tmp_path: Path, looks: int, expected: int) -> None:
    from types import SimpleNamespace

    stopping = {"args": {"early_stopping_patience": 2}, "attributes": {"early_stopping_patience_counter": looks}}
    state = {"epoch": 6.999, "stateful_callbacks": {"EarlyStoppingCallback": stopping}}
    (tmp_path / "trainer_state.json").write_text(json.dumps(state))
    trainer = SimpleNamespace(args=SimpleNamespace(num_train_epochs=100))
    _keep_early_stop(trainer, tmp_path)
    assert trainer.args.num_train_epochs == expected


class Killed(BaseException):
    """Raised in place of a signal that ends the process."""


@pytest.mark.slow
def test_a_killed_training_resumes_from_its_last_epoch(benchmark: Benchmark, t5: str, tmp_path: Path) -> None:
    def kill(what: str, done: int, total: int | None) -> None:
        if done == 2:
            raise Killed

    with pytest.raises(Killed):
        train_rewriter(benchmark, t5, tmp_path / "made", SHORT, progress=kill)
    assert not (tmp_path / "made").exists()
    reported: list[tuple[str, int, int | None]] = []
    made = train_rewriter(benchmark, t5, tmp_path / "made", SHORT, progress=lambda *step: reported.append(step))
    assert reported == [("training\tepochs", 2, 2)], "the first epoch is not run again"
    assert made.statistics["epochs"] == 2
    assert made.statistics["best_validation_loss"] > 0
    assert [path.name for path in tmp_path.iterdir()] == ["made"]


@pytest.mark.slow
def test_a_training_killed_after_its_end_is_only_scored(benchmark: Benchmark, encoder: str, tmp_path: Path) -> None:
    fitting = Hyperparameters(epochs=6, learning_rate=0.0, patience=1)
    epochs: list[int] = []

    def kill(step: str, done: int, total: int | None) -> None:
        if not step.startswith("training"):
            raise Killed
        epochs.append(done)

    with pytest.raises(Killed):
        train_retriever(benchmark, encoder, tmp_path / "made", fitting, progress=kill)
    assert epochs == [1, 2]
    again: list[str] = []
    made = train_retriever(
        benchmark, encoder, tmp_path / "made", fitting, progress=lambda step, done, total: again.append(step)
    )
    assert not any(step.startswith("training") for step in again)
    assert made.statistics["epochs"] == 2
    assert made.scores == made.scores_before, "a learning rate of almost 0 changes no score"
    assert made.folder == tmp_path / "made"
    assert [path.name for path in tmp_path.iterdir()] == ["made"]


def test_a_model_is_renamed_only_after_scoring(tmp_path: Path) -> None:
    out = tmp_path / "made"
    (tmp_path / ".made.training").mkdir()
    out.mkdir()

    def save(part: Path) -> None:
        (part / "weights").write_text("w")

    def fails(part: Path) -> None:
        raise Killed

    with pytest.raises(Killed):
        publish_model(out, save, fails)
    assert list(out.iterdir()) == []
    (tmp_path / ".made.training" / "made" / "left").touch()

    def score(part: Path) -> str:
        assert list(out.iterdir()) == []
        return f"{part.name}: {sorted(path.name for path in part.iterdir())}"

    assert publish_model(out, save, score) == "made: ['weights']"
    assert [path.name for path in tmp_path.iterdir()] == ["made"]
    assert (out / "weights").read_text() == "w"


def later(benchmark: Benchmark) -> Task:
    """Return a question that depends on the previous question."""
    task = next(task for task in benchmark.tasks if task.turn == 2)
    assert task.question == "what does it cost"
    return task


@pytest.mark.parametrize("is_conditional", [True, False])
def test_an_encoder_decoder_example_has_a_source_and_labels(benchmark: Benchmark, is_conditional: bool) -> None:
    tokenizer, task = tokenizer_of(words_of(benchmark.root)), later(benchmark)
    tokenizer.add_tokens([NO_REWRITE, REWRITE])
    recipe = Recipe("seq2seq", is_conditional, 64, 16)
    result = _example(task, "what does the mill of arden cost", tokenizer, recipe)
    source = encoded(tokenizer, recipe, source_text(task))
    assert result.keys() == {"input_ids", "attention_mask", "labels"}
    assert (result["input_ids"], result["attention_mask"]) == (source, [1] * len(source))
    first = [REWRITE] if is_conditional else []
    wanted = [*first, "what", "does", "the", "mill", "of", "arden", "cost", "</s>"]
    assert tokenizer.convert_ids_to_tokens(result["labels"]) == wanted


def test_a_standalone_question_is_to_be_left_unchanged(benchmark: Benchmark) -> None:
    tokenizer, task = tokenizer_of(words_of(benchmark.root)), later(benchmark)
    tokenizer.add_tokens([NO_REWRITE, REWRITE])
    result = _example(task, task.question, tokenizer, Recipe("seq2seq", True, 64, 16))
    assert tokenizer.convert_ids_to_tokens(result["labels"])[0] == NO_REWRITE
    plain = _example(task, task.question, tokenizer, Recipe("seq2seq", False, 64, 16))
    assert tokenizer.convert_ids_to_tokens(plain["labels"]) == ["what", "does", "it", "cost", "</s>"]


def test_a_causal_model_learns_the_continuation_but_not_the_source(benchmark: Benchmark) -> None:
    tokenizer, task = tokenizer_of(words_of(benchmark.root)), later(benchmark)
    recipe = Recipe("causal", False, 64, 16)
    result = _example(task, "when is it open", tokenizer, recipe)
    source = encoded(tokenizer, recipe, source_text(task))
    target = tokenizer.convert_tokens_to_ids(["when", "is", "it", "open", "</s>"])
    assert result == {
        "input_ids": [*source, *target],
        "attention_mask": [1] * (len(source) + 5),
        "labels": [-100] * len(source) + target,
    }


@pytest.mark.parametrize("architecture", ["seq2seq", "causal"])
def test_labels_are_truncated_and_keep_the_end_token(benchmark: Benchmark, architecture: Any) -> None:
    tokenizer, task = tokenizer_of(words_of(benchmark.root)), later(benchmark)
    result = _example(task, "when is the mill of arden open", tokenizer, Recipe(architecture, False, 64, 4))
    labels = [label for label in result["labels"] if label != -100]
    assert tokenizer.convert_ids_to_tokens(labels) == ["when", "is", "the", "</s>"]


@pytest.mark.parametrize(("is_conditional", "n_added"), [(True, 2), (False, 0)])
def test_only_the_conditional_contract_adds_tokens(
    benchmark: Benchmark, t5: str, tmp_path: Path, is_conditional: bool, n_added: int
) -> None:
    recipe = Recipe("seq2seq", is_conditional, 512, 64)
    task = later(benchmark)
    sets = [[(task, "a"), (task, "when")], [(task, "what")]]
    trainer = _trainer(t5, recipe, SHORT, tmp_path, sets)
    before = len(tokenizer_of(words_of(benchmark.root)))
    assert len(trainer.processing_class) == before + n_added
    assert trainer.model.get_input_embeddings().num_embeddings >= before + n_added
    assert (len(trainer.train_dataset), len(trainer.eval_dataset)) == (2, 1)
    assert trainer.data_collator.label_pad_token_id == -100
    assert trainer.args.output_dir == str(tmp_path)


def test_a_model_without_a_padding_token_pads_with_its_end_token(benchmark: Benchmark, tmp_path: Path) -> None:
    from transformers import AutoTokenizer

    base = write_gpt2(tmp_path / "gpt2", words_of(benchmark.root))
    tokenizer: Any = AutoTokenizer.from_pretrained(base)
    tokenizer.pad_token = None
    tokenizer.save_pretrained(str(base))
    pair = [(later(benchmark), "a")]
    trainer = _trainer(str(base), Recipe("causal", False, 64, 16), SHORT, tmp_path / "work", [pair, pair])
    assert trainer.processing_class.pad_token == "</s>"


def test_a_rewriter_learns_published_rewrites_if_the_benchmark_has_none(tmp_path: Path) -> None:
    mtrag = open_benchmark("mtrag", benchmark_folder("mtrag", "sample", Path()).resolve())
    published = build_queries(mtrag, "rewrite").texts
    with pytest.raises(ConfigurationError, match=r"--base: model .*none"):
        train_rewriter(mtrag, str(tmp_path / "none"), tmp_path / "made", SHORT)
    same = replace(mtrag, tasks=tuple(task for task in mtrag.tasks if published[task.task_id] == task.question))
    with raises(ConfigurationError):
        train_rewriter(same, str(tmp_path / "none"), tmp_path / "made", SHORT)


def test_first_questions_are_ignored_even_if_rewritten(benchmark: Benchmark, tmp_path: Path) -> None:
    tasks = [replace(task, extra={"rewrite": "another question"} if task.turn == 1 else {}) for task in benchmark.tasks]
    with raises(ConfigurationError):
        train_rewriter(replace(benchmark, tasks=tuple(tasks)), str(tmp_path), tmp_path / "made", SHORT)


def test_a_retriever_trains_on_training_pairs_and_stops_by_validation_pairs(encoder: str, tmp_path: Path) -> None:
    pairs = [[{"anchor": "a", "positive": "b"}, {"anchor": "c", "positive": "d"}], [{"anchor": "e", "positive": "f"}]]
    trainer = _retriever_trainer(encoder, Hyperparameters(batch_size=2, patience=4), tmp_path, pairs)
    assert list(trainer.train_dataset) == pairs[0]
    assert list(trainer.eval_dataset) == pairs[1]
    assert type(trainer.loss).__name__ == "MultipleNegativesRankingLoss"
    assert trainer.args.batch_sampler == "no_duplicates"
    (stopping,) = [
        callback for callback in trainer.callback_handler.callbacks if "EarlyStopping" in type(callback).__name__
    ]
    assert stopping.early_stopping_patience == 4


@pytest.mark.parametrize("pairs", [[[], [{"anchor": "a", "positive": "b"}]], [[{"anchor": "a", "positive": "b"}], []]])
def test_a_retriever_needs_judged_questions_in_both_sets(tmp_path: Path, pairs: Sequence[list[dict[str, str]]]) -> None:
    with raises(ConfigurationError):
        _retriever_trainer("minilm", SHORT, tmp_path, pairs)


def test_relevant_passages_are_judged_above_zero(tmp_path: Path) -> None:
    folder = write_dialogues(tmp_path / "b", 1)
    (folder / "qrels.tsv").write_text("c0<::>1\t0\t0-open\t1\nc0<::>1\t0\t0-cost\t0\nc0<::>1\t0\t0-age\t2\n")
    assert relevant(open_benchmark("custom", folder)) == {"c0<::>1": ["0-open", "0-age"]}


def test_a_retriever_is_scored_in_the_corpus_of_each_questions_domain(encoder: str, tmp_path: Path) -> None:
    folder = write_dialogues(tmp_path / "b", 2)
    for name, key in (("conversations.jsonl", "conversation_id"), ("passages.jsonl", "_id")):
        rows = [json.loads(line) for line in (folder / name).read_text("utf-8").splitlines()]
        made = [{**row, "domain": "odd" if "1" in row[key] else "even"} for row in rows]
        (folder / name).write_text("".join(json.dumps(row) + "\n" for row in made), "utf-8")
    benchmark = open_benchmark("custom", folder)
    text_of = {passage.passage_id: passage.text for task in benchmark.tasks for passage in task.references}
    queries = {task.task_id: text_of[task.references[0].passage_id] for task in benchmark.tasks}
    steps: list[str] = []
    result = score_retriever(
        benchmark, benchmark.tasks, DenseRetriever(encoder), queries, lambda step, done, total: steps.append(step)
    )
    assert result == dict.fromkeys(("AP", "R@5", "R@10", "R@20"), 1.0), "each passage is closest to its own text"
    assert steps
    wrong = dict.fromkeys(queries, text_of["0-open"])
    assert 0 < score_retriever(benchmark, benchmark.tasks, DenseRetriever(encoder), wrong)["AP"] < 1


@pytest.mark.parametrize(
    ("n", "sizes"), [(5, (3, 1, 1)), (6, (4, 1, 1)), (10, (6, 2, 2)), (13, (8, 2, 3)), (20, (12, 4, 4))]
)
def test_splits_have_a_fifth_for_test_and_a_quarter_of_the_rest_for_validation(
    tmp_path: Path, n: int, sizes: tuple[int, int, int]
) -> None:
    tasks = open_benchmark("custom", write_dialogues(tmp_path / "b", n)).tasks
    split = split_by_dialogue(tasks, 0)
    assert tuple(split.sizes.values()) == sizes
    assert list(split.sizes) == ["train", "validation", "test"]
    assert [len(part) for part in (split.train, split.validation, split.test)] == [3 * size for size in sizes]


def test_a_split_depends_on_names_and_seed_only(benchmark: Benchmark) -> None:
    first, second = (
        {task.task_id for task in split_by_dialogue(tasks, 0).test}
        for tasks in (benchmark.tasks, benchmark.tasks[::-1])
    )
    assert first == second


ROW: dict[str, Any] = {
    "Conversation_no": 7,
    "Turn_no": 2,
    "Context": ["Who?", "Ann."],
    "Question": "When?",
    "Rewrite": " When did\nAnn? ",
    "Answer": "Then.",
}


def of_rows(folder: Path, *rows: Any) -> tuple[Task, ...]:
    (folder / "rows.json").write_text(json.dumps(rows), "utf-8")
    return read_qrecc(folder / "rows.json").tasks


def test_a_row_of_qrecc_is_a_question_in_its_conversation(tmp_path: Path) -> None:
    (task,) = of_rows(tmp_path, ROW)
    assert (task.task_id, task.conversation_id, task.turn, task.domain) == ("7<::>2", "7", 2, "qrecc")
    assert [(message.role, message.text) for message in task.messages] == [
        (Role.USER, "Who?"),
        (Role.ASSISTANT, "Ann."),
        (Role.USER, "When?"),
    ]
    assert (task.target, task.answerability, task.multi_turn) == ("Then.", Answerability.ANSWERABLE, "Follow-up")
    assert task.extra == {"rewrite": "When did Ann?"}


def test_a_row_may_lack_history_answer_and_number(tmp_path: Path) -> None:
    bare = {**ROW, "Turn_no": "x", "Context": [], "Answer": None}
    (task,) = of_rows(tmp_path, bare)
    assert (task.task_id, task.turn, task.multi_turn, task.target) == ("7 row 1", 1, "N/A", "")
    del bare["Answer"]
    assert of_rows(tmp_path, bare)[0].target == ""


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (
            {key: value for key, value in ROW.items() if key not in {"Turn_no", "Rewrite"}},
            "`Turn_no`",
        ),
        ({**ROW, "Context": "Who?"}, "`Context`"),
        ({**ROW, "Context": ["Who?", None]}, "`Context[1]`"),
        ({**ROW, "Question": 3}, "`Question`"),
        ({**ROW, "Question": " "}, "`Question`"),
        ({**ROW, "Rewrite": " "}, "`Rewrite`"),
    ],
)
def test_an_invalid_row_is_named(tmp_path: Path, row: dict[str, Any], message: str) -> None:
    with pytest.raises(BenchmarkFileError) as caught:
        of_rows(tmp_path, row)
    first, second, *_ = str(caught.value).splitlines()
    assert first.startswith(f"rewritten questions: {tmp_path / 'rows.json'}")
    assert "item 1" in second
    assert message in second


def test_a_repeated_turn_is_named(tmp_path: Path) -> None:
    with raises(BenchmarkFileError):
        of_rows(tmp_path, ROW, ROW)
