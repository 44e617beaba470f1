"""Load on the arena: raters who vote at once, over the pages as browsers use them.

    python perf/arena.py [--raters 50] [--seconds 60]
    python perf/arena.py --pairs 30000

A server of its own process serves saved answers made here. Each rater opens the next pair, votes, and waits a little;
all begin at once. Printed: votes a second, the time of a vote (from sending it to the answer that it is kept) and of a
page, errors, votes acknowledged against votes in the database, processor time of both sides, and the server's memory.

With `--pairs` no server is started: the time to find a rater's next pair among that many, and to count what is left, at
three shares of votes (two raters a pair).
"""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlencode

import aiohttp
import numpy as np

from ragtasks.arena.store import Queue, VoteStore

SERVER = """
import sys
from pathlib import Path
from ragtasks.arena.battles import Answer, AnswerPool
from ragtasks.arena.web import serve
from ragtasks.records import Answerability, Message, Passage, Response, Role, Task

def answers():
    passages = tuple(Passage(f"p{n}", "The ferry runs from April. " * 20, "Ferry") for n in range(5))
    for number in range(int(sys.argv[2])):
        task = Task(f"c{number}<::>1", f"c{number}", 1, "govt", (Message(Role.USER, f"When, {number}?"),),
                    "From April.", Answerability.ANSWERABLE, (), "N/A", ())
        for system in ("one", "two", "three"):
            text = f"It runs from April [1]. {system} " * 15
            yield Answer(system, "made", "full_rag", Response(task, passages, text), False, {})

serve(AnswerPool(answers()), Path(sys.argv[1]), port=0, raters_per_battle=50, title="made", types_names=True)
"""
FORM_TOKEN = re.compile(r'name="form_token" value="([0-9a-f]{64})"')


class Used(NamedTuple):
    """Processor time in seconds."""

    server: float
    client: float


class Load:
    """What raters did, together."""

    def __init__(self, address: str, ends: float) -> None:
        self.address, self.ends = address, ends
        self.vote_seconds: list[float] = []
        self.page_seconds: list[float] = []
        self.errors: list[str] = []

    async def rate(self, number: int, *, pause: float) -> None:
        """Vote as one rater until the time is over."""
        async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as session:
            await session.post(f"{self.address}/enter", data={"name": f"rater {number}", "token": ""})
            while time.perf_counter() < self.ends:
                try:
                    await self._one(session)
                except aiohttp.ClientError as error:
                    self.errors.append(repr(error))
                await asyncio.sleep(pause)

    async def _one(self, session: aiohttp.ClientSession) -> None:
        begin = time.perf_counter()
        async with session.get(f"{self.address}/battles") as reply:
            text, path, status = await reply.text(), reply.url.path, reply.status
        self.page_seconds.append(time.perf_counter() - begin)
        found = FORM_TOKEN.search(text)
        if status != 200 or not found:
            self.errors.append(f"page: {status}")
            return
        body = urlencode({"preference": "first", "reason": "", "form_token": found[1]})
        headers = {"Content-Type": "application/x-www-form-urlencoded"}
        begin = time.perf_counter()
        async with session.post(
            f"{self.address}{path}/vote", data=body, headers=headers, allow_redirects=False
        ) as reply:
            await reply.read()
            if reply.status == 303:
                self.vote_seconds.append(time.perf_counter() - begin)
            else:
                self.errors.append(f"vote: {reply.status}")


async def run(address: str, n_raters: int, seconds: float, pause: float, pid: int) -> tuple[Load, list[float], Used]:
    """Return what raters did, the server's memory in MiB at ten times, and the processor time of both sides."""
    load = Load(address, time.perf_counter() + seconds)
    before = used(pid)
    raters = [asyncio.create_task(load.rate(number, pause=pause)) for number in range(n_raters)]
    memory = []
    for _ in range(10):
        await asyncio.sleep(seconds / 10)
        memory.append(resident(pid))
    await asyncio.gather(*raters)
    after = used(pid)
    return load, memory, Used(after.server - before.server, after.client - before.client)


def resident(pid: int) -> float:
    """Return a process's memory in MiB; NaN where the system does not say."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except OSError:
        return float("nan")
    return pages * 4096 / 2**20


def processor_seconds(pid: int) -> float:
    """Return a process's processor time so far; NaN where the system does not say."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return float("nan")
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def used(server: int) -> Used:
    """Return the processor time so far of the server and of this process."""
    return Used(processor_seconds(server), time.process_time())


def spread(values: list[float]) -> str:
    """Return the middle and the ends of some times, in milliseconds."""
    p50, p95, p99 = np.quantile(values, (0.5, 0.95, 0.99)) * 1000 if values else (float("nan"),) * 3
    return f"p50 {p50:6.1f} ms   p95 {p95:6.1f} ms   p99 {p99:6.1f} ms   ({len(values):,})"


def assign(n_pairs: int, share: float, n_calls: int = 15) -> None:
    """Print how long the queue takes where a share of the pairs has its two votes."""
    items = [f"pair {number:08d}" for number in range(n_pairs)]
    voted = [(item, f"rater {(n + k) % 20}") for n, item in enumerate(items[: int(share * n_pairs)]) for k in range(2)]
    with tempfile.TemporaryDirectory() as folder:
        store, now = VoteStore(Path(folder) / "arena.sqlite"), time.time()
        with store.database.transaction() as connection:
            rows = [(str(n), rater, item, "blinded", 0, "voted", now, now) for n, (item, rater) in enumerate(voted)]
            connection.executemany("INSERT INTO assignments VALUES (?, ?, ?, ?, ?, ?, ?, ?)", rows)
            happened = [(now, event, *row[:3]) for row in rows for event in ("given", "voted", "names_shown")]
            event = "INSERT INTO events (time, event, assignment_id, rater, battle_id) VALUES (?, ?, ?, ?, ?)"
            connection.executemany(event, happened)
        queue = Queue(store, items, 2)
        for name, asked in (("next pair", queue.next_for), ("standing", queue.standing)):
            seconds = []
            for number in range(n_calls + 1):
                begin = time.perf_counter()
                asked(f"rater {number}")
                seconds.append(time.perf_counter() - begin)
            print(f"{share:.0%} voted, {name}: first {1000 * seconds[0]:.0f} ms, then {spread(seconds[1:])}")
        store.close()


def main() -> None:
    """Serve, vote, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--raters", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--pause", type=float, default=1.0, help="seconds between a rater's votes; people need more")
    parser.add_argument("--tasks", type=int, default=500)
    parser.add_argument("--pairs", type=int, help="time the queue alone on this many pairs")
    options = parser.parse_args()
    if options.pairs:
        for share in (0.0, 0.5, 0.95):
            assign(options.pairs, share)
        return
    with tempfile.TemporaryDirectory() as folder:
        database = Path(folder) / "arena.sqlite"
        command = [sys.executable, "-c", SERVER, str(database), str(options.tasks)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
            assert server.stdout
            address = server.stdout.readline().strip()
            load, memory, cpu = asyncio.run(run(address, options.raters, options.seconds, options.pause, server.pid))
            server.terminate()
        kept = len(VoteStore(database).votes())
    rate = len(load.vote_seconds) / options.seconds
    print(f"{options.raters} raters, {options.seconds:.0f} s: {rate:.0f} votes a second")
    print(f"votes: {spread(load.vote_seconds)}")
    print(f"pages: {spread(load.page_seconds)}")
    print(f"acknowledged {len(load.vote_seconds):,}, in the database {kept:,}")
    print(f"errors {len(load.errors)} {load.errors[:3]}")
    n_votes = max(len(load.vote_seconds), 1)
    print(
        f"processor time of a vote with its page: {1000 * cpu.server / n_votes:.1f} ms the server's, "
        f"{1000 * cpu.client / n_votes:.1f} ms the raters'"
    )
    print("server's memory in MiB:", " ".join(f"{value:.0f}" for value in memory))


if __name__ == "__main__":
    main()
