"""Work that is begun before anybody knows whether it is needed."""

import asyncio
from collections.abc import AsyncGenerator

from citewire_gateway.chat.events import Event
from citewire_gateway.chat.retrieval import Retrieved


class Ahead:
    """Events of a generator whose first step is taken before anybody asks for it."""

    def __init__(self, events: AsyncGenerator[Event, None]) -> None:
        self._events = events
        self._first = asyncio.ensure_future(anext(events, None))

    async def events(self) -> AsyncGenerator[Event, None]:
        """All events, from the first."""
        first = await self._first
        if first is not None:
            yield first
        async for event in self._events:
            yield event

    async def close(self) -> None:
        """Stops the work, wherever it is."""
        self._first.cancel()
        await asyncio.wait((self._first,))
        if not self._first.cancelled():
            self._first.exception()  # retrieved, so that nobody complains that it wasn't
        await self._events.aclose()


async def drop(searching: asyncio.Future[Retrieved], ahead: Ahead | None) -> None:
    """Stops what is still running; a failure of what nobody needs any more is none."""
    if ahead is not None:
        await ahead.close()
    searching.cancel()
    await asyncio.wait((searching,))
    if not searching.cancelled():
        searching.exception()  # retrieved, so that nobody complains that it wasn't
