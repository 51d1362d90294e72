"""The cost of the decision step for a reader: time to first token with and without it, beside the model's own times.

A model with fixed times for deciding and for the first token serves the whole stack, as started by `citewire up`.
The ways, in turns: the profile that decides, the same profile without deciding, and with `speculate`, which begins the
answer before the decision. The requirement: deciding costs only the time by which it exceeds retrieval, and
speculation costs nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx

from benchmarks.tables import describe_machine, format_table
from echo_model import MODEL, EchoModel, echo_model
from local_stack import local_stack

TEXT = "High water at the pier comes six hours after low water."
QUESTION = "Q-first-1: when is high water at the pier?"


def chat(**options: bool) -> dict[str, Any]:
    """A chat with the profile that decides, with some fields changed."""
    return {"question": QUESTION, "profile": "self-rag", "min_score": 0, "options": {"assess": False, **options}}


_DECISION, _SEARCH = "decision, alone", "search, alone"
WAYS: Mapping[str, dict[str, Any]] = {
    "without a decision": chat(decide=False),
    "with a decision": chat(),
    "speculating": chat(speculate=True),
}


async def first_token(http: httpx.AsyncClient, body: Mapping[str, Any]) -> tuple[float, float]:
    """Milliseconds until the decision is known (0 if there is none), and until the answer's first piece."""
    began, decided = time.perf_counter(), 0.0
    async with http.stream("POST", "/v1/chat", json=body) as response:
        response.raise_for_status()
        async for line in response.aiter_lines():
            if line == "event: decision":
                decided = (time.perf_counter() - began) * 1000
            elif line == "event: token":
                return decided, (time.perf_counter() - began) * 1000
    raise RuntimeError("the answer had no text")


async def search(http: httpx.AsyncClient) -> float:
    """Milliseconds of a search with the same question."""
    began = time.perf_counter()
    (await http.post("/v1/search", json={"query": QUESTION})).raise_for_status()
    return (time.perf_counter() - began) * 1000


async def measure(url: str, model: EchoModel, rounds: int) -> None:
    """Measures in turns, and prints the tables."""
    results: dict[str, list[float]] = {name: [] for name in (*WAYS, _DECISION, _SEARCH)}
    async with httpx.AsyncClient(base_url=url, trust_env=False, timeout=60) as http:
        body = {"type": "article", "title": "Tides", "content": TEXT}
        document = (await http.post("/v1/documents", json=body)).raise_for_status().json()["id"]
        while (await http.get(f"/v1/documents/{document}")).json()["status"] != "ready":  # noqa: ASYNC110 # there is no event to wait for
            await asyncio.sleep(0.1)
        for number in range(rounds + 2):
            for name, asked in WAYS.items():
                decided, took = await first_token(http, asked)
                if number >= 2:  # warms up connections and caches
                    results[name].append(took)
                    results[_DECISION] += [decided] if decided else []
            results[_SEARCH].append(await search(http))
    median = {name: statistics.median(times) for name, times in results.items()}
    own = median["without a decision"] - median[_SEARCH]
    print(
        f"{describe_machine()}\na decision takes {model.decide * 1000:g} ms, a first token {model.first * 1000:g} ms\n"
    )
    print(format_table(["what", "median, ms"], [[name, value] for name, value in median.items()]))
    bound = max(median[_DECISION], median[_SEARCH]) + own
    decided = median["with a decision"]
    print(f"\nmax(decision, retrieval) + generation's own: {bound:.1f} ms; with a decision: {decided:.1f} ms")
    print(f"over it: {decided - bound:+.1f} ms (at most 5 wanted)")


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--decide", type=float, default=0.15, help="seconds that a decision takes")
    parser.add_argument("--first", type=float, default=0.25, help="seconds until an answer's first token")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, echo_model(decide=options.decide, first=options.first) as model:
        environ = {
            "CITEWIRE_GENERATOR_PROVIDER": "openai-compatible",
            "CITEWIRE_GENERATOR_MODEL": MODEL,
            "CITEWIRE_GENERATOR_API_BASE": model.url,
        }
        with local_stack(Path(folder), environ=environ) as stack:
            asyncio.run(measure(stack.base_url, model, options.rounds))


if __name__ == "__main__":
    main()
