"""Output of the harness for local tasks of every output type, by two models without weights.

`tests/results/harness_tasks` contains the tasks: multiple choice, generation with two filters, repeats, rolling
log-likelihood, and groups weighted by size or by task.
"""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

from packaging.version import Version

BEFORE_0_4_13 = Version(version("lm-eval")) < Version("0.4.13")
"""The harness pools the standard errors of a group by size, even if its mean has equal weights, and reports the number
of values of a task's last metric as its number of documents.
"""
TASKS = Path(__file__).parent / "results" / "harness_tasks"
SKILLS = {"weak": 0.45, "strong": 0.7}
"""Model -> share of questions that it answers correctly."""

_SCRIPT = """
import hashlib, re, sys
from pathlib import Path
from lm_eval import simple_evaluate
from lm_eval.api.model import LM
from lm_eval.loggers import EvaluationTracker
from lm_eval.tasks import TaskManager

def share(*parts):
    return int.from_bytes(hashlib.sha256("|".join(map(str, parts)).encode()).digest()[:8], "big") / 2**64

class Skilled(LM):
    def __init__(self, name, skill):
        super().__init__()
        self.name, self.skill = name, skill

    def right(self, text):
        a, b, *claimed = map(int, re.findall("[0-9]+", text) or (0, 0))
        return "yes" if claimed == [a + b] else "no" if claimed else str(a + b)

    def knows(self, text, attempt=0):
        # Half of a question's difficulty is shared by all models.
        return (share(text) + share(self.name, text, attempt)) / 2 < self.skill

    def loglikelihood(self, requests):
        pairs = [request.args for request in requests]
        return [(-4 * share(self.name, text, end) - 4 * (not (self.knows(text) and end.strip() == self.right(text))),
                 share(self.name, end, text) < 0.4 * self.skill) for text, end in pairs]

    def loglikelihood_rolling(self, requests):
        return [-len(text) * (1.2 - 0.4 * self.skill + share(text) + 0.2 * share(self.name, text))
                for (text,) in (request.args for request in requests)]

    def generate_until(self, requests):
        answers, asked = [], {}
        for request in requests:
            text = request.args[0]
            attempt = asked[text] = asked.get(text, -1) + 1
            number = self.right(text) if self.knows(text, attempt) else str(int(9 * share(self.name, text, attempt)))
            is_strict = share("form", self.name, text) < 0.8
            answers.append(f"So #### {number}" if is_strict else f"It is {number}.")
        return answers

tasks, names, *models = sys.argv[1:]
for folder, name, skill in zip(*[iter(models)] * 3):
    results = simple_evaluate(
        Skilled(name, float(skill)), model_args=f"pretrained={name}", tasks=names.split(","),
        task_manager=TaskManager(include_path=tasks, include_defaults=False),
        evaluation_tracker=(tracker := EvaluationTracker(output_path=folder)), bootstrap_iters=20, log_samples=True,
    )
    samples = results.pop("samples")
    tracker.save_results_aggregated(results, samples)
    for task in results["configs"]:
        tracker.save_results_samples(task, samples[task])
"""
TASK_NAMES = "local_repeats,local_passes,local_pages,local_lengths,local_by_task,local_all"


def evaluate_harness_tasks(folder: Path) -> None:
    """Write the output of both models for all tasks to `weak` and `strong`, in a separate process."""
    models = [part for name, skill in SKILLS.items() for part in (str(folder / name), name, str(skill))]
    environment = os.environ | {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "DISABLE_MULTIPROC": "1"}
    command = [sys.executable, "-c", _SCRIPT, str(TASKS), TASK_NAMES, *models]
    done = subprocess.run(command, check=False, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr[-3000:]
