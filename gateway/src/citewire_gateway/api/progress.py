"""A document's progress as server-sent events: `progress` many, then `done`; a fault is `error`, then `done`."""

import json
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, ClassVar

from citewire_kit.errors import CitewireError


class ProgressFrames:
    """Writes the frames of one watch."""

    name: ClassVar[str] = "progress"
    """Label in metrics."""

    def __init__(self) -> None:
        self._sequence = 0

    async def until_done(
        self, progress: AsyncGenerator[dict[str, Any], None]
    ) -> AsyncGenerator[dict[str, Any] | None, None]:
        """Passes progress on, and says that it has ended with None."""
        async with aclosing(progress):
            async for one in progress:
                yield one
        yield None

    def encode(self, progress: dict[str, Any] | None) -> bytes:
        """Returns one frame."""
        return self._frame("done", {}) if progress is None else self._frame("progress", progress)

    def failed(self, error: CitewireError, retryable: bool) -> bytes:
        """Returns the frames of a watch that failed; `retryable`: it may be opened again at once."""
        said: dict[str, Any] = {"text": error.message} | ({"retryable": True} if retryable else {})
        return self._frame("error", said) + self._frame("done", {})

    def _frame(self, name: str, data: dict[str, Any]) -> bytes:
        self._sequence += 1
        return f"event: {name}\nid: {self._sequence}\ndata: {json.dumps(data, ensure_ascii=False)}\n\n".encode()
