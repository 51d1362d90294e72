"""Runs the examples of docs/how-to/grpc.md in order, exactly as they are printed.

Only the ports are replaced: the page has the usual ones, the stack uses free ones.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from local_stack import LocalStack

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "how-to" / "grpc.md").read_text(encoding="utf-8")
PORTS = {"50051": "embedder", "50052": "retriever", "50053": "generator"}
MOST_LINES = 30
CLIENTS = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
CURLS = "".join(re.findall(r"^```sh\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)).splitlines()


def run(stack: LocalStack, *command: str) -> str:
    ports = stack.ports("port")
    filled = [re.sub(r"127\.0\.0\.1:(5005\d)", lambda m: f"127.0.0.1:{ports[PORTS[m[1]]]}", part) for part in command]
    programs = Path(sys.executable).parent
    environ = {**os.environ, "CITEWIRE_DATA_DIR": str(stack.data_dir), "PATH": f"{programs}:{os.environ['PATH']}"}
    done = subprocess.run(filled, cwd=ROOT, env=environ, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, f"{command}\n{done.stderr}"
    return done.stdout


def test_each_service_has_a_short_client_and_a_call_with_buf() -> None:
    assert len(CLIENTS) == len(CURLS) == 3
    assert max(len(client.splitlines()) for client in CLIENTS) <= MOST_LINES
    for number, port in enumerate(PORTS):
        assert port in CLIENTS[number]
        assert port in CURLS[number]


@pytest.mark.client("grpcio", "Embed, store, search, generate with the stubs alone ([examples](how-to/grpc.md))")
def test_the_examples_run_as_printed(stack: LocalStack) -> None:
    embedded, searched, generated = (run(stack, sys.executable, "-c", client) for client in CLIENTS)
    assert re.fullmatch(r"all-MiniLM-L6-v2 384 1536\n", embedded)
    assert "DOCUMENT_STATUS_READY" in searched
    assert re.search(r"^0\.\d\d Waves .*Sailings are cancelled", searched, re.MULTILINE | re.DOTALL)
    assert "2.5 metres. [ref:1]" in generated
    assert "VERDICT_SUPPORTED" in generated
    assert generated.rstrip().endswith("extractive [1]")
    by_buf = [run(stack, "bash", "-c", line) for line in CURLS]
    assert '"model": "all-MiniLM-L6-v2"' in by_buf[0]
    assert "2.5 metres" in by_buf[1], "the Python client's document is found"
    assert '"completed"' in by_buf[2]


@pytest.mark.parametrize("version", ["v1", "v1alpha"])
@pytest.mark.client("buf", "Embed, search, generate, with the schema from the servers")
def test_every_server_reflects_its_schema(stack: LocalStack, version: str) -> None:
    reflected = [line.replace("--schema protos", f"--reflect-protocol grpc-{version}") for line in CURLS]
    answers = [run(stack, "bash", "-c", line) for line in reflected]
    for answer, part in zip(answers, ('"vectors"', '"results"', '"completed"'), strict=True):
        assert part in answer


def test_a_port_lists_its_services(stack: LocalStack) -> None:
    printed = re.search(r"`(buf curl [^`]+--list-services [^`]+)`", PAGE)
    assert printed is not None
    listed = run(stack, "bash", "-c", printed[1]).split()
    assert {f"grpc.reflection.{version}.ServerReflection" for version in ("v1", "v1alpha")} < set(listed)
    assert "citewire.embedder.v1.EmbedderService" in listed
