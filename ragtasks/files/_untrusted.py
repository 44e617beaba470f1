"""Protection against files from others: model folders run no code, and other work has limits.

A model folder can contain Python code, which loaders may run, and pickles, which can run any program. ragtasks never
runs this code and never opens pickles. Every call of a loader receives `NO_CODE`, and every failure in it becomes one
clear error.
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
"""Set explicitly: by default transformers prompts on the terminal before it runs a model's own code."""

_MODEL_FILES = (
    "config.json",
    "params.json",  # of Mistral, for vLLM
    "adapter_config.json",
    "modules.json",
    "tokenizer_config.json",
    "*.gguf",
)
_HUB_WEIGHTS = (
    "model.safetensors",
    "pytorch_model.bin",
    "model.safetensors.index.json",
    "pytorch_model.bin.index.json",
)
_HUB_TOKENIZERS = ("tokenizer.json", "tokenizer_config.json", "vocab.txt", "vocab.json", "spiece.model", "spm.model")


def is_model_folder(path: str | Path) -> bool:
    """Return whether a folder contains a model. A folder with results of a model may have the same name."""
    folder = Path(path)
    return folder.is_dir() and any(any(folder.glob(name)) for name in _MODEL_FILES)


def is_cached(name: str, *further: str) -> bool:
    """Return whether weights, configuration, tokenizer and further files of a model are in the hub's cache."""
    from huggingface_hub import try_to_load_from_cache

    def has(*files: str) -> bool:
        return any(isinstance(try_to_load_from_cache(name, file), str) for file in files)

    try:
        # A file that the cache records as missing on the hub counts as cached.
        is_known = all(try_to_load_from_cache(name, file) is not None for file in further)
        return has("config.json") and has(*_HUB_WEIGHTS) and has(*_HUB_TOKENIZERS) and is_known
    except ValueError:  # not a name of the hub: a folder
        return False


def model_configuration(name: str) -> dict[str, Any]:
    """Return the configuration of local or cached weights; empty if it is missing or cannot be read."""
    from huggingface_hub import try_to_load_from_cache

    file: Any = Path(name) / "config.json"
    try:
        file = file if file.is_file() else try_to_load_from_cache(name, file.name)
        return dict(json.loads(Path(file).read_bytes()))
    except (OSError, ValueError, TypeError):  # ValueError also for a name that the hub cannot have
        return {}


def from_cache(name: str, *further: str) -> dict[str, bool]:
    """Return the arguments that load a completely cached model without contacting the hub."""
    return {"local_files_only": is_cached(name, *further)}


_PICKLES = frozenset({".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle"})
_NO_PICKLE = "openvino_model"  # plain numbers, which no loader of ragtasks opens
_WEIGHTS = "*.safetensors"
_MAX_CHARACTERS = 200


@contextmanager
def loading(
    purpose: str, name: str | Path, *, expected: str, next_step: str, has_weights: bool = True
) -> Iterator[None]:
    """Load a model or a tokenizer inside the block. Any failure becomes a single ConfigurationError about it."""
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
    """Refuse a model folder with pickled weights. Names on the hub are accepted."""
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
    error_type = "" if message and isinstance(error, OSError | ValueError) else type(error).__name__
    return ": ".join(filter(None, [error_type, message]))


# YAML files, with limits on their size before and after aliases are expanded.

_MOST_BYTES, _MOST_VALUES, _DEEPEST = 1 << 18, 10_000, 40


def yaml_text(path: Path) -> str:
    """Return the text of a YAML file.

    Raises:
        OSError: not a regular file, or too large.
        UnicodeDecodeError: not UTF-8.
    """
    if path.exists() and not path.is_file() and not path.is_dir():
        raise OSError(errno.EINVAL, "no regular file", str(path))
    with path.open("rb") as file:
        content = file.read(_MOST_BYTES + 1)
    if len(content) > _MOST_BYTES:
        raise OSError(errno.EFBIG, f"more than {_MOST_BYTES >> 10} KiB", str(path))
    return content.decode("utf-8-sig")


def read_yaml(text: str) -> tuple[Any, Any]:
    """Return the root node (with line numbers) and the content of YAML.

    Raises:
        ValueError: too large once aliases are expanded.
        YAMLError, RecursionError: not valid YAML.
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
            children = itertools.chain(*node.value) if isinstance(node, yaml.MappingNode) else node.value
            waiting += [(child, depth + 1) for child in children if isinstance(child, yaml.Node)]
        return root, loader.construct_document(root) if root else None
    finally:
        loader.dispose()


# Work on files from others runs in another process with limits on memory and time. No check inside a process can bound
# the cost of a template or a file, so the operating system does. Each request and each reply is a line of JSON.

_CODE = "import sys; from ragtasks.files._untrusted import serve; serve(*sys.argv[1:])"
_ABOVE = Path(__file__).resolve().parents[2]  # the folder above the package, so that the process imports this copy
_NO_WORKER = 3  # exit status if the worker cannot be imported


class OutOfBoundsError(Exception):
    """A request that exceeded its time or memory, or ended its process."""


class BoundedProcess:
    """A worker process. The first request starts it, and the first request after a crash restarts it."""

    def __init__(self, worker: str, *, seconds: float, most_bytes: int) -> None:
        """Set the worker (`module:function`) and its limits."""
        self._worker, self._seconds, self._most_bytes = worker, seconds, most_bytes
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None

    def ask(self, question: Mapping[str, Any]) -> dict[str, Any]:
        """Return the worker's reply to a JSON object."""
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
        except OSError:  # the process has ended
            return b""
        return stdout.readline()

    def close(self) -> int | None:
        """End the process and return its status; None if it is not running."""
        process, self._process = self._process, None
        atexit.unregister(self.close)
        if process is None:
            return None
        process.kill()
        process.communicate()
        return process.returncode


def serve(worker: str, seconds: str, most_bytes: str) -> None:
    """Answer every line of standard input. This function runs in the process of `BoundedProcess`."""
    module, _, name = worker.partition(":")
    try:
        work: Callable[[dict[str, Any]], Mapping[str, Any]] = getattr(import_module(module), name)
    except (ImportError, AttributeError):
        sys.exit(_NO_WORKER)
    with contextlib.suppress(ImportError, OSError, ValueError):  # Windows has no such limits, macOS not this limit
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (int(most_bytes), int(most_bytes)))
    out, sys.stdout = sys.stdout.buffer, sys.stderr  # output of libraries must not mix with replies
    for line in sys.stdin.buffer:
        _alarm(float(seconds))
        reply = work(json.loads(line))
        _alarm(0)
        out.write(json.dumps(reply).encode() + b"\n")
        out.flush()


def _alarm(seconds: float) -> None:
    """Let the system kill this process after so many seconds of CPU time, even inside a call; 0 cancels it."""
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_PROF, seconds)
