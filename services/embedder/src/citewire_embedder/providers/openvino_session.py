"""OpenVINO on the CPU: compiles a graph in a precision and runs it. Why OpenVINO: docs/adr/0007."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import cast

import numpy as np
import openvino as ov
from numpy.typing import NDArray

from citewire_embedder.providers.base import Precision
from citewire_kit.errors import StartupError

_INT8_GROUP = "64"
"""How many activations share one scale in int8: the best trade-off, measured in docs/adr/0007."""

_BF16_FLAGS = {"avx512_bf16", "amx_bf16", "avx_ne_convert", "bf16"}  # the last one is Arm's


class Session:
    """A compiled graph. One thread at a time may run it."""

    def __init__(self, compiled: ov.CompiledModel) -> None:
        self._request = compiled.create_infer_request()
        self._inputs = [port.get_any_name() for port in compiled.inputs]
        self.outputs = [port.get_any_name() for port in compiled.outputs]

    def run(self, feeds: Mapping[str, NDArray[np.int64]]) -> NDArray[np.float32]:
        """Computes the first output. `feeds` may contain inputs that the graph doesn't take.

        Returns:
            A copy of the output, because the runtime reuses its own buffer.
        """
        self._request.infer([feeds[name] for name in self._inputs], share_inputs=True)
        return np.array(self._request.get_output_tensor(0).data, np.float32)


def compile_session(model: bytes | Path, precision: Precision, threads: int) -> Session:
    """Compiles a graph.

    Args:
        model: An ONNX model, or the path of one.
        precision: Numeric precision. int8 needs a graph with int8 weights.
        threads: CPU threads of one computation.

    Raises:
        StartupError: The CPU lacks the precision, or the runtime can't load the graph.
    """
    if precision is Precision.BF16 and not bf16_supported():
        raise StartupError("precision bf16 is set, and this CPU has no bf16 instructions: set fp32 or int8")
    core = ov.Core()
    options = {
        "INFERENCE_PRECISION_HINT": "bf16" if precision is Precision.BF16 else "f32",
        "INFERENCE_NUM_THREADS": str(threads),
        "NUM_STREAMS": "1",
        "PERFORMANCE_HINT": "LATENCY",
        "ENABLE_CPU_PINNING": "NO",  # several processes share a machine, and the kernel knows which core is free
        "DYNAMIC_QUANTIZATION_GROUP_SIZE": _INT8_GROUP if precision is Precision.INT8 else "0",
    }
    try:
        source = model if isinstance(model, bytes) else str(model)
        graph = core.read_model(source)  # pyright: ignore[reportUnknownMemberType] - its stub lacks types
        return Session(core.compile_model(graph, "CPU", options))
    except RuntimeError as exc:
        raise StartupError(f"OpenVINO can't load the model: {exc}") from exc


def bf16_supported(cpuinfo: Path = Path("/proc/cpuinfo")) -> bool:
    """Whether the CPU multiplies in bf16.

    OpenVINO reports it for any AVX-512 CPU and emulates missing instructions, which is slower than fp32, so the CPU's
    flags decide if the kernel lists them.
    """
    capabilities = cast("list[str]", ov.Core().get_property("CPU", "OPTIMIZATION_CAPABILITIES"))
    if "BF16" not in capabilities:
        return False
    try:
        lines = cpuinfo.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return True
    flags = {flag for line in lines if line.lower().startswith(("flags", "features")) for flag in line.split()}
    return not flags or bool(flags & _BF16_FLAGS)


def available_cpus(cgroup: Path = Path("/sys/fs/cgroup/cpu.max")) -> int:
    """Returns how many CPUs this process may use: its affinity, and its container's quota rounded up, at least 1."""
    cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        quota, period = cgroup.read_text(encoding="ascii").split()
    except (OSError, ValueError):
        return cpus
    if quota == "max":
        return cpus
    return max(1, min(cpus, -(-int(quota) // int(period))))
