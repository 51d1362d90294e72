from __future__ import annotations

import os
from pathlib import Path

import pytest

from citewire_embedder.providers import openvino_session
from citewire_embedder.providers.base import Precision
from citewire_embedder.providers.openvino_session import available_cpus, bf16_supported, compile_session
from citewire_kit.errors import StartupError


@pytest.mark.parametrize(
    ("flags", "supported"),
    [
        ("flags\t\t: fpu avx2 avx512f avx512bw\n", False),
        ("flags\t\t: fpu avx512f avx512_bf16\n", True),
        ("flags\t\t: fpu avx512f amx_bf16 amx_tile\n", True),
        ("Features\t: fp asimd\n", False),
    ],
)
def test_the_cpus_flags_decide_on_bf16(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flags: str, supported: bool
) -> None:
    (tmp_path / "cpuinfo").write_text(f"processor\t: 0\n{flags}", encoding="utf-8")
    monkeypatch.setattr(openvino_session, "ov", Runtime(["FP32", "BF16"]))
    assert bf16_supported(tmp_path / "cpuinfo") is supported
    monkeypatch.setattr(openvino_session, "ov", Runtime(["FP32"]))
    assert bf16_supported(tmp_path / "cpuinfo") is False


def test_if_no_flags_can_be_read_the_runtime_decides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(openvino_session, "ov", Runtime(["FP32", "BF16"]))
    assert bf16_supported(tmp_path / "no-such-file") is True


def test_bf16_on_a_cpu_without_it_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(openvino_session, "ov", Runtime(["FP32"]))
    with pytest.raises(StartupError, match="precision bf16 is set, and this CPU has no bf16 instructions"):
        compile_session(b"", Precision.BF16, threads=1)


@pytest.mark.parametrize(
    ("quota", "expected"),
    [("max 100000\n", None), ("50000 100000\n", 1), ("100000 100000\n", 1), ("9900000 100000\n", None), ("?", None)],
)
def test_a_containers_quota_limits_the_threads(tmp_path: Path, quota: str, expected: int | None) -> None:
    (tmp_path / "cpu.max").write_text(quota, encoding="ascii")
    assert available_cpus(tmp_path / "cpu.max") == (expected or len(os.sched_getaffinity(0)))


def test_without_a_quota_all_cpus_are_used(tmp_path: Path) -> None:
    assert available_cpus(tmp_path / "no-such-file") == len(os.sched_getaffinity(0))


class Runtime:
    """A fake OpenVINO runtime of another CPU."""

    def __init__(self, capabilities: list[str]) -> None:
        self._capabilities = capabilities

    def Core(self) -> Runtime:  # noqa: N802 # the runtime's own name
        return self

    def get_property(self, device: str, name: str) -> list[str]:
        assert (device, name) == ("CPU", "OPTIMIZATION_CAPABILITIES")
        return self._capabilities
