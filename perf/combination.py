"""What a combination of judges and free scores is worth on MTRAG's human evaluation, beside each score alone.

python perf/combination.py FOLDER          the checkout with the human evaluation, such as data/mt-rag-benchmark

Each answer is predicted by the ratings of the other conversations. The judges are the paper's (published scores).
"""

from __future__ import annotations

import argparse
from pathlib import Path

from ragtasks.benchmarks.mtrag import load_human_evaluation
from ragtasks.judges import JUDGED_INPUTS
from ragtasks.metrics import RuleBasedIdk
from ragtasks.reports.judge_card import combination_inputs, combine, weights_table
from ragtasks.tables import Format, Section, render


def main(root: Path) -> None:
    """Print the table, and the weights."""
    answers = load_human_evaluation(root)
    labels = RuleBasedIdk().detect([row.response for row in answers])
    idk = {row.key: label.verdict for row, label in zip(answers, labels, strict=True)}
    judged = {name: {row.key: row.metrics.get(name) for row in answers} for name in JUDGED_INPUTS}
    found, table = combine(
        answers,
        combination_inputs(answers, judged, idk),
        judges=(),
        rubrics={},
        data="MTRAG's human evaluation",
        time="",
    )
    print(render([Section("Combination", {}, (table, weights_table(found)))], Format.MARKDOWN))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root", type=Path)
    main(parser.parse_args().root)
