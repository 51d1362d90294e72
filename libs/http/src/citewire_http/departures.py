"""Requests whose client leaves are cancelled: nobody would read the answer, and others wait for what it takes."""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request, Response
from fastapi.routing import APIRoute
from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope, Send

from citewire_http.connections import DEPARTURE


class CancellingRoute(APIRoute):
    """A route whose handler is cancelled when its client disconnects. Returned streams do this themselves."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Returns FastAPI's handler, cancelled if its client disconnects."""
        handle = super().get_route_handler()

        async def handle_until_left(request: Request) -> Response:
            departure: asyncio.Future[None] | None = request.scope.get(DEPARTURE)
            if departure is None:  # a server other than ours
                return await handle(request)
            timeout = asyncio.timeout(None)

            def cancel(_: object) -> None:
                with contextlib.suppress(RuntimeError):  # the handler has just ended
                    timeout.reschedule(0)

            departure.add_done_callback(cancel)
            try:
                async with timeout:
                    return await handle(request)
            except ClientDisconnect:  # it left before its body was complete
                return _Unsent()
            except Exception:
                if timeout.expired():
                    return _Unsent()
                raise
            finally:
                departure.remove_done_callback(cancel)

        return handle_until_left


class _Unsent(Response):
    """An empty response, because the client is gone."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Sends nothing."""
