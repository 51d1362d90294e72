"""The stack answers a question from its images, with two replicas of each service, as restricted as possible."""

import json
from pathlib import Path
from typing import Any

import httpx

from deploy.rehearsal.cluster import Cluster, Pod
from deploy.rehearsal.report import Goal
from deploy.rehearsal.specs import IMAGES, SERVICES

HEADINGS = ("pod", "image, MB", "ready after, s", "memory, MB", "user", "capabilities", "root file system", "compilers")
QUESTION = "How many ropes hold the ferry, and how long is each?"
LOCKED_IN = "not root, no capabilities, no new privileges, read-only root, no compilers"
_COMPILERS = ("cc", "gcc", "g++", "c++", "clang", "ld", "as", "make", "rustc", "go", "uv")

_LOOK = f"""
import json, os, shutil
status = dict(line.split(":", 1) for line in open("/proc/self/status").read().splitlines() if ":" in line)
try:
    open("/app/written", "w")
    root = "writable"
except OSError as error:
    root = os.strerror(error.errno)
print(json.dumps({{
    "uid": os.getuid(), "capabilities": int(status["CapBnd"], 16) | int(status["CapEff"], 16),
    "no_new_privileges": status["NoNewPrivs"].strip(), "root": root,
    "compilers": [name for name in {_COMPILERS!r} if shutil.which(name)]}}))
"""


async def answer(cluster: Cluster) -> tuple[list[list[object]], list[Goal]]:
    """Inspects every pod from inside, and asks a question."""
    rows: list[list[object]] = []
    safe = True
    for service in SERVICES:
        for pod in cluster.pods[service]:
            checks = json.loads(await cluster.engine.podman("exec", pod.container.name, "python", "-c", _LOOK))
            locked = checks["uid"] > 0 and checks["capabilities"] == 0 and checks["no_new_privileges"] == "1"
            safe = safe and locked and checks["root"] == "Read-only file system" and not checks["compilers"]
            rows.append(
                [
                    pod.container.name.removeprefix("citewire-rehearsal-"),
                    await image_megabytes(cluster, IMAGES[service]),
                    round(pod.start_seconds, 1),
                    _memory(pod),
                    checks["uid"],
                    "none" if not checks["capabilities"] else hex(checks["capabilities"]),
                    checks["root"].lower(),
                    " ".join(checks["compilers"]) or "none",
                ]
            )
    text, source = await _ask(cluster)
    print(f"> {QUESTION}\n> {text}\n> from {source.get('file_name')}: {' '.join(str(source.get('snippet')).split())}\n")
    right = "six ropes" in text and source.get("file_name") == "ropes.md"
    counts = [len(pods) for pods in cluster.pods.values()]
    return rows, [
        Goal("an answer with its source, from the images", "ropes.md", str(source.get("file_name")), right),
        Goal(LOCKED_IN, "all pods", "all pods" if safe else "see above", safe),
        Goal("replicas of each service", "2", str(min(counts)), set(counts) == {2}),
    ]


async def _ask(cluster: Cluster) -> tuple[str, dict[str, Any]]:
    """Returns the extractive provider's answer and its first source."""
    body = {"question": QUESTION, "stream": False, "model": "extractive"}
    async with httpx.AsyncClient(headers=cluster.headers, trust_env=False, timeout=30) as http:
        response = (await http.post(f"{cluster.balancer.url()}/v1/chat", json=body)).raise_for_status()
    answered: dict[str, Any] = response.json()
    sources: list[dict[str, Any]] = answered["citations"]
    return str(answered["answer"]), sources[0] if sources else {}


async def image_megabytes(cluster: Cluster, image: str) -> int:
    """An image's size, including its base."""
    size = await cluster.engine.podman("image", "inspect", "--format", "{{.Size}}", cluster.image(image))
    return round(int(size) / 1e6)


def _memory(pod: Pod) -> int:
    """Resident memory of the pod's first process, in MB."""
    status = Path(f"/proc/{pod.container.pid}/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("VmRSS:"))
    return round(int(line.split()[1]) * 1024 / 1e6)
