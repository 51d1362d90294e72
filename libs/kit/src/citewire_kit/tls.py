"""Mutual TLS between our processes: certificates from files that are renewed while the process runs.

The issuer of the certificates (cert-manager, a sidecar) replaces the files, and running processes follow. A server
asks for its certificate at each handshake. A client cannot change the certificate of a channel (grpc#41779): a new
channel takes the old one's place, whose calls may finish.
"""

from __future__ import annotations  # grpc's classes are generic only in their type stubs

import asyncio
from collections.abc import Callable
from typing import Any, Final

import grpc

from citewire_kit.callers.signer import Signer
from citewire_kit.errors import StartupError
from citewire_kit.tls_files import TlsFiles, TlsPair
from citewire_kit.watched import Watched

_FINISH_SECONDS: Final = 310.0
"""Time for the calls of a replaced channel to finish: longer than the longest stream (300 s)."""


def _watch(files: TlsFiles) -> Watched[TlsPair]:
    try:
        return Watched(files.read, "tls_certificate")
    except OSError as exc:
        raise StartupError(f"cannot read the TLS files (CITEWIRE_TLS_CERT, _KEY and _CA): {exc}") from exc


def server_credentials(files: TlsFiles) -> grpc.ServerCredentials:
    """Returns credentials that accept only clients with a certificate of the same authority.

    Raises:
        StartupError: The files can't be read.
    """
    watched = _watch(files)

    def configuration() -> grpc.ServerCertificateConfiguration:
        pair = watched.value
        return grpc.ssl_server_certificate_configuration([(pair.key, pair.cert)], root_certificates=pair.ca)

    def fetch() -> grpc.ServerCertificateConfiguration | None:
        """Called by grpc at each handshake; None keeps the current certificate."""
        return configuration() if watched.changed() else None

    return grpc.dynamic_ssl_server_credentials(
        configuration(),
        fetch,  # pyright: ignore[reportArgumentType] # the stubs don't allow None, which means no change
        require_client_authentication=True,
    )


class RenewedChannel(grpc.aio.Channel):
    """A channel that signs its calls; after its certificate is renewed, calls use a new connection.

    Args:
        files: The files of the certificate; None for no TLS.
        signer: Signs each call's tenant; None for unsigned calls.
        open_channel: Opens a channel with the given credentials.

    Raises:
        StartupError: The files can't be read.
    """

    def __init__(
        self,
        files: TlsFiles | None,
        signer: Signer | None,
        open_channel: Callable[[grpc.ChannelCredentials | None], grpc.aio.Channel],
    ) -> None:
        self._watched = None if files is None else _watch(files)
        self._signer = signer
        self._open = open_channel
        self._channel = self._opened()
        self._finishing: set[asyncio.Task[None]] = set()

    def current(self) -> grpc.aio.Channel:
        """Returns the channel for the next call."""
        if self._watched is not None and self._watched.changed():
            old, self._channel = self._channel, self._opened()
            task = asyncio.get_running_loop().create_task(old.close(_FINISH_SECONDS))
            self._finishing.add(task)
            task.add_done_callback(self._finishing.discard)
        return self._channel

    async def close(self, grace: float | None = None) -> None:
        """Closes the channel and its predecessors; running calls have `grace` seconds."""
        finishing = tuple(self._finishing)
        for task in finishing:
            task.cancel()
        await asyncio.gather(*finishing, return_exceptions=True)
        await self._channel.close(grace)

    def get_state(self, try_to_connect: bool = False) -> grpc.ChannelConnectivity:
        """See grpc."""
        return self.current().get_state(try_to_connect)

    async def wait_for_state_change(self, last_observed_state: grpc.ChannelConnectivity) -> None:
        """See grpc."""
        await self._channel.wait_for_state_change(last_observed_state)

    async def channel_ready(self) -> None:
        """See grpc."""
        await self.current().channel_ready()

    def unary_unary(self, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 # grpc's signature
        """See grpc."""
        return _Method(self, "unary_unary", args, kwargs)

    def unary_stream(self, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 # grpc's signature
        """See grpc."""
        return _Method(self, "unary_stream", args, kwargs)

    def stream_unary(self, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 # grpc's signature
        """See grpc."""
        return _Method(self, "stream_unary", args, kwargs)

    def stream_stream(self, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 # grpc's signature
        """See grpc."""
        return _Method(self, "stream_stream", args, kwargs)

    async def __aenter__(self) -> RenewedChannel:
        """Returns itself."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Closes at once."""
        await self.close()

    def _opened(self) -> grpc.aio.Channel:
        if self._watched is None:
            return self._open(None)
        pair = self._watched.value
        return self._open(grpc.ssl_channel_credentials(pair.ca, pair.key, pair.cert))

    def signature(self, path: str) -> tuple[tuple[str, str], ...]:
        """Returns the metadata that identifies the caller, bound to the current channel's certificate."""
        if self._signer is None:
            return ()
        return self._signer.metadata(path, b"" if self._watched is None else self._watched.value.cert)


class _Method:
    """A method of a stub, which is looked up for each call."""

    def __init__(self, channel: RenewedChannel, shape: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self._renewed, self._shape, self._args, self._kwargs = channel, shape, args, kwargs
        self._made_for: grpc.aio.Channel | None = None
        self._callable: Any = None
        path: str | bytes = args[0] if args else kwargs["method"]
        self._method = path.encode() if isinstance(path, str) else path  # `client` reads this, as in grpc's

    def __call__(self, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 # grpc's signature
        channel = self._renewed.current()
        if channel is not self._made_for:
            self._callable = getattr(channel, self._shape)(*self._args, **self._kwargs)
            self._made_for = channel
        metadata = (*(kwargs.pop("metadata", None) or ()), *self._renewed.signature(self._method.decode()))
        return self._callable(*args, metadata=metadata, **kwargs)
