"""The slots that uploads hold, and refusals that cost little more than reading a request's head."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from typing import Final

from starlette.types import Scope

from citewire_http.middleware import header
from citewire_kit.errors import CitewireError
from citewire_kit.fair import FairShares, Holding
from citewire_kit.pace import no_free_slot

_MOST_NOTED: Final = 10_000
_PAUSE_SECONDS: Final = 0.5
"""Delay of a repeated rejection: a connection is rejected at most twice a second."""
_SLOT: Final = "citewire.upload_slot"


class UploadSlots(FairShares):
    """Slots for uploads, in fair shares by organisation.

    A rejected caller often retries at once, with many requests. From then on it gets its slots, or is rejected, by its
    `Authorization` header before its key is looked up: otherwise the rejections of a flood alone would keep the process
    busy. A rejection by the header is delayed, because a slot may become free meanwhile.
    """

    def __init__(self, slots: int, is_upload: Callable[[str, str], bool]) -> None:
        """Starts with all slots free; `is_upload` recognises an upload by its path and content type."""
        super().__init__(slots, lambda _: no_free_slot("too many uploads at once"), beyond=True)
        self._is_upload = is_upload
        self._refused: dict[str, str] = {}
        """Organisation by `Authorization` header, which was valid when the upload was rejected; the oldest first."""

    @asynccontextmanager
    async def admit(self, scope: Scope) -> AsyncGenerator[None]:
        """Admits a request; holds a slot inside the block if it is an upload of a previously rejected caller.

        Raises:
            ResourceExhausted: There is none (`OVERLOADED`).
        """
        if self._refused and self._is_upload(scope["path"], header(scope, b"content-type")):
            org_id = self._refused.get(header(scope, b"authorization"))
            if org_id is not None:
                if not self.has_room(org_id):
                    await asyncio.sleep(_PAUSE_SECONDS)
                with self.hold_now(org_id) as scope[_SLOT]:
                    yield
                return
        yield

    @contextmanager
    def hold_for(self, org_id: str, scope: Scope) -> Generator[Holding]:
        """Holds a slot inside the block; a request that got one at admission keeps it.

        Args:
            org_id: The upload's organisation.
            scope: The request's scope.

        Raises:
            ResourceExhausted: There is none (`OVERLOADED`).
        """
        slot: Holding | None = scope.get(_SLOT)
        if slot is not None and slot.key == org_id:
            yield slot
            return
        try:
            self.check(org_id)
        except CitewireError:
            self._note(header(scope, b"authorization"), org_id)
            raise
        with self.hold_now(org_id) as slot:
            yield slot

    def _note(self, authorization: str, org_id: str) -> None:
        if authorization:  # otherwise it is identified in another way
            self._refused[authorization] = org_id
            if len(self._refused) > _MOST_NOTED:
                del self._refused[next(iter(self._refused))]
