"""Install built files of a release in empty environments and use them as their user would.

usage: python scripts/check_install.py FILE [FILE ...]     wheels or source distributions; in bash, dist/*

The interpreter that runs this script makes the environments. Each gets one file without extras, and an empty home:

1. `ragtasks score` scores rows of the user.
2. A baseline is evaluated on the sample and reported.
3. The install line of an error message adds an extra to the installed file.
4. After `ragtasks tasks link`, the stock `lm_eval` finds, validates and runs the tasks without an include path.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import venv
from dataclasses import dataclass
from pathlib import Path

CONTEXTS = ["Ada wrote it in 1843."]
ROWS = (
    {"question": "Who wrote it?", "answer": "Ada wrote it.", "contexts": CONTEXTS, "reference": "Ada."},
    {"question": "And when?", "answer": "I don't know.", "contexts": CONTEXTS, "reference": "In 1843."},
)
"""Two rows of a user: an answer, and a refusal of an answerable question."""
DOMAINS = ("clapnq", "fiqa", "govt", "cloud")


class CheckError(Exception):
    """A step printed something else than it should."""


@dataclass(frozen=True, slots=True)
class Environment:
    """An empty virtual environment, with an empty home, outside of the checkout."""

    folder: Path

    @property
    def programs(self) -> Path:
        """The folder of its commands."""
        return self.folder / "venv" / ("Scripts" if os.name == "nt" else "bin")

    def run(self, command: str, *arguments: str, may_fail: bool = False) -> str:
        """Return what a command of the environment prints on both streams.

        Raises:
            CheckError: it ends with an error, and `may_fail` is false.
        """
        program = shutil.which(command, path=str(self.programs))
        if program is None:
            raise CheckError(f"{self.programs} has no command {command}")
        home = str(self.folder / "home")
        folders = dict.fromkeys(("HOME", "USERPROFILE", "LOCALAPPDATA", "XDG_CACHE_HOME"), home)
        kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        done = subprocess.run(
            [program, *arguments],
            cwd=self.folder,
            env={**kept, **folders, "HF_HUB_OFFLINE": "1", "PYTHONUTF8": "1"},
            check=False,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
        )
        if done.returncode and not may_fail:
            raise CheckError(f"{command} {' '.join(arguments)} ended with status {done.returncode}:\n{done.stdout}")
        return done.stdout

    def install(self, requirement: str) -> None:
        """Install a file or a requirement with pip."""
        options = ("--quiet", "--no-compile", "--disable-pip-version-check")
        self.run("python", "-m", "pip", "install", *options, requirement)


def require(is_right: bool, message: str, output: str) -> None:
    """Raise `CheckError` with the message and the output if it is not right."""
    if not is_right:
        raise CheckError(f"{message}:\n{output}")


def check_own_rows(environment: Environment) -> None:
    """Score a file of the user."""
    rows = environment.folder / "rows.jsonl"
    rows.write_text("".join(json.dumps(row) + "\n" for row in ROWS), encoding="utf-8")
    table = environment.run("ragtasks", "score", str(rows))
    refused = re.search(r"\| idk_yes +\| +0\.500 ", table)
    require(refused is not None, "one of two rows is a refusal, which the table does not show", table)


def check_sample(environment: Environment) -> None:
    """Evaluate a baseline on the sample and report it."""
    options = (
        "--tasks",
        "mtrag_reference",
        "--data",
        "sample",
        "--encoder",
        "none",
        "--output_path",
        "results",
        "--log_samples",
    )
    environment.run("ragtasks", "run", "--model", "ragtasks-extractive", *options)
    report = environment.run("ragtasks", "report", "results")
    require("ragtasks-extractive" in report, "the report does not name the model", report)


def check_install_line(environment: Environment) -> None:
    """Install the extra that an error message names, although no index has ragtasks."""
    message = environment.run("ragtasks", "arena", "serve", "folder", "--database", "arena.sqlite", may_fail=True)
    found = re.search(r"ragtasks\[[a-z,]*\]", message)
    if found is None:
        raise CheckError(f"the error has no install line:\n{message}")
    environment.install(found[0])
    environment.run("python", "-c", "import uvicorn")


def check_stock_harness(environment: Environment) -> None:
    """Use the tasks with the commands of lm_eval."""
    environment.run("ragtasks", "tasks", "link")
    tasks = Path(environment.run("ragtasks", "tasks", "path").strip())
    names = [path.stem for path in tasks.rglob("[!_]*.yaml")]
    listed = environment.run("lm_eval", "ls", "tasks")
    missing = [name for name in names if not re.search(rf"\|{name} *\|", listed)]
    require(bool(names) and not missing, f"`lm_eval ls tasks` does not list {missing or 'any task'}", listed[-2000:])
    valid = environment.run("lm_eval", "validate", "--tasks", "mtrag,mtrag_agentic")
    require("All tasks found and valid" in valid, "`lm_eval validate` finds a problem", valid)
    sample = json.dumps({"data": "sample"})
    table = environment.run("lm_eval", "run", "--model", "dummy", "--tasks", "mtrag_full_rag", "--metadata", sample)
    unscored = [domain for domain in DOMAINS if f"mtrag_full_rag_{domain}" not in table]
    require(not unscored, f"no scores for {unscored}", table)
    require("|sample|" in table, "the table does not label the scores as those of the sample", table)
    environment.run("ragtasks", "tasks", "link", "--remove")


def check(file: Path) -> None:
    """Install a file in a new environment and run all checks.

    Raises:
        CheckError: a step ends with an error or prints something else than it should.
    """
    with tempfile.TemporaryDirectory(prefix="ragtasks-") as folder:
        environment = Environment(Path(folder).resolve())
        (environment.folder / "home").mkdir()
        venv.create(environment.folder / "venv", with_pip=True, symlinks=os.name != "nt")
        environment.install(str(file.resolve()))
        for step in (check_own_rows, check_sample, check_install_line, check_stock_harness):
            step(environment)


def main(arguments: list[str]) -> int:
    """Check the files; return 1 if one of them fails, 2 without files."""
    if not arguments:
        print(__doc__)
        return 2
    is_wrong = False
    for name in arguments:
        try:
            check(Path(name))
        except CheckError as error:
            is_wrong = True
            print(f"{name}: {error}", file=sys.stderr)
        else:
            print(f"{name}: works on Python {sys.version.split()[0]}")
    return int(is_wrong)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
