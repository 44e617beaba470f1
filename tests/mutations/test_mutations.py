"""Whatever a file holds, a command ends: with what it was asked for or with one clear error, and with all rows."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random

import pytest

from tests.clients._server import ChatServer, completion
from tests.mutations._attack import Ending, call
from tests.mutations._files import write_files
from tests.mutations._kinds import KINDS, Command, Kind
from tests.mutations._mutants import mutant
from tests.submissions.trec_rag._judge import verdict

IN_ALL = 5_000
A_FEW = int(os.environ.get("MUTATION_FEW", "2"))
NAMED = re.compile(r"left out|ignored|doubled|not judged|no corpus|without|unknown|not checked|missing")


@dataclass(frozen=True)
class Place:
    """The folder with the files, and who judges."""

    folder: Path
    judge: str


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("mutations")
    with (
        pytest.MonkeyPatch.context() as patch,
        ChatServer(lambda prompt, _: completion(verdict(prompt))).running() as server,
    ):
        patch.setenv("RAGTASKS_RUNS", str(folder / "store"))
        patch.setenv("RAGTASKS_DATA", str(folder / "data"))
        patch.setenv("HF_HUB_OFFLINE", "1")  # an encoder of any name is looked for on this machine only
        judge = json.dumps({"model": "words", "base_url": server.base_url, "attempts": 1})
        write_files(folder, judge)
        yield Place(folder, judge)


def attacked(kind: Kind, seed: str, place: Place) -> tuple[str, str, Ending]:
    """Return mutation, command and ending of one attack; the files are sound again afterwards."""
    random = Random(seed)
    file = place.folder / kind.file
    sound = file.read_bytes()
    how, content = mutant(sound, kind.form, random)
    manifest = place.folder / "store" / "runs" / "mine" / "manifest.json"
    kept = manifest.read_bytes()
    file.write_bytes(content)
    kind.prepare(place.folder)
    command = random.choice(kind.commands)
    try:
        ending = ended(command, place)
    finally:
        manifest.write_bytes(kept)
        file.write_bytes(sound)
    if ending.kind == "accepted" and (lost := _lost(kind, content, ending.output)):
        ending = Ending("rows lost", f"{lost}: {ending.output}")
    return how, command if isinstance(command, str) else "docs", ending


def ended(command: Command, place: Place) -> Ending:
    """Return how a command ended; what it wrote is taken away."""
    (place.folder / "out").mkdir(exist_ok=True)
    try:
        return call(words(command, place)) if isinstance(command, str) else call(lambda: command(place.folder))
    finally:
        shutil.rmtree(place.folder / "out", ignore_errors=True)
        shutil.rmtree(place.folder / "store" / "runs" / "again", ignore_errors=True)


def words(command: str, place: Place) -> list[str]:
    metadata = (place.folder / "metadata.json").read_bytes().decode("utf-8", "surrogateescape").replace("\0", "")
    values = {"w": str(place.folder), "judge": place.judge, "metadata": metadata}
    return [re.sub(r"\{(\w+)\}", lambda found: values[found[1]], word) for word in command.split()]


def _lost(kind: Kind, content: bytes, output: str) -> str:
    found = re.search(kind.rows, output, re.MULTILINE) if kind.rows else None
    if not found or int(found[1]) == kind.n_rows(content) or NAMED.search(output):
        return ""
    return f"{found[1]} rows of {kind.n_rows(content)}"


def attack(kind: Kind, seeds: range, place: Place) -> Counter[str]:
    """Return how many attacks ended how; fails on the first that ends in another way than it may."""
    endings: Counter[str] = Counter()
    bad = []
    for seed in seeds:
        how, command, ending = attacked(kind, f"{kind.name} {seed}", place)
        endings[ending.kind] += 1
        if ending.kind not in {"accepted", "refused"}:
            bad.append(f"{kind.name} {seed}: {how}, {command}: {ending.kind}\n{ending.output[-3000:]}")
    if bad and (report := os.environ.get("MUTATION_REPORT")):
        with Path(report).open("a", encoding="utf-8", errors="replace") as file:
            file.write("\n=====\n".join(bad) + "\n=====\n")
    print(f"{kind.name}: {sum(endings.values())} mutated, {dict(endings)}")  # noqa: T201 (shown with -s)
    assert not bad, "\n".join(bad[:3])
    return endings


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_a_few_mutations_of_every_kind(kind: Kind, place: Place) -> None:
    attack(kind, range(A_FEW), place)


@pytest.mark.mutation
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_thousands_of_mutations(kind: Kind, place: Place) -> None:
    attack(kind, range(-(-IN_ALL // len(KINDS))), place)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_the_sound_file_is_accepted(kind: Kind, place: Place) -> None:
    ending = ended(kind.commands[0], place)
    assert ending.kind == "accepted", ending
