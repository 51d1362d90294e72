"""Reads stored runs as they grow, on whichever process: by asking the database, at a bounded rate."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeAlias, TypeVar
from uuid import UUID

from citewire_http.runs.recorder import Codec
from citewire_http.runs.store import RunStore, no_such_run, run_lost
from citewire_kit.tenant import Tenant

E = TypeVar("E")
Guard: TypeAlias = Callable[[Sequence[Mapping[str, Any]]], Awaitable[bool]]
"""Whether a reader may see further entries of a run."""

_PAUSES: Final = (0.25, 0.5, 1.0)
"""Seconds between polls, increasing while nothing arrives."""
_TOUCH_SECONDS: Final = 1.0
"""How often the run's gateway is notified of a reader."""


@dataclass(frozen=True, slots=True)
class RunReader(Generic[E]):
    """See the module. All methods raise as `RunStore`."""

    codec: Codec[E]
    store: RunStore
    guard: Callable[[Tenant, UUID], Guard]
    """Returns the guard of one reading of a run, from its first entry."""

    async def stored(self, tenant: Tenant, run_id: UUID | None) -> list[dict[str, Any]]:
        """Returns the entries of a completed run; none if they have been deleted."""
        entries, last = list[dict[str, Any]](), 0
        while run_id is not None:
            page = await self.store.read(tenant, run_id, last)
            entries += [entry for batch in page.batches for entry in batch.entries]
            if page.ended or not page.batches:
                break
            last = page.batches[-1].last
        return entries if entries and entries[-1]["type"] == "done" else []

    async def events(self, tenant: Tenant, run_id: UUID) -> AsyncGenerator[E, None]:
        """Yields a run's events from the first, as they are stored.

        Raises:
            Aborted: It lost its gateway (`RUN_LOST`), or another error that ended it.
            NotFound: The caller may no longer see it, or it was erased (`RUN_NOT_FOUND`).
        """
        last, is_over, idle, touched, clock = 0, False, 0, float("-inf"), asyncio.get_running_loop().time
        may_read = self.guard(tenant, run_id)
        while True:
            touch = clock() - touched >= _TOUCH_SECONDS
            page = await self.store.read(tenant, run_id, last, touch=touch)
            touched = clock() if touch else touched
            for batch in page.batches:
                if batch.first != last + 1 or not await may_read(batch.entries):
                    raise no_such_run(run_id)
                for event in self.codec.load(batch.entries):
                    yield event
                last, is_over = batch.last, batch.entries[-1]["type"] == "done"
            if page.ended:
                if is_over:
                    return
                raise run_lost() if page.lost else no_such_run(run_id)
            if page.overdue:
                await self.store.lose(tenant, run_id)
            elif not page.more:
                idle = 0 if page.batches else min(idle + 1, len(_PAUSES) - 1)
                await asyncio.sleep(_PAUSES[idle])
