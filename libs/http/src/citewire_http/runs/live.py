"""The runs of this process: stopped from anywhere, and stored for readers anywhere.

One process owns a run, by the lease of its exchange. It renews the leases of all its runs together, and learns in
return which ones to stop. When it dies, no other gateway continues: readers get the stored events, and an error.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Final, Generic, TypeVar
from uuid import UUID

from citewire_http.runs.recorder import Codec, Recorder
from citewire_http.runs.store import RunState, RunStore, run_lost
from citewire_http.supervision import StreamControl
from citewire_kit.errors import Aborted, CitewireError
from citewire_kit.telemetry import get_logger
from citewire_kit.tenant import Tenant

_WATCH_SECONDS: Final = 0.5
_ROUNDS: Final = 4
"""Unstored runs are checked once in this many rounds, because their readers stop them by disconnecting."""
_TOUCH_SECONDS: Final = 2.0
"""Time for which a reader counts as present after its last sign, which it gives every second."""

E = TypeVar("E")

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class _LiveRun:
    org_id: str
    control: StreamControl
    stored: bool


@dataclass(frozen=True, slots=True)
class LiveRuns(Generic[E]):
    """See the module."""

    codec: Codec[E]
    store: RunStore
    lease_seconds: float
    """Time after which a stored run counts as lost if its gateway hasn't renewed it."""
    _runs: dict[UUID, _LiveRun] = field(default_factory=dict[UUID, _LiveRun])

    @asynccontextmanager
    async def track(
        self, tenant: Tenant, run_id: UUID, control: StreamControl, *, stored: bool
    ) -> AsyncGenerator[Recorder[E] | None]:
        """Watches for requests to stop a run during the block. Returns its recorder, if it is to be stored."""
        self._runs[run_id] = _LiveRun(tenant.org_id, control, stored)
        try:
            lose = partial(control.stop, "lost", run_lost())
            yield Recorder(self.codec, self.store, tenant, run_id, lose) if stored else None
        finally:
            del self._runs[run_id]

    async def cancel(self, tenant: Tenant, run_id: UUID) -> str:
        """See `RunStore.cancel`; a run of this gateway stops at once."""
        state = await self.store.cancel(tenant, run_id)
        if run_id in self._runs:
            self._runs[run_id].control.stop("cancel", _cancelled())
        return state

    async def watch(self) -> None:
        """Renews leases, and stops runs on request, until it is cancelled."""
        number = 0
        while True:
            await asyncio.sleep(_WATCH_SECONDS)
            number += 1
            every = number % _ROUNDS == 0
            runs = {run_id: run.org_id for run_id, run in self._runs.items() if run.stored or every}
            if not runs:
                continue
            try:
                for state in await self.store.watch(runs, self.lease_seconds):
                    self._heed(state)
            except CitewireError as exc:
                log.warning("runs_not_watched", reason=exc.reason)
            except Exception:
                log.exception("runs_not_watched")

    def _heed(self, state: RunState) -> None:
        run = self._runs.get(state.run_id)
        if run is None:
            return  # ended meanwhile
        control = run.control
        if state.cancelled:
            control.stop("cancel", _cancelled())
        elif state.lost:
            control.stop("lost", run_lost())
        if state.read_seconds is not None:
            control.see(asyncio.get_running_loop().time() - max(0.0, state.read_seconds - _TOUCH_SECONDS))


def _cancelled() -> Aborted:
    return Aborted("the answer was stopped on request", reason="RUN_CANCELLED")
