"""The cost of caller tokens: `python -m benchmarks.caller_tokens`.

Signing and verifying of new and cached tokens, for a user without groups and for a user with 200 groups.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from statistics import median

from benchmarks.tables import describe_machine, format_table
from citewire_kit.callers.__main__ import make_keys
from citewire_kit.callers.signer import Signer
from citewire_kit.callers.token import CALLER_KEY
from citewire_kit.callers.verifier import Verifier
from citewire_kit.tenant import Tenant, use_tenant

PATH = "/citewire.retriever.v1.RetrieverService/Search"
TENANTS = {
    "no groups": Tenant("acme", "ann@acme.example", "pro", ("editor",), "key_7"),
    "200 groups": Tenant(
        "acme", "ann@acme.example", "pro", ("editor",), "key_7", tuple(f"g{n:03}" * 9 for n in range(200))
    ),
}
ROUNDS = 200
Step = Callable[[], Awaitable[object]]


async def measure(tenant: Tenant, folder: Path) -> list[str]:
    """Microseconds of each step (median over its rounds), and the token's length."""
    signer, verifier = _signer(folder), _verifier(folder)

    async def sign() -> str:
        with use_tenant(tenant):
            return dict(signer.metadata(PATH))[CALLER_KEY]

    async def sign_anew() -> str:
        with use_tenant(tenant):
            return dict(_signer(folder).metadata(PATH))[CALLER_KEY]

    token = await sign()

    async def verify() -> Tenant:
        return await verifier.verify(token, PATH, None)

    fresh = [_verifier(folder) for _ in range(ROUNDS)]

    async def verify_anew() -> Tenant:
        return await fresh.pop().verify(token, PATH, None)

    await verify()
    steps: tuple[Step, ...] = (sign, verify, sign_anew, verify_anew)
    return [f"{await _microseconds(step):.0f}" for step in steps] + [str(len(token))]


def _signer(folder: Path) -> Signer:
    return Signer("citewire-gateway", folder / "gateway.pem")


def _verifier(folder: Path) -> Verifier:
    return Verifier("retriever", folder / "issuers.json", tls=False)


async def _microseconds(step: Step) -> float:
    taken: list[float] = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        await step()
        taken.append(time.perf_counter() - start)
    return median(taken) * 1e6


async def main() -> None:
    """Prints the table."""
    headings = [
        "caller",
        "sign, at hand (µs)",
        "verify, at hand (µs)",
        "sign anew (µs)",
        "verify anew (µs)",
        "characters",
    ]
    with tempfile.TemporaryDirectory() as folder:
        make_keys(Path(folder), {"gateway": ()})
        rows = [[name, *await measure(tenant, Path(folder))] for name, tenant in TENANTS.items()]
    print(describe_machine())
    print(format_table(headings, rows))


if __name__ == "__main__":
    asyncio.run(main())
