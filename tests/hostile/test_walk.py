"""Every command that reads what others wrote, given hostile files: nothing is reached that the user did not name."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

import pytest

from tests._shared import made_once
from tests.cli.test_app import COMMANDS
from tests.clients._server import closed_port
from tests.hostile._world import SECRET, World, build

ROOT = Path(__file__).resolve().parents[2]
READ_NO_FILES = {
    ("tasks", "link"),
    ("tasks", "path"),
    ("tasks", "list"),
    ("arena", "serve"),
    ("review", "serve"),
    ("data", "serve"),
}
"""Commands that read nothing which another person may have written; a server does not end, and reads as battles do."""
USED_NEVER = {"endpoint", "in-process", "encoder", "retriever", "data"}
GROUPS = {words[:n] for words in COMMANDS for n in range(1, len(words))}
ASKED = "asked:"
NOTED = "noted.json"
GIT = "program: subprocess.Popen ('git', ['git', 'describe', '--always'])"
"""What the harness writes into its results: the commit of the folder that it is called in."""
Found = dict[str, dict[str, Any]]


@pytest.fixture(scope="module")
def walked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a world and what every command did in it, for all processes that test."""
    return made_once(tmp_path_factory, "hostile", walk)


@pytest.fixture(scope="module")
def world(walked: Path) -> World:
    return World.below(walked)


@pytest.fixture(scope="module")
def found(walked: Path) -> Found:
    result: Found = json.loads((walked / NOTED).read_text(encoding="utf-8"))
    return result


def walk(folder: Path) -> None:
    """Build a world and let every command loose on it, in one process: it starts once and its imports count once."""
    world = build(folder, f"http://127.0.0.1:{closed_port()}")
    cases = {
        f"{' '.join(words)} {number}": [*words, *arguments]
        for words, several in world.cases().items()
        for number, arguments in enumerate(several, start=1)
    }
    watch(world, cases | {f"{ASKED} {name}": arguments for name, arguments in world.asked().items()})


def watch(world: World, cases: dict[str, list[str]]) -> None:
    """Note what each case said and reached for."""
    home, temporary = world.root / "home", world.root / "temporary"
    for folder in (home, temporary):
        folder.mkdir(exist_ok=True)
    programs = {sys.prefix, sys.base_prefix, *sysconfig.get_paths().values(), *filter(None, sys.path)}
    system = [
        "/usr",
        "/proc",
        "/sys",
        "/dev",
        "/lib",
        "/etc/localtime",
        "/etc/os-release",
        "/etc/mime.types",
        "/etc/ssl",
        "/etc/fonts",
    ]
    given = [world.theirs, world.root / "store", world.root / "out", home, temporary, ROOT]
    allowed = sorted({*programs, *system, *map(str, given)} - {"/"})
    environment = os.environ | {
        "HOME": str(home),
        "TMPDIR": str(temporary),
        "XDG_CACHE_HOME": str(home / "cache"),
        "RAGTASKS_RUNS": str(world.root / "store"),
        "RAGTASKS_DATA": str(world.theirs),
        "OPENAI_API_KEY": "",
        "HF_HUB_OFFLINE": "0",
        "PYTHONPATH": str(ROOT),
    }
    done = subprocess.run(
        [sys.executable, "-m", "tests.hostile._watched", str(world.root / NOTED)],
        check=False,
        cwd=world.theirs,
        env=environment,
        input=json.dumps({"allowed": allowed, "theirs": str(world.root), "cases": cases}),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-3000:]


def test_every_command_is_in_the_walk_or_reads_no_file(tmp_path: Path) -> None:
    walked = set(build(tmp_path, "http://127.0.0.1:9").cases())
    assert walked | READ_NO_FILES == set(COMMANDS) - GROUPS
    assert not walked & READ_NO_FILES


@pytest.mark.slow
@pytest.mark.parametrize("words", sorted(set(COMMANDS) - GROUPS - READ_NO_FILES), ids=" ".join)
def test_a_hostile_file_reaches_nothing(words: tuple[str, ...], world: World, found: Found) -> None:
    own = {name: case for name, case in found.items() if name.rpartition(" ")[0] == " ".join(words)}
    assert own
    noted = {name: [one for one in case["noted"] if one != GIT] for name, case in own.items()}
    assert not any(noted.values()), noted
    assert not [name for name, case in own.items() if SECRET in case["output"]]
    assert not [case["output"] for case in own.values() if case["status"] == -1]


@pytest.mark.slow
def test_what_is_not_used_is_shown(world: World, found: Found) -> None:
    for number, name in enumerate(world.results, start=1):
        output = found[f"score {number}"]["output"]
        assert ("name them with --metadata" in output) == (name in USED_NEVER)


@pytest.mark.slow
def test_no_code_ran_and_nothing_was_copied_out(world: World, found: Found) -> None:
    assert found
    assert not (world.root / "code-ran").exists()
    written = [path for name in ("out", "store", "home") for path in (world.root / name).rglob("*") if path.is_file()]
    assert written
    assert not [path for path in written if SECRET.encode() in path.read_bytes()]


@pytest.mark.slow
def test_what_the_user_names_is_reached(world: World, found: Found) -> None:
    """The same things on the command line: so nothing above is quiet because it could not have worked."""
    noted = {name: " ".join(found[f"{ASKED} {name}"]["noted"]) for name in world.asked()}
    assert all("connection: socket.connect" in noted[name] for name in ("judge", "calibrate"))
    secret = f"file: {world.outside / 'secret.jsonl'}"
    assert [name for name in ("template", "run file", "answers") if secret not in noted[name]] == []
    assert f"file: {world.outside / 'model' / 'config.json'}" in noted["encoder"]
