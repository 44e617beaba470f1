from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

from ragtasks.benchmarks import Benchmark
from ragtasks.cli import app
from ragtasks.errors import BenchmarkFileError, ConfigurationError, JudgeError
from ragtasks.metrics import token_f1
from ragtasks.synthesis.encoder_training import train_retriever
from ragtasks.synthesis.qrecc import read_qrecc
from ragtasks.synthesis.rewriter_training import TrainedQueryRewriter, train_rewriter
from ragtasks.synthesis.training import Hyperparameters, _clear_other_training, split_by_dialogue
from retrieval_cache import (
    Recipe,
    Rewriter,
    TrainedRewriter,
    Workspace,
    encoded,
    evaluate_runs,
    retrieve,
    source_text,
    write_recipe,
)
from tests._messages import raises
from tests.synthesis._tiny import (
    benchmark,
    one_thread,
    words_of,
    write_encoder,
    write_gpt2,
    write_mamba,
    write_t5,
)

__all__ = ["benchmark", "one_thread"]
SHORT = Hyperparameters(epochs=2, learning_rate=5e-3)


@pytest.fixture(scope="module")
def trained(benchmark: Benchmark, tmp_path_factory: pytest.TempPathFactory) -> TrainedQueryRewriter:
    folder = tmp_path_factory.mktemp("rewriter")
    base = write_t5(folder / "t5", words_of(benchmark.root))
    return train_rewriter(benchmark, str(base), folder / "made", SHORT)


@pytest.fixture(scope="module")
def rewriter(trained: TrainedQueryRewriter) -> Path:
    return trained.folder


def place(benchmark: Benchmark, tmp_path: Path) -> Workspace:
    return Workspace("custom", str(benchmark.root), tmp_path, tmp_path / "runs")


def test_splits_share_no_dialogue_and_follow_the_seed(benchmark: Benchmark) -> None:
    splits = [split_by_dialogue(benchmark.tasks, seed) for seed in (0, 0, 1)]
    sets = [[{task.conversation_id for task in part} for part in (s.train, s.validation, s.test)] for s in splits]
    assert [len(part) for part in sets[0]] == [8, 2, 2]
    assert len(set.union(*sets[0])) == 12
    assert sets[0] == sets[1] != sets[2]
    with raises(ConfigurationError):
        split_by_dialogue([task for task in benchmark.tasks if task.conversation_id in {"c0", "c1", "c2", "c3"}], 0)


def test_a_rewriter_is_used_by_name(benchmark: Benchmark, rewriter: Path, tmp_path: Path) -> None:
    """Two epochs teach it little: a run of last turns is an error, unless the user requests it."""
    lenient = Rewriter(None, min_rewritten=0.0)
    run = retrieve(place(benchmark, tmp_path), "bm25", f"llm_rewrite:{rewriter}", depth=5, rewriter=lenient)
    assert run.manifest.spec["queries"]["client"]["model"] == "made"
    assert len(run.manifest.spec["queries"]["client"]["sha256"]) == 64
    assert evaluate_runs(place(benchmark, tmp_path), [run.folder.name]).tables
    with pytest.raises(ConfigurationError, match="leave out --rewriter"):
        retrieve(place(benchmark, tmp_path), "bm25", f"llm_rewrite:{rewriter}", depth=5, rewriter=Rewriter("openai/x"))


def test_a_rewriter_is_scored_on_later_turns_of_unseen_dialogues(
    benchmark: Benchmark, trained: TrainedQueryRewriter
) -> None:
    test = [task for task in split_by_dialogue(benchmark.tasks, SHORT.seed).test if task.turn > 1]
    queries = TrainedRewriter(trained.folder).rewrite(test).texts
    wanted = {task.task_id: task.extra.get("rewrite", task.question) for task in test}
    f1 = {name: token_f1(text, wanted[name]) for name, text in queries.items()}
    unchanged = [(queries[task.task_id] == task.question) == (wanted[task.task_id] == task.question) for task in test]
    assert (trained.scores.n, len(test)) == (4, 4)
    # Half of the questions stand alone; of "what does it cost" three of four words are in the standalone question's
    # five.
    assert trained.scores.f1_unchanged == pytest.approx((1 + 2 * (3 / 4) * (3 / 6) / (3 / 4 + 3 / 6)) / 2)
    assert trained.scores.f1 == pytest.approx(sum(f1.values()) / 4)
    assert trained.scores.right_decision == sum(unchanged) / 4
    assert {key: trained.statistics[key] for key in ("train", "validation", "test")} == {
        "train": 8,
        "validation": 2,
        "test": 2,
    }


def test_the_folder_is_complete_and_can_be_moved(benchmark: Benchmark, rewriter: Path, tmp_path: Path) -> None:
    names = {path.name for path in rewriter.iterdir()}
    assert "ragtasks_rewriter.json" in names
    assert not any(name.endswith((".bin", ".pt", ".pth")) for name in names)
    moved = shutil.copytree(rewriter, tmp_path / "made")
    assert TrainedRewriter(moved).describe() == TrainedRewriter(rewriter).describe()
    tasks = benchmark.tasks[:6]
    rewrites = TrainedRewriter(rewriter, batch_size=2).rewrite(tasks)
    assert rewrites.texts == TrainedRewriter(moved).rewrite(tasks).texts
    assert rewrites.n_requests == 4
    assert [rewrites.texts[tasks[position].task_id] for position in (0, 3)] == [tasks[0].question, tasks[3].question]
    assert all(rewrites.texts.values())


def test_the_word_no_rewrite_ends_a_reply(benchmark: Benchmark, rewriter: Path) -> None:
    from ragtasks.benchmarks import NO_REWRITE

    tokenizer, model = TrainedRewriter(rewriter)._loaded
    (token,) = tokenizer(NO_REWRITE, add_special_tokens=False)["input_ids"]
    assert token != tokenizer.unk_token_id
    assert model.get_input_embeddings().num_embeddings >= len(tokenizer)


@pytest.mark.parametrize(("write", "kind"), [(write_t5, "seq2seq"), (write_gpt2, "causal")])
def test_a_query_is_the_models_continuation_of_its_source(
    benchmark: Benchmark, tmp_path: Path, write: Any, kind: Any
) -> None:
    folder = write(tmp_path / "model", words_of(benchmark.root))
    write_recipe(folder, Recipe(kind, is_conditional=False, max_source_tokens=64, max_new_tokens=4))
    rewriter = TrainedRewriter(folder, batch_size=2)
    tokenizer, model = rewriter._loaded
    tasks = [task for task in benchmark.tasks[:3] if task.turn > 1]
    expected = []
    for task in tasks:
        ids = torch.tensor([encoded(tokenizer, rewriter.recipe, source_text(task))])
        written = model.generate(input_ids=ids, max_new_tokens=4, do_sample=False, pad_token_id=0)[0]
        written = written if kind == "seq2seq" else written[ids.shape[1] :]
        expected.append(tokenizer.decode(written, skip_special_tokens=True) or task.question)
    assert list(rewriter.rewrite(tasks).texts.values()) == expected
    assert len({len(source_text(task).split()) for task in tasks}) == 2, "shorter sources of a batch are padded"


@pytest.mark.engine
@pytest.mark.parametrize("write", [write_gpt2, write_mamba])
def test_other_classes_and_the_plain_contract(benchmark: Benchmark, tmp_path: Path, write: Any) -> None:
    base = write(tmp_path / "base", words_of(benchmark.root))
    made = train_rewriter(benchmark, str(base), tmp_path / "made", SHORT, is_conditional=False)
    assert TrainedRewriter(made.folder).recipe == Recipe("causal", False, 512, 64)
    assert made.scores.n == 4
    assert 0 <= made.scores.f1 <= 1
    assert made.scores.f1_unchanged == pytest.approx(0.8, abs=0.1)
    assert made.statistics["epochs"] == 2
    with pytest.raises(ConfigurationError, match="already exists"):
        train_rewriter(benchmark, str(base), tmp_path / "made", SHORT)


def test_a_retriever_is_trained_and_used_by_name(benchmark: Benchmark, tmp_path: Path) -> None:
    base = write_encoder(tmp_path / "base", words_of(benchmark.root))
    made = train_retriever(
        benchmark, str(base), tmp_path / "made", Hyperparameters(epochs=3, batch_size=16, learning_rate=5e-3)
    )
    assert made.scores.keys() == made.scores_before.keys() == {"AP", "R@5", "R@10", "R@20"}
    assert made.scores["AP"] > made.scores_before["AP"]
    run = retrieve(place(benchmark, tmp_path), f"dense:{made.folder}", "context", depth=5)
    assert evaluate_runs(place(benchmark, tmp_path), [run.folder.name]).tables


def test_training_ends_without_improvement(benchmark: Benchmark, tmp_path: Path) -> None:
    base = write_encoder(tmp_path / "base", words_of(benchmark.root))
    patient = Hyperparameters(epochs=6, learning_rate=0.0, patience=1)
    assert train_retriever(benchmark, str(base), tmp_path / "made", patient).statistics["epochs"] == 2


@pytest.mark.engine
def test_training_resumes_from_its_last_complete_checkpoint(benchmark: Benchmark, tmp_path: Path) -> None:
    base = str(write_t5(tmp_path / "t5", words_of(benchmark.root)))

    class Killed(BaseException):
        pass

    def kill(step: str, done: int, total: int | None) -> None:
        if done == 3:
            raise Killed

    fitting = Hyperparameters(epochs=4, learning_rate=5e-3)
    uninterrupted = train_rewriter(benchmark, base, tmp_path / "whole", fitting)
    with pytest.raises(Killed):
        train_rewriter(benchmark, base, tmp_path / "made", fitting, progress=kill)
    work = tmp_path / ".made.training"
    last = max(work.glob("checkpoint-*"), key=lambda path: int(path.name.partition("-")[2]))
    later = shutil.copytree(last, last.with_name("checkpoint-9999"))
    (later / "trainer_state.json").write_text("{", "utf-8")  # as a kill during writing leaves it
    epochs_reported: list[int] = []
    again = train_rewriter(
        benchmark, base, tmp_path / "made", fitting, progress=lambda step, done, total: epochs_reported.append(done)
    )
    assert epochs_reported == [3, 4], "the first two epochs are not run again"
    assert not work.exists()
    assert (again.folder / "model.safetensors").read_bytes() == (
        uninterrupted.folder / "model.safetensors"
    ).read_bytes()


def test_an_invalid_rewriter_is_one_clear_error(benchmark: Benchmark, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=rf"rewriter: {tmp_path}\n(?s:.*)trained rewriter"):
        TrainedRewriter(tmp_path)
    write_recipe(tmp_path, Recipe("seq2seq", True, 64, 16))
    with pytest.raises(ConfigurationError, match="expected: a folder with"):
        TrainedRewriter(tmp_path).rewrite(benchmark.tasks)
    with pytest.raises(ConfigurationError, match=r"--base: model .*none"):
        train_rewriter(benchmark, str(tmp_path / "none"), tmp_path / "made", SHORT)
    base = write_t5(tmp_path / "t5", ["nothing that anybody asked"])
    write_recipe(base, Recipe("seq2seq", True, 64, 4))
    with raises(JudgeError):
        retrieve(place(benchmark, tmp_path), "bm25", f"llm_rewrite:{base}", depth=5)


def qrecc_rows(benchmark: Benchmark) -> list[dict[str, Any]]:
    """Return the dialogues in QReCC's format."""
    return [
        {
            "Conversation_no": int(task.conversation_id[1:]),
            "Turn_no": task.turn,
            "Context": [message.text for message in task.messages[:-1]],
            "Question": task.question,
            "Rewrite": task.extra.get("rewrite", task.question),
            "Answer": task.target,
        }
        for task in benchmark.tasks
    ]


def test_questions_in_qrecc_format_equal_those_of_the_dialogues(benchmark: Benchmark, tmp_path: Path) -> None:
    file = tmp_path / "qrecc_train.json"
    file.write_text(json.dumps(qrecc_rows(benchmark)))
    read = read_qrecc(file)
    assert [task.messages for task in read.tasks] == [task.messages for task in benchmark.tasks]
    assert [task.turn for task in read.tasks] == [task.turn for task in benchmark.tasks]
    assert [task.extra["rewrite"] for task in read.tasks] == [row["Rewrite"] for row in qrecc_rows(benchmark)]
    assert len(split_by_dialogue(read.tasks, 0).train) == len(split_by_dialogue(benchmark.tasks, 0).train)


def test_every_error_of_a_qrecc_file_names_its_row(benchmark: Benchmark, tmp_path: Path) -> None:
    good = qrecc_rows(benchmark)[0]
    rows = [good, good, {**good, "Turn_no": 2, "Rewrite": " "}, "text", {"Question": "Who?"}]
    file = tmp_path / "rows.json"
    file.write_text(json.dumps(rows))
    with pytest.raises(BenchmarkFileError) as caught:
        read_qrecc(file)
    assert all(f"item {number}" in str(caught.value) for number in (3, 4, 5))
    assert "each turn once" in str(caught.value)
    for content in ("", "{}", "[]"):
        file.write_text(content)
        with raises(BenchmarkFileError):
            read_qrecc(file)
    with pytest.raises(BenchmarkFileError, match="readable file"):
        read_qrecc(tmp_path / "none.json")


@pytest.mark.slow
def test_a_rewriter_is_trained_on_a_qrecc_file(benchmark: Benchmark, tmp_path: Path) -> None:
    file = tmp_path / "qrecc_train.json"
    file.write_text(json.dumps(qrecc_rows(benchmark)))
    base = write_t5(tmp_path / "t5", words_of(benchmark.root))
    given = ["--base", str(base), "--output", str(tmp_path / "made"), "--metadata", "epochs=1"]
    made = CliRunner().invoke(app, ["train", "rewriter", str(file), *given])
    assert made.exit_code == 0, made.output
    assert "llm_rewrite:" in made.output
    assert (tmp_path / "made" / "ragtasks_rewriter.json").is_file()


def test_checkpoints_are_used_by_the_same_training_only(tmp_path: Path) -> None:
    work, checkpoint = tmp_path / "work", tmp_path / "work" / "checkpoint-3"
    _clear_other_training(work, "one")
    checkpoint.mkdir()
    _clear_other_training(work, "one")
    assert checkpoint.is_dir()
    _clear_other_training(work, "another")
    assert not checkpoint.exists()
