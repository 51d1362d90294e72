"""Whether everything works that a request needs."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from citewire_kit.errors import CitewireError

Check = Callable[[], Awaitable[bool]]

_SECONDS = 2.0


class Health:
    """Asks the database and the services, all at the same time."""

    def __init__(self, checks: Mapping[str, Check]) -> None:
        """`checks`: by the name of what they ask; each returns whether it works, or raises `CitewireError`."""
        self._checks = checks

    async def look(self) -> dict[str, str]:
        """Returns, for each part, `ok` or why it isn't."""
        answers = await asyncio.gather(*(self._ask(check) for check in self._checks.values()))
        return dict(zip(self._checks, answers, strict=True))

    async def _ask(self, check: Check) -> str:
        try:
            async with asyncio.timeout(_SECONDS):
                return "ok" if await check() else "not ready"
        except TimeoutError:
            return "no answer"
        except CitewireError as exc:
            return "unavailable" if exc.reason != "DEADLINE_EXCEEDED" else "no answer"
