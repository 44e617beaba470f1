"""What others wrote and nobody here has read: models' weights are numbers that run nothing, other work is bounded.

Weights first: what others' models may bring.

A model's folder can hold Python, which loaders run where they may, and pickles, which run whatever they name. No load
of ours takes either: `NO_CODE` goes into every call of a loader, and what fails in one is one clear error.
"""

from __future__ import annotations

import atexit
import contextlib
import errno
import itertools
import json
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

from ragtasks.errors import ConfigurationError, RagtasksError

NO_CODE: Mapping[str, bool] = {"trust_remote_code": False}
"""Said outright: left open, transformers asks on the terminal whether a model's own code may run."""

_SAY_WHAT_IT_IS = ("config.json", "adapter_config.json", "modules.json", "tokenizer_config.json", "*.gguf")
_HUB_WEIGHTS = (
    "model.safetensors",
    "pytorch_model.bin",
    "model.safetensors.index.json",
    "pytorch_model.bin.index.json",
)
_HUB_TOKENIZERS = ("tokenizer.json", "tokenizer_config.json", "vocab.txt", "vocab.json", "spiece.model", "spm.model")


def is_model_folder(path: str | Path) -> bool:
    """Return whether a folder holds a model, and does not only have its name, as one with its results has."""
    folder = Path(path)
    return folder.is_dir() and any(any(folder.glob(name)) for name in _SAY_WHAT_IT_IS)


def is_cached(name: str, *further: str) -> bool:
    """Return whether weights, configuration, tokeniser and further files of a model are in the cache of the hub."""
    from huggingface_hub import try_to_load_from_cache

    def has(*files: str) -> bool:
        return any(isinstance(try_to_load_from_cache(name, file), str) for file in files)

    try:
        # What the cache knows to be missing on the hub is as good as there.
        is_known = all(try_to_load_from_cache(name, file) is not None for file in further)
        return has("config.json") and has(*_HUB_WEIGHTS) and has(*_HUB_TOKENIZERS) and is_known
    except ValueError:  # no name of the hub: a folder
        return False


def from_cache(name: str, *further: str) -> dict[str, bool]:
    """Return how a model is loaded without waiting for the hub, where it is whole in the cache."""
    return {"local_files_only": is_cached(name, *further)}


_PICKLES = frozenset({".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle"})
_NO_PICKLE = "openvino_model"  # numbers as they are, and no loader of ours opens them
_WEIGHTS = "*.safetensors"
_MAX_CHARACTERS = 200


@contextmanager
def loading(
    purpose: str, name: str | Path, *, expected: str, next_step: str, has_weights: bool = True
) -> Iterator[None]:
    """Load a model or a tokeniser inside of the block; what goes wrong there is one error about it."""
    if has_weights:
        refuse_pickles(purpose, name)
    try:
        yield
    except RagtasksError:
        raise
    except Exception as error:
        raise ConfigurationError(
            purpose, where=f"model {str(name)!r}", expected=expected, found=_reason(error), next_step=next_step
        ) from error


def refuse_pickles(purpose: str, name: str | Path) -> None:
    """Refuse a model's folder that has weights as pickles; a name on the hub passes."""
    folder = Path(name)
    candidates = sorted(folder.rglob("*")) if folder.is_dir() else []
    pickles = [
        path.relative_to(folder).as_posix()
        for path in candidates
        if path.suffix.lower() in _PICKLES
        and not path.name.startswith(_NO_PICKLE)
        and not any(path.parent.glob(_WEIGHTS))
    ]
    if pickles:
        raise ConfigurationError(
            purpose,
            where=f"model {str(name)!r}",
            expected="weights as .safetensors",
            found=f"{', '.join(pickles)}: a pickle, which can run any program when it is opened",
            next_step="take a version of the model with .safetensors, or, if you trust the folder, convert it "
            "(AutoModel.from_pretrained(FOLDER).save_pretrained(NEW))",
        )


def _reason(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    message = next((line.strip() for line in lines if line.strip()), "")
    if "trust_remote_code" in str(error):
        return "it comes with Python code, which is never run"
    message = message[:_MAX_CHARACTERS]
    kind = "" if message and isinstance(error, OSError | ValueError) else type(error).__name__
    return ": ".join(filter(None, [kind, message]))


# YAML: small enough to be read at once, and no larger than it looks.

_MOST_BYTES, _MOST_VALUES, _DEEPEST = 1 << 18, 10_000, 40


def yaml_text(path: Path) -> str:
    """Return the text of a YAML file; OSError where it is no regular file or too large, UnicodeDecodeError."""
    if path.exists() and not path.is_file() and not path.is_dir():
        raise OSError(errno.EINVAL, "no regular file", str(path))
    with path.open("rb") as file:
        content = file.read(_MOST_BYTES + 1)
    if len(content) > _MOST_BYTES:
        raise OSError(errno.EFBIG, f"more than {_MOST_BYTES >> 10} KiB", str(path))
    return content.decode("utf-8-sig")


def read_yaml(text: str) -> tuple[Any, Any]:
    """Return the root node (with lines) and the content of YAML.

    Raises:
        ValueError: larger than it may be, once aliases are written out.
        YAMLError, RecursionError: no YAML.
    """
    import yaml

    loader = yaml.SafeLoader(text)
    try:
        root = loader.get_single_node()
        waiting, n_values = [(root, 1)] if root else [], 0
        while waiting:
            node, depth = waiting.pop()
            n_values += 1
            if n_values > _MOST_VALUES or depth > _DEEPEST:
                raise ValueError(f"more than {_MOST_VALUES:,} values with aliases written out, or {_DEEPEST} levels")
            inner = itertools.chain(*node.value) if isinstance(node, yaml.MappingNode) else node.value
            waiting += [(one, depth + 1) for one in inner if isinstance(one, yaml.Node)]
        return root, loader.construct_document(root) if root else None
    finally:
        loader.dispose()


# Work on what others wrote, done by another process that cannot take all memory or run for ever.
# No rule inside one process bounds what a template or a file can cost, so the operating system does. A line of JSON
# goes in for each piece of work, and one comes out.

_CODE = "import sys; from ragtasks.files._untrusted import serve; serve(*sys.argv[1:])"
_ABOVE = Path(__file__).resolve().parents[2]  # its folder, so that it imports this very package
_NO_WORKER = 3  # status of a process whose work cannot be imported


class OutOfBoundsError(Exception):
    """A piece of work that took more time or memory than it may, or ended its process."""


class BoundedProcess:
    """The process, started by the first piece of work and again after each that ended it."""

    def __init__(self, worker: str, *, seconds: float, most_bytes: int) -> None:
        """Name the work."""
        self._worker, self._seconds, self._most_bytes = worker, seconds, most_bytes
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None

    def ask(self, question: Mapping[str, Any]) -> dict[str, Any]:
        """Return what the worker makes of a JSON object."""
        request = json.dumps(dict(question)).encode() + b"\n"
        with self._lock:
            line = self._exchange(request)
            if not line.endswith(b"\n"):
                if self.close() == _NO_WORKER:
                    raise ImportError(f"{self._worker}: no such module or function")
                raise OutOfBoundsError(
                    f"more than {self._seconds:g} seconds or {self._most_bytes >> 20:,} MiB of memory"
                )
        reply: dict[str, Any] = json.loads(line)
        return reply

    def _exchange(self, line: bytes) -> bytes:
        if self._process is None:
            atexit.register(self.close)
            self._process = subprocess.Popen(
                [sys.executable, "-c", _CODE, self._worker, str(self._seconds), str(self._most_bytes)],
                cwd=_ABOVE,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin, "a pipe"
        assert stdout, "a pipe"
        try:
            stdin.write(line)
            stdin.flush()
        except OSError:  # it ended before
            return b""
        return stdout.readline()

    def close(self) -> int | None:
        """End the process, and return its status; None if there is none."""
        process, self._process = self._process, None
        atexit.unregister(self.close)
        if process is None:
            return None
        process.kill()
        process.communicate()
        return process.returncode


def serve(worker: str, seconds: str, most_bytes: str) -> None:
    """Answer every line of standard input: what the process runs (see `BoundedProcess`)."""
    module, _, name = worker.partition(":")
    try:
        work: Callable[[dict[str, Any]], Mapping[str, Any]] = getattr(import_module(module), name)
    except (ImportError, AttributeError):
        sys.exit(_NO_WORKER)
    with contextlib.suppress(ImportError, OSError, ValueError):  # no such limits on Windows, not this one on macOS
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (int(most_bytes), int(most_bytes)))
    out, sys.stdout = sys.stdout.buffer, sys.stderr  # what a library prints is no reply
    for line in sys.stdin.buffer:
        _alarm(float(seconds))
        reply = work(json.loads(line))
        _alarm(0)
        out.write(json.dumps(reply).encode() + b"\n")
        out.flush()


def _alarm(seconds: float) -> None:
    """Have the system kill this process after so much computing, in the middle of a call too; 0 takes that back."""
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_PROF, seconds)
