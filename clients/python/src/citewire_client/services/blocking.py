"""Clients for one service without asyncio, and their response streams."""

from collections.abc import Callable, Iterable, Iterator
from types import TracebackType
from typing import Any, ClassVar, Generic, Self, TypeVar, cast

import grpc

from citewire_client.services.callers import Caller, CallerToken, metadata_of
from citewire_client.services.channels import Tls, credentials, full_target, options
from citewire_client.services.failures import error_of

Reply = TypeVar("Reply")


class Stream(Generic[Reply]):
    """The messages of one call: enter it, then iterate. Leaving it ends the call and the service's work for it."""

    def __init__(self, target: str, start: Callable[[], Any], requests: "Requests | None" = None) -> None:
        """No request is sent before the stream is entered."""
        self._target, self._start, self._requests = target, start, requests
        self._call: Any = None

    def __enter__(self) -> Self:
        """Starts the call; iteration raises its errors."""
        self._call = self._start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Cancels the call if it hasn't ended."""
        self._call.cancel()

    def __iter__(self) -> Self:
        """Yields messages until the service has sent all of them.

        Raises:
            CitewireError: The call failed, before or between messages.
        """
        return self

    def __next__(self) -> Reply:
        """The next message; raises like iteration."""
        if self._call is None:
            raise RuntimeError("enter the stream first: `with client.generate(...) as stream`")
        try:
            return cast("Reply", next(self._call))
        except grpc.RpcError as failure:
            raise failed(failure, self._target, self._requests) from None


class Requests:
    """The requests of a call; keeps an error of their producer, which gRPC would only log."""

    def __init__(self, requests: Iterable[Any]) -> None:
        self._requests = requests
        self.error: Exception | None = None

    def __iter__(self) -> Iterator[Any]:
        """Yields the requests."""
        try:
            yield from self._requests
        except Exception as error:
            self.error = error
            raise


class ServiceClient:
    """A channel to one service, with the caller of its calls. Threads may share it."""

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
        """Opens a channel, which connects at the first call.

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
            self._channel = grpc.insecure_channel(address, options=settings)
        else:
            trust, self._certificate = credentials(tls)
            self._channel = grpc.secure_channel(address, trust, options=settings)
        self._stub: Any = self._make_stub(self._channel)

    def _make_stub(self, channel: Any) -> object:  # noqa: ANN401 # the stubs are typed for asyncio
        raise NotImplementedError

    def close(self) -> None:
        """Closes the channel; calls in progress are cancelled."""
        self._channel.close()

    def __enter__(self) -> Self:
        """Returns itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Closes the channel."""
        self.close()

    def _how(self, timeout: float | None, caller: Caller | None, request_id: str) -> dict[str, Any]:
        metadata = metadata_of(self._signer, self.SERVICE, caller or self._caller, self._certificate, request_id)
        return {"timeout": self._timeout if timeout is None else timeout, "metadata": tuple(metadata)}

    def _reply(self, method: str, request: object, how: dict[str, Any], requests: Requests | None = None) -> Any:  # noqa: ANN401 # the generated method types the message
        try:
            return getattr(self._stub, method)(request, **how)
        except grpc.RpcError as failure:
            raise failed(failure, self.target, requests) from None

    def _reply_to_many(self, method: str, requests: Iterable[Any], how: dict[str, Any]) -> Any:  # noqa: ANN401 # as above: the generated method types it
        sent = Requests(requests)
        return self._reply(method, iter(sent), how, sent)

    def _replies(self, method: str, request: object, how: Callable[[], dict[str, Any]]) -> Stream[Any]:
        return Stream(self.target, lambda: getattr(self._stub, method)(request, **how()))

    def _replies_to_many(self, method: str, requests: Iterable[Any], how: Callable[[], dict[str, Any]]) -> Stream[Any]:
        sent = Requests(requests)
        return Stream(self.target, lambda: getattr(self._stub, method)(iter(sent), **how()), sent)


def failed(failure: grpc.RpcError, target: str, requests: Requests | None) -> Exception:
    """Returns the error to raise: that of the requests' producer, or otherwise the call's."""
    if requests is not None and requests.error is not None:
        return requests.error
    return error_of(failure, target)
