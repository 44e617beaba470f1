"""Encoding a corpus on many machines or GPUs with Ray Data, into the shards that `DenseRetriever` reads.

The driver cuts the corpus into the same shards as one process would, leaves those alone that are finished, and puts
the passages of the others in a spool beside them. Ray hands each spool file to a worker, which writes the finished
shard itself; only shard numbers travel. A shard whose worker or machine is lost is handed to another one. A killed
driver is called again and finds every finished shard. Afterwards `DenseRetriever.index`, with the same corpus and
folder, encodes nothing.

The folder and its spool must be seen by every machine under the same path (a shared file system), and every machine
needs the same ragtasks and libraries: a worker whose encoder is another one refuses to work.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import orjson

from ragtasks.errors import CacheError, ConfigurationError, MissingExtraError, RagtasksError, clear_error
from ragtasks.files import write_atomically
from ragtasks.records import Passage
from retrieval_cache.engines._vectors_of import DenseVectors
from retrieval_cache.retrievers import DenseRetriever, Progress, ShardFolder, chunks, no_progress, passages_hash


@dataclass(frozen=True, slots=True)
class RayEncoding:
    """What was done; decides nothing."""

    n_kept: int
    """Shards that were finished before."""
    n_made: int
    """Shards that were encoded."""
    made_on: Mapping[str, int] = field(default_factory=dict)
    """Ray's id of a machine -> shards that it delivered."""


def encode_corpus(
    model: str,
    passages: Iterable[Passage],
    folder: Path,
    *,
    options: Mapping[str, Any] | None = None,
    workers: int | tuple[int, int] = 1,
    cpus: float = 1,
    gpus: float = 0,
    progress: Progress = no_progress,
) -> RayEncoding:
    """Return what was done to fill `folder` with the vectors of a corpus; all of them are there then.

    The caller has connected to a cluster with `ray.init`; without, Ray starts on this machine.

    Args:
        model: encoder, as for `DenseRetriever`.
        passages: read once, in the order of the corpus.
        folder: as for `DenseRetriever.index`, on a file system that all machines share.
        options: keyword arguments of `DenseRetriever`; the same must be given to the one that searches.
        workers: processes that encode, or fewest and most of them; each loads the encoder once.
        cpus: CPUs for each worker.
        gpus: GPUs for each worker; a fraction puts several on one.
        progress: told of the passages that are read and the shards that are encoded.

    Raises:
        MissingExtraError: ray is not installed.
        ConfigurationError: `workers` is out of range.
        RagtasksError: as `DenseRetriever.index`.
        CacheError: what a worker could not do, in its words: a full disk, other versions of the encoder, a folder that
            it does not see. Finished shards are kept.
    """
    data = _ray_data()
    pool = _pool(data, workers)
    settings = {"model": model, **(options or {})}
    folder = folder.resolve()
    vectors = DenseVectors(DenseRetriever(**settings))
    shards = vectors.shard_folder(folder)
    # Refuses vectors of another width before anything is encoded.
    shards._clean()
    spool = folder.with_name(f"{folder.name}.spool")
    shutil.rmtree(spool, ignore_errors=True)
    waiting, n_shards = _spooled(shards, passages, spool, progress)
    made_on: Counter[str] = Counter()
    if waiting:
        context = data.DataContext.get_current()
        # Progress goes through the callback only.
        context.enable_progress_bars = False
        encoded = (
            data.from_items(waiting, override_num_blocks=len(waiting))
            .map(
                _Worker,
                fn_constructor_args=(settings, str(folder), shards.encoder),
                compute=pool,
                num_cpus=cpus,
                num_gpus=gpus,
            )
            .iter_rows()
        )
        for row in _delivered(encoded):
            made_on[row["machine"]] += 1
            progress("encode shards", made_on.total(), len(waiting))
    shutil.rmtree(spool, ignore_errors=True)
    return RayEncoding(n_shards - len(waiting), len(waiting), dict(made_on))


def _ray_data() -> Any:
    try:
        import ray.data
    except ModuleNotFoundError as error:
        raise MissingExtraError("ray[data]", "scale", "encoding on several machines") from error
    return ray.data


def _pool(data: Any, workers: int | tuple[int, int]) -> Any:
    # A range, because Ray waits for room for the fewest, also after a machine is lost.
    fewest, most = (1, workers) if isinstance(workers, int) else workers
    if not 1 <= fewest <= most:
        raise ConfigurationError(f"workers must be at least 1, and a range ascending; found {workers!r}")
    # One shard at a time: what waits at a worker is lost with it.
    return data.ActorPoolStrategy(min_size=fewest, max_size=most, max_tasks_in_flight_per_actor=1)


def _spooled(
    shards: ShardFolder, passages: Iterable[Passage], spool: Path, progress: Progress
) -> tuple[list[dict[str, Any]], int]:
    """Return the shards that are not finished, their passages written to the spool, and the number of all shards."""
    waiting: list[dict[str, Any]] = []
    number = n_passages = 0
    for number, shard in enumerate(chunks(passages, shards.size), start=1):
        if not _finished(shards, number - 1, shard):
            path = spool / f"{number - 1:06d}.jsonl"
            write_atomically(path, b"".join(orjson.dumps(asdict(passage)) + b"\n" for passage in shard))
            waiting.append({"number": number - 1, "spool": str(path)})
        n_passages += len(shard)
        progress("read passages", n_passages, None)
    return waiting, number


def _finished(shards: ShardFolder, number: int, shard: Sequence[Passage]) -> bool:
    seal = shards._read_seal(number)
    if seal is None or (seal.passages, seal.encoder) != (passages_hash(shard), shards.encoder):
        return False
    return shards._whole(seal, number)


class _Worker:
    """Encodes shards on one machine; holds the encoder."""

    def __init__(self, settings: Mapping[str, Any], folder: str, encoder: str) -> None:
        self._vectors = DenseVectors(DenseRetriever(**settings))
        self._folder, self._expected = Path(folder), encoder

    def __call__(self, row: dict[str, Any]) -> dict[str, Any]:
        import ray

        machine = ray.get_runtime_context().get_node_id()
        try:
            self._encode(row["number"], Path(row["spool"]))
        except RagtasksError as error:
            # As a value, because Ray keeps of what is raised only the text of a traceback.
            return {"machine": machine, "violation": f"machine {ray.util.get_node_ip_address()}: {error}"}
        return {"machine": machine, "violation": ""}

    def _encode(self, number: int, path: Path) -> None:
        shards = self._vectors.shard_folder(self._folder)
        if shards.encoder != self._expected:
            raise _refused("encoder", "that of the driver", f"another, or other versions: {self._vectors.describe()}")
        if not path.is_file():
            raise _refused(str(path), "the driver's file", "nothing at that path")
        passages = [Passage(**orjson.loads(line)) for line in path.read_bytes().splitlines()]
        shards._shard(number, passages, lambda shard, _: self._vectors.encode_shard(shard), lambda n: None)


def _refused(where: str, expected: str, found: str) -> CacheError:
    return CacheError(
        clear_error(
            "encode with Ray",
            where=where,
            expected=expected,
            found=found,
            next_step="install the same packages on every machine, and give a folder that all of them share",
        )
    )


def _delivered(rows: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the rows of workers that did their work; raise what one of them could not do."""
    from ray.exceptions import RayError

    try:
        for row in rows:
            if row["violation"]:
                raise CacheError(row["violation"])
            yield row
    except RayError as error:
        message = clear_error(
            "encode with Ray",
            where="a worker",
            expected="finished shards",
            found=type(error).__name__,
            next_step="read the cause and Ray's logs, then call again: finished shards are kept",
        )
        raise CacheError(message) from error


__all__ = ["RayEncoding", "encode_corpus"]
