"""Clients for one service with asyncio, and their response streams."""

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Callable
from types import TracebackType
from typing import Any, ClassVar, Generic, Self, TypeVar, cast

import grpc

from citewire_client.services.callers import Caller, CallerToken, metadata_of
from citewire_client.services.channels import Tls, credentials, full_target, options
from citewire_client.services.failures import error_of

Reply = TypeVar("Reply")


class AsyncStream(Generic[Reply]):
    """The messages of one call: enter it, then iterate. Leaving it ends the call and the service's work for it."""

    def __init__(self, target: str, start: Callable[[], Any], requests: "AsyncRequests | None" = None) -> None:
        """No request is sent before the stream is entered."""
        self._target, self._start, self._requests = target, start, requests
        self._call: Any = None

    async def __aenter__(self) -> Self:
        """Starts the call; iteration raises its errors."""
        self._call = self._start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Cancels the call if it hasn't ended."""
        self._call.cancel()

    def __aiter__(self) -> Self:
        """Yields messages until the service has sent all of them.

        Raises:
            CitewireError: The call failed, before or between messages.
        """
        return self

    async def __anext__(self) -> Reply:
        """The next message; raises like iteration."""
        if self._call is None:
            raise RuntimeError("enter the stream first: `async with client.generate(...) as stream`")
        try:
            message = await self._call.read()
        except grpc.RpcError as failure:
            raise failed(failure, self._target, self._requests) from None
        except asyncio.CancelledError:
            if caller_is_cancelled():
                raise
            raise failed(_Closed(), self._target, self._requests) from None
        if message is grpc.aio.EOF:
            raise StopAsyncIteration
        return cast("Reply", message)


class AsyncRequests:
    """The requests of a call; keeps an error of their producer, which gRPC would only log."""

    def __init__(self, requests: AsyncIterable[Any]) -> None:
        self._requests = requests
        self.error: Exception | None = None

    async def __aiter__(self) -> AsyncIterator[Any]:
        """Yields the requests."""
        try:
            async for request in self._requests:
                yield request
        except Exception as error:
            self.error = error
            raise


class AsyncServiceClient:
    """A channel to one service, with the caller of its calls."""

    SERVICE: ClassVar[str] = ""
    STREAMS_TOKENS: ClassVar[bool] = False

    def __init__(
        self,
        target: str,
        *,
        signer: CallerToken | None = None,
        caller: Caller | None = None,
        tls: Tls | None = None,
        timeout: float = 30.0,
    ) -> None:
        """Opens a channel, which connects at the first call. Create it in the event loop that uses it.

        Args:
            target: `host:port`, or a gRPC target such as `dns:///name:port` or `unix:/path`.
            signer: Signs the caller of calls; None: calls are unsigned, for a service on this machine that requires
                no signature.
            caller: The caller of calls that don't name one.
            tls: Mutual TLS; None: no TLS.
            timeout: Default limit for a call in seconds, retries included.

        Raises:
            OSError: A file of `tls` can't be read.
        """
        self.target = target
        self._signer, self._caller, self._timeout, self._certificate = signer, caller, timeout, b""
        address, settings = full_target(target), options(streams=self.STREAMS_TOKENS)
        if tls is None:
            self._channel = grpc.aio.insecure_channel(address, options=settings)
        else:
            trust, self._certificate = credentials(tls)
            self._channel = grpc.aio.secure_channel(address, trust, options=settings)
        self._stub: Any = self._make_stub(self._channel)

    def _make_stub(self, channel: grpc.aio.Channel) -> object:
        raise NotImplementedError

    async def aclose(self) -> None:
        """Closes the channel; calls in progress are cancelled."""
        await self._channel.close()

    async def __aenter__(self) -> Self:
        """Returns itself."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Closes the channel."""
        await self.aclose()

    def _how(self, timeout: float | None, caller: Caller | None, request_id: str) -> dict[str, Any]:
        metadata = metadata_of(self._signer, self.SERVICE, caller or self._caller, self._certificate, request_id)
        return {"timeout": self._timeout if timeout is None else timeout, "metadata": tuple(metadata)}

    async def _reply(
        self, method: str, request: object, how: dict[str, Any], requests: AsyncRequests | None = None
    ) -> Any:  # noqa: ANN401 # the generated method types the message
        call = getattr(self._stub, method)(request, **how)
        try:
            return await call
        except grpc.RpcError as failure:
            raise failed(failure, self.target, requests) from None
        except asyncio.CancelledError:
            if caller_is_cancelled():
                raise
            raise failed(_Closed(), self.target, requests) from None
        finally:
            call.cancel()  # no effect on a finished call

    async def _reply_to_many(self, method: str, requests: AsyncIterable[Any], how: dict[str, Any]) -> Any:  # noqa: ANN401 # as above: the generated method types it
        sent = AsyncRequests(requests)
        return await self._reply(method, aiter(sent), how, sent)

    def _replies(self, method: str, request: object, how: Callable[[], dict[str, Any]]) -> AsyncStream[Any]:
        return AsyncStream(self.target, lambda: getattr(self._stub, method)(request, **how()))

    def _replies_to_many(
        self, method: str, requests: AsyncIterable[Any], how: Callable[[], dict[str, Any]]
    ) -> AsyncStream[Any]:
        sent = AsyncRequests(requests)
        return AsyncStream(self.target, lambda: getattr(self._stub, method)(aiter(sent), **how()), sent)


class _Closed(grpc.RpcError):
    """The channel was closed during a call."""


def failed(failure: grpc.RpcError, target: str, requests: AsyncRequests | None) -> Exception:
    """Returns the error to raise: that of the requests' producer, or otherwise the call's."""
    if requests is not None and requests.error is not None:
        return requests.error
    return error_of(failure, target)


def caller_is_cancelled() -> bool:
    """Whether the running task is cancelled; if not, a CancelledError means that only the call was cancelled."""
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0
