"""Value of synthesis: retrieval over released propositions, and gains of small models from training.

    python perf/synthesis.py propositions DATA     # DATA: MultiDoc2Dial's pieces with propositions.json
    python perf/synthesis.py training [--seeds 0 1 2] [--dialogues 60]
    python perf/synthesis.py encoder [--seeds 0 1 2] [--dialogues 60] [--base minilm]

`propositions`: the setup of the OR-CONVQA paper (section 4.1) on its 14,443 released propositions. Neither its
dialogues nor the propositions behind each answer were released. Questions are therefore those of real dialogues whose
documents are available. A proposition counts as relevant if it is the BM25-closest one to a sentence that the official
files name for the answer, and contains half of its words: a silver judgement, not the paper's.

`training`: tiny models with random weights (T5 and BERT classes, some ten thousand weights), trained on dialogues made
from a template, and measured on held-out dialogues, one split per seed; with and without the conditional first word. It
shows that training works, and nothing about language models.

`encoder`: the retriever alone on the same dialogues, trained from real weights.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from ragtasks.benchmarks import bm25_rankings, open_benchmark
from ragtasks.files import Run
from ragtasks.metrics import retrieval_metric, score_run
from ragtasks.records import Passage, Qrel
from ragtasks.synthesis.encoder_training import train_retriever
from ragtasks.synthesis.rewriter_training import train_rewriter
from ragtasks.synthesis.training import Hyperparameters
from ragtasks.tables import markdown_table
from retrieval_cache import parse
from retrieval_cache.retrievers.fusion import FUSION_DEPTH, reciprocal_rank_fusion

MEASURES = ("AP", "R@5", "R@10", "R@20")
RETRIEVERS = ("bm25", "dense:minilm")
FUSED = "RRF of both"
DEPTH = 20
LEAST_SHARED = 0.5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    propositions = commands.add_parser("propositions")
    propositions.add_argument("data", type=Path)
    training = commands.add_parser("training")
    encoder = commands.add_parser("encoder")
    encoder.add_argument("--base", default="minilm")
    encoder.add_argument("--epochs", type=int, default=5)
    for command in (training, encoder):
        command.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
        command.add_argument("--dialogues", type=int, default=60)
    arguments = parser.parse_args()
    if arguments.command == "propositions":
        measure_propositions(arguments.data)
    elif arguments.command == "training":
        measure_training(arguments.seeds, arguments.dialogues)
    else:
        measure_encoder(arguments.base, arguments.seeds, arguments.dialogues, arguments.epochs)


def measure_propositions(data: Path) -> None:
    """Print MAP and recall by retriever and query form."""
    (content,) = json.loads((data / "propositions.json").read_bytes())
    texts = [text for text in content["Propositions"] if text.strip()]
    propositions = [Passage(f"p{number}", text) for number, text in enumerate(texts, start=1)]
    questions = list(real_questions(data))
    judged = silver([spans for _, _, spans in questions], propositions)
    kept = [(f"q{number}", *questions[number]) for number in sorted(judged)]
    qrels = [Qrel(f"q{number}", name, 1) for number, names in sorted(judged.items()) for name in sorted(names)]
    print(f"{len(propositions):,} propositions; {len(questions)} questions with available documents, "
          f"{len(kept)} of them with a silver judgement ({len(qrels)} in all)\n")  # fmt: skip
    forms = {
        "context": {name: f"{before}\n{question}" for name, before, question, _ in kept},
        "contextualized": {name: question for name, _, question, _ in kept},
    }
    runs: dict[tuple[str, str], Run] = {}
    for line in RETRIEVERS:
        retriever = parse(line)
        with tempfile.TemporaryDirectory() as folder:
            retriever.index(propositions, Path(folder))
            for form, queries in forms.items():
                runs[line, form] = retriever.search(queries, FUSION_DEPTH)
    for form in forms:
        runs[FUSED, form] = reciprocal_rank_fusion([runs[line, form] for line in RETRIEVERS], depth=DEPTH)
    metrics = [retrieval_metric(name) for name in MEASURES]
    rows = []
    for (line, form), run in runs.items():
        first = {name: ranking[:DEPTH] for name, ranking in run.items()}
        values = score_run(first, qrels, metrics).values.values()
        means = [statistics.fmean(row[metric.name] for row in values) for metric in metrics]
        rows.append([line, form, *(f"{mean:.3f}" for mean in means)])
    print("\n".join(markdown_table(["retriever", "query", *MEASURES], rows)))


def real_questions(data: Path) -> Iterator[tuple[str, str, list[str]]]:
    """Yield (previous question and answer, question, sentences that support its answer)."""
    documents = json.loads((data / "multidoc2dial_doc_small.json").read_bytes())["doc_data"]
    spans = {
        (name, span_id): span["text_sp"]
        for own in documents.values()
        for name, document in own.items()
        for span_id, span in document["spans"].items()
    }
    for file in ("multidoc2dial_dial_small_train.json", "multidoc2dial_dial_small_validation.json"):
        dialogues = json.loads((data / file).read_bytes())["dial_data"]
        for dialogue in (dialogue_turns for own in dialogues.values() for dialogue_turns in own):
            turns = dialogue["turns"]
            for index in range(len(turns) - 1):
                question, answer = turns[index], turns[index + 1]
                keys = [(dialogue_turns["doc_id"], dialogue_turns["id_sp"]) for dialogue_turns in answer["references"]]
                supporting = [spans[key] for key in keys if key in spans]
                if (question["role"], answer["role"]) == ("user", "agent") and supporting:
                    before = "\n".join(turn["utterance"] for turn in turns[max(0, index - 2) : index])
                    yield before, question["utterance"], supporting


def silver(sentences: Sequence[list[str]], propositions: Sequence[Passage]) -> dict[int, set[str]]:
    """Return number of a question -> its relevant propositions, if any."""
    texts = {proposition.passage_id: proposition.text for proposition in propositions}
    queries = {f"{number} {index}": text for number, own in enumerate(sentences) for index, text in enumerate(own)}
    judged: dict[int, set[str]] = {}
    for key, ranking in bm25_rankings(queries, propositions, 1).items():
        words = set(queries[key].lower().split())
        if ranking and len(words & set(texts[ranking[0]].lower().split())) >= LEAST_SHARED * len(words):
            judged.setdefault(int(key.partition(" ")[0]), set()).add(ranking[0])
    return judged


def measure_training(seeds: Sequence[int], n_dialogues: int) -> None:
    """Print the gain of each model over its untrained state, by seed and with an interval over seeds."""
    import torch

    from tests.synthesis._tiny import words_of, write_dialogues, write_encoder, write_t5

    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        benchmark = open_benchmark("custom", write_dialogues(work / "b", n_dialogues))
        t5, encoder = write_t5(work / "t5", words_of(work / "b")), write_encoder(work / "e", words_of(work / "b"))
        gains: dict[str, list[tuple[float, float]]] = {}
        seconds: dict[str, list[float]] = {}
        for seed in seeds:
            fitting = Hyperparameters(epochs=40, batch_size=8, learning_rate=5e-3, patience=10, seed=seed)
            for name, is_conditional in (("rewriter, conditional", True), ("rewriter, plain", False)):
                made = train_rewriter(
                    benchmark, str(t5), work / f"{name}-{seed}", fitting, is_conditional=is_conditional
                ).scores
                untrained = train_rewriter(
                    benchmark, str(t5), work / f"{name}-{seed}-0",
                    Hyperparameters(epochs=1, learning_rate=0.0, seed=seed), is_conditional=is_conditional,
                ).scores  # fmt: skip
                gains.setdefault(f"{name}: token F1", []).append((untrained.f1, made.f1))
                gains.setdefault(f"{name}: right decision", []).append((untrained.right_decision, made.right_decision))
                seconds.setdefault(name, []).append(made.seconds_a_question)
            encoding = Hyperparameters(epochs=10, batch_size=16, learning_rate=2e-3, seed=seed)
            trained = train_retriever(benchmark, str(encoder), work / f"retriever-{seed}", encoding)
            for measure in ("AP", "R@5"):
                pair = (trained.scores_before[measure], trained.scores[measure])
                gains.setdefault(f"retriever: {measure}", []).append(pair)
    print_gains(gains)
    later_tasks = [task for task in benchmark.tasks if len(task.messages) > 1]
    share = sum(task.extra["rewrite"] != task.question for task in later_tasks) / len(later_tasks)
    print_latency(seconds, share)


def print_latency(seconds: Mapping[str, Sequence[float]], share: float) -> None:
    """Print the time of a single question, next to the value for T5 in section 4.7 of the paper."""
    conditional, plain = (statistics.fmean(seconds[f"rewriter, {name}"]) for name in ("conditional", "plain"))
    rows = [
        ["here", f"{share:.0%}", f"{plain:.3f}", f"{conditional:.3f}", f"{conditional / plain:.2f}"],
        ["paper, proprietary documents", "36%", "0.19", "0.09", "0.47"],
        ["paper, public documents", "27%", "0.24", "0.10", "0.42"],
    ]
    columns = ["seconds a question", "needs rewriting", "plain", "conditional", "ratio"]
    print("\n".join(["", *markdown_table(columns, rows)]))


def measure_encoder(base: str, seeds: Sequence[int], n_dialogues: int, epochs: int) -> None:
    """Print the gain of a real encoder as a retriever, by seed and with an interval over seeds."""
    from tests.synthesis._tiny import write_dialogues

    gains: dict[str, list[tuple[float, float]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        benchmark = open_benchmark("custom", write_dialogues(work / "b", n_dialogues))
        for seed in seeds:
            fitting = Hyperparameters(epochs=epochs, batch_size=16, learning_rate=1e-4, seed=seed)
            trained = train_retriever(benchmark, base, work / f"retriever-{seed}", fitting)
            for measure in trained.scores:
                pair = (trained.scores_before[measure], trained.scores[measure])
                gains.setdefault(f"{base}: {measure}", []).append(pair)
            print(f"seed {seed}: {trained.statistics}", file=sys.stderr)
    print_gains(gains)


def print_gains(gains_by_model: Mapping[str, Sequence[tuple[float, float]]]) -> None:
    """Print means over seeds before and after training, and the mean gain with its interval."""
    rows = []
    for name, pairs in gains_by_model.items():
        gains = [after - before for before, after in pairs]
        rows.append([name, *_means(pairs), f"{statistics.fmean(gains):+.3f} [{_interval(gains)}]"])
    print("\n".join(markdown_table(["", "untrained", "trained", "gain [95 % over seeds]"], rows)))


def _means(pairs: Sequence[tuple[float, float]]) -> list[str]:
    return [f"{statistics.fmean(pair[side] for pair in pairs):.3f}" for side in (0, 1)]


def _interval(gains: Sequence[float]) -> str:
    """Return the 95 % interval of a mean by Student's t."""
    from scipy.stats import t

    if len(gains) < 2:
        return "-"
    half = t.ppf(0.975, len(gains) - 1) * statistics.stdev(gains) / len(gains) ** 0.5
    return f"{statistics.fmean(gains) - half:+.3f}, {statistics.fmean(gains) + half:+.3f}"


if __name__ == "__main__":
    main()
