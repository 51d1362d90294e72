"""LiteLLM's proxy with mock models: a third-party server on loopback with the providers' protocols."""

from __future__ import annotations

import json
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks import litellm_environment
from local_ports import free_port

KEY = "sk-litellm-proxy"
RELAYED = "relayed-"
START_SECONDS = 180
STOP_SECONDS = 10


@dataclass(frozen=True, slots=True)
class LiteLlmProxy:
    """A proxy that runs."""

    port: int
    """Its port on loopback."""

    @property
    def root(self) -> str:
        """Its address without a path."""
        return f"http://127.0.0.1:{self.port}"


@contextmanager
def litellm_proxy(folder: Path, models: Mapping[str, object]) -> Generator[LiteLlmProxy]:
    """Runs a proxy until the block ends. The first run on a machine installs it.

    Args:
        folder: Takes its settings and its log.
        models: The answer of each of its models: a text, the name of an error of LiteLLM, a complete completion, or a
            vector. `relayed-NAME` is the same model through the proxy once more, as its Messages API only streams the
            answers of real servers: for a mock it sends one JSON message instead.
    """
    program = litellm_environment.install()
    port = free_port()
    config, log = folder / "litellm.json", folder / "litellm.log"
    config.write_text(
        json.dumps(_settings(port, models), ensure_ascii=False)
    )  # JSON is YAML, except for escaped surrogates
    with log.open("wb") as output:
        process = subprocess.Popen(
            [program, "--config", config, "--host", "127.0.0.1", "--port", str(port)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=litellm_environment.environment(),
            cwd=folder,
        )
    try:
        proxy = LiteLlmProxy(port)
        _wait_ready(f"{proxy.root}/health/liveliness", process, log)
        yield proxy
    finally:
        process.terminate()
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _settings(port: int, models: Mapping[str, object]) -> dict[str, object]:
    listed: list[object] = []
    for name, answer in models.items():
        model = "openai/text-embedding-3-small" if isinstance(answer, list) else "openai/gpt-4o-mini"
        mock: dict[str, object] = {"model": model, "api_key": "none", "mock_response": answer}
        relay: dict[str, object] = {
            "model": f"litellm_proxy/{name}",
            "api_key": KEY,
            "api_base": f"http://127.0.0.1:{port}/v1",
        }
        listed.append({"model_name": name, "litellm_params": mock})
        listed.append({"model_name": f"{RELAYED}{name}", "litellm_params": relay})
    return {
        "model_list": listed,
        "litellm_settings": {"telemetry": False, "num_retries": 0},
        "router_settings": {"num_retries": 0, "disable_cooldowns": True},
        "general_settings": {"master_key": KEY},
    }


def _wait_ready(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    until = time.monotonic() + START_SECONDS
    while time.monotonic() < until and process.poll() is None:
        try:
            with urllib.request.urlopen(url, timeout=5) as response:  # noqa: S310 # an address on loopback
                if response.status == 200:
                    return
        except (urllib.error.URLError, OSError):
            time.sleep(0.2)  # polling another process's readiness
    msg = f"LiteLLM's proxy isn't ready ({process.poll()}):\n{log.read_text(errors='replace')[-3000:]}"
    raise RuntimeError(msg)
