"""Encoding a corpus on several machines or GPUs with Ray Data, into the shards read by `DenseRetriever`.

The driver divides the corpus into the same shards as a single process, skips finished shards, and writes the passages
of the others to a spool next to them. With fewer shards than workers, several workers share a shard and each encodes
its own batches. A worker saves its results every few seconds; only shard numbers are transferred. Unsaved work of a
lost worker or machine is assigned to another one. The driver joins the parts of a complete shard. If it is killed, the
next call finds all saved work.

All machines must see the folder and its spool under the same path (a shared file system) and need the same versions of
ragtasks and libraries. A worker whose encoder differs stops with an error.
"""

from __future__ import annotations

import logging
import math
import os
import shutil
import socket
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import orjson

from ragtasks.errors import CacheError, ConfigurationError, RagtasksError
from ragtasks.files import write_atomically
from ragtasks.progress import Progress
from ragtasks.records import Passage
from ragtasks.requirements import importing
from retrieval_cache.retrievers.dense import DenseRetriever
from retrieval_cache.retrievers.vectors import Fill, Filled, ShardFolder, chunks

_REACH_SECONDS = 10.0
_SHARES = 4
"""Shares per worker. The last share delays the end by at most a quarter of a worker's time."""


@dataclass(frozen=True, slots=True)
class RayWorkers:
    """Worker processes on a cluster; each loads the encoder once."""

    address: str | None = None
    """Address of the cluster for `ray.init`; None starts Ray on this machine."""
    workers: tuple[int, int] | None = None
    """Minimum and maximum number of workers. Ray waits for room for the minimum. None: as many as the cluster has
    room for.
    """
    cpus: float = 1
    gpus: float = 0
    """GPUs per worker; a fraction places several workers on one GPU."""

    def fill(
        self, settings: Mapping[str, Any], shards: ShardFolder, passages: Iterable[Passage], progress: Progress
    ) -> Filled:
        """Return the shards of a corpus; missing shards are encoded by the workers."""
        shards = ShardFolder(shards.folder.resolve(), shards.suffix, shards.encoder, shards.dimension, shards.size)
        shards.clean()  # rejects vectors of another width before encoding
        spool = shards.folder.with_name(f"{shards.folder.name}.spool")
        shutil.rmtree(spool, ignore_errors=True)
        waiting, ids = _spooled(shards, passages, spool, progress)
        if waiting:
            n_shares = self._n_shares(len(waiting))
            rows = [{**row, "share": [part, n_shares]} for row in waiting for part in range(n_shares)]
            left = Counter({row["number"]: n_shares for row in waiting})
            for row in self.mapped(_Worker, (dict(settings), shards), rows):
                left[row["number"]] -= 1
                if not left[row["number"]]:
                    shards.join(row["number"], _read_spool(Path(row["spool"])), DenseRetriever)
                    progress("encode shards", sum(not n for n in left.values()), len(waiting))
        shutil.rmtree(spool, ignore_errors=True)
        return shards.filled(ids)

    def _n_shares(self, n_shards: int) -> int:
        """Return the number of shares per shard: enough for all workers to finish at about the same time."""
        _, most = self._room(_connected(self.address))
        return math.ceil(_SHARES * most / n_shards)

    def mapped(
        self, worker: type[Callable[[dict[str, Any]], dict[str, Any]]], arguments: tuple[Any, ...], rows: list[Any]
    ) -> Iterator[dict[str, Any]]:
        """Yield the workers' results for the rows, in order of completion."""
        ray = _connected(self.address)
        context = ray.data.DataContext.get_current()
        # Progress is reported only through callbacks.
        context.enable_progress_bars = False
        logging.getLogger("ray.data").setLevel(logging.ERROR)
        fewest, most = self._room(ray)
        made = ray.data.from_items(rows, override_num_blocks=len(rows)).map(
            worker,
            fn_constructor_args=arguments,
            # One row at a time, because rows queued at a worker are lost with it.
            compute=ray.data.ActorPoolStrategy(min_size=fewest, max_size=most, max_tasks_in_flight_per_actor=1),
            num_cpus=self.cpus,
            num_gpus=self.gpus,
        )
        try:
            for row in made.iter_rows():
                if row["problem"]:
                    raise CacheError(row["problem"])
                yield row
        except ray.exceptions.RayError as error:
            raise CacheError(
                "encode with Ray",
                where="a worker",
                expected="finished shards",
                found=type(error).__name__,
                next_step="read the cause and Ray's logs, then call again: finished shards are saved",
            ) from error

    def _room(self, ray: Any) -> tuple[int, int]:
        """Return the minimum and maximum number of workers."""
        resources = ray.cluster_resources()
        rooms = (
            int(resources.get(resource, 0) / own)
            for resource, own in (("CPU", self.cpus), ("GPU", self.gpus))
            if own > 0
        )
        fewest, most = self.workers or (1, min(rooms, default=1))
        if most < 1:
            raise ConfigurationError(
                f"encode with Ray: the cluster has {resources.get('CPU', 0):g} CPUs and {resources.get('GPU', 0):g} "
                f"GPUs; a worker requires {self.cpus:g} and {self.gpus:g}. Next step: request less, or name a larger "
                "cluster"
            )
        return fewest, most


def _connected(address: str | None) -> Any:
    """Return Ray, connected and without usage reports. An existing connection is kept."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    with importing("ray[data]", "scale", "encoding on several machines"):
        import ray
        import ray.data
    try:
        host, _, port = (address or "").removeprefix("ray://").rpartition(":")
        if host and port.isdecimal():  # Ray itself retries for minutes if no process listens
            socket.create_connection((host.strip("[]"), int(port)), timeout=_REACH_SECONDS).close()
        if not ray.is_initialized():
            ray.init(address=address, log_to_driver=False, logging_level="error")
    except (OSError, ValueError, RuntimeError) as error:
        raise ConfigurationError(
            "encode with Ray",
            where=f"ray:{address}" if address else "ray",
            expected="a cluster that answers",
            found=str(error).splitlines()[0] if str(error) else type(error).__name__,
            next_step="give the address that `ray start --head` printed, or `ray` alone for this machine",
        ) from error
    return ray


def _spooled(
    shards: ShardFolder, passages: Iterable[Passage], spool: Path, progress: Progress
) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the unfinished shards, whose passages are written to the spool, and the ids of all passages."""
    waiting: list[dict[str, Any]] = []
    ids: list[str] = []
    for number, shard in enumerate(chunks(passages, shards.size)):
        if not shards.is_finished(number, shard):
            path = spool / f"{number:06d}.jsonl"
            write_atomically(path, b"".join(orjson.dumps(asdict(passage)) + b"\n" for passage in shard))
            waiting.append({"number": number, "spool": str(path)})
        ids.extend(passage.passage_id for passage in shard)
        progress("read passages", len(ids), None)
    return waiting, ids


class _Worker:
    """Encodes shards on one machine with one loaded encoder."""

    def __init__(self, settings: Mapping[str, Any], shards: ShardFolder) -> None:
        self._retriever, self._shards = DenseRetriever(**settings), shards

    def __call__(self, row: dict[str, Any]) -> dict[str, Any]:
        import ray

        path = Path(row["spool"])
        try:
            if self._retriever.shards_in(self._shards.folder).encoder != self._shards.encoder:
                problem = f"another, or other versions: {self._retriever.describe()}"
                raise _refused("encoder", "that of the driver", problem)
            if not path.is_file():
                raise _refused(str(path), "the driver's file", "no such path")
            self._shards.save_batches(row["number"], _read_spool(path), self._retriever, share=tuple(row["share"]))
        except RagtasksError as error:
            # Returned as a value, because Ray reduces an exception to the text of its traceback.
            return {**row, "problem": f"machine {ray.util.get_node_ip_address()}: {error}"}
        return {**row, "problem": ""}


def _read_spool(path: Path) -> list[Passage]:
    return [Passage(**orjson.loads(line)) for line in path.read_bytes().splitlines()]


def _refused(where: str, expected: str, found: str) -> CacheError:
    return CacheError(
        "encode with Ray",
        where=where,
        expected=expected,
        found=found,
        next_step="install the same packages on every machine, and give a folder that all of them share",
    )


# The line that selects the workers: `ray[:ADDRESS][,workers=8][,cpus=1][,gpus=1]`. `workers=4-8` waits for room for
# four workers.

_FORM = "ray[:ADDRESS][,workers=8][,cpus=1][,gpus=1]"


def fill_on_ray(line: str) -> Fill:
    """Return the function that encodes a corpus on the workers of a line, without connecting yet."""
    return encoding_workers(line).fill


def encoding_workers(line: str) -> RayWorkers:
    """Return the workers of a line, without connecting."""
    head, *options = line.split(",")
    scheme, _, address = head.partition(":")
    settings = dict(option.partition("=")[::2] for option in options)
    try:
        if scheme != "ray" or not settings.keys() <= {"workers", "cpus", "gpus"}:
            raise ValueError
        limits = _workers(settings["workers"]) if "workers" in settings else None
        workers = RayWorkers(address or None, limits, float(settings.get("cpus", 1)), float(settings.get("gpus", 0)))
        if min(workers.cpus, workers.gpus) < 0:
            raise ValueError
    except ValueError:
        raise ConfigurationError(
            "--encode-with",
            where=line,
            expected=_FORM,
            found="another form",
            next_step=f"write {_FORM} (docs/scale.md)",
        ) from None
    return workers


def _workers(text: str) -> tuple[int, int]:
    """Return minimum and maximum: `8` is 1 to 8, `4-8` a range."""
    fewest, most = (int(part) for part in (text if "-" in text else f"1-{text}").split("-"))
    if not 1 <= fewest <= most:
        raise ValueError
    return fewest, most
