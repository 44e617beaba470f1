"""Judge prompts that `skip_settled` saves on real answers: those whose conditioned score a refusal determines.

The answers are those rated by people (three models, MTRAG) and those of two systems to MTRAG-UN; `NgramIdk` detects
their refusals. Counted are the prompts of `rb_llm`, `rl_f`, `idk` and `clarification`, with each sentence of an answer
as a statement of `rl_f`. Equal prompts count once.

    python -m perf.settled --data FOLDER [--systems FILE...]
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from perf.prefix_sharing import Recorder, rated
from ragtasks.benchmarks import benchmark_folder, open_benchmark
from ragtasks.judges._panel import judge
from ragtasks.metrics import IdkLabel, NgramIdk, is_no_answer, is_settled
from ragtasks.records import IdkVerdict, Response, Setting
from ragtasks.suites import suite_named


def answers_of(data: str, file: Path) -> Iterator[Response]:
    """Yield a system's answers to MTRAG-UN's tasks, on the reference passages."""
    benchmark = open_benchmark("mtrag_un", benchmark_folder("mtrag_un", data, Path()).resolve())
    shown = benchmark.read_contexts(Setting.REFERENCE).passages
    tasks = {task.task_id: task for task in benchmark.tasks}
    for line in file.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        if (task := tasks.get(row["task_id"])) is not None:
            yield Response(task, shown.get(task.task_id, ()), row["text"])


def n_prompts(responses: Sequence[Response], names: Sequence[str]) -> int:
    """Return the number of different prompts of some rubrics on some answers."""
    recorder = Recorder()
    rubrics = [rubric for rubric in suite_named("mtrag").rubrics() if rubric.name in names]
    judge(responses, rubrics, [recorder])
    return len(recorder.prompts)


def settled(response: Response, label: IdkLabel) -> bool:
    """Return whether no verdict can change the response's conditioned scores."""
    verdict = IdkVerdict.NO if is_no_answer(response.text) else label.verdict
    return is_settled(response.task.answerability, verdict)


def show(name: str, responses: Sequence[Response]) -> None:
    """Print the number of prompts for all answers, and for those that are not settled."""
    later = suite_named("mtrag").settled
    first_rubrics = [rubric.name for rubric in suite_named("mtrag").rubrics() if rubric.name not in later]
    labels = NgramIdk().detect(responses)
    left = [response for response, label in zip(responses, labels, strict=True) if not settled(response, label)]
    n_all, n_left = (n_prompts(responses, first_rubrics) + n_prompts(some, later) for some in (responses, left))
    share = 1 - n_left / n_all
    print(f"{name:24} {len(responses):6,} answers, {len(responses) - len(left):5,} settled: ", end="")
    print(f"{n_all:7,} prompts, {n_left:7,} with skip_settled ({share:.1%} fewer)")


def main() -> None:
    """Print a line per set of answers."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True)
    parser.add_argument("--systems", nargs="*", type=Path, default=[])
    options = parser.parse_args()
    show("rated, three models", rated(options.data))
    for file in options.systems:
        show(f"MTRAG-UN, {file.stem}", list(answers_of(options.data, file)))


if __name__ == "__main__":
    main()
