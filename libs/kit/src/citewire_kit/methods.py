"""Names and shapes of gRPC methods, as metrics and spans show them."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from google.protobuf.descriptor_pool import Default

Shape = Literal["unary", "server_stream", "client_stream", "bidi_stream"]


@dataclass(frozen=True, slots=True)
class MethodName:
    """The parts of a gRPC method's full name."""

    service: str
    method: str


@lru_cache(maxsize=1024)
def parse_method(path: str) -> MethodName:
    """Parses `/package.Service/Method`."""
    service, _, method = path.removeprefix("/").partition("/")
    return MethodName(service, method)


def shape(*, client_streams: bool, server_streams: bool) -> Shape:
    """Returns the name of one of the four RPC shapes."""
    if client_streams:
        return "bidi_stream" if server_streams else "client_stream"
    return "server_stream" if server_streams else "unary"


def methods_of(service: str) -> list[tuple[str, str, str]]:
    """Lists (shape, service, method) of a service whose stubs are imported.

    Raises:
        KeyError: No stub of that service has been imported.
    """
    descriptor = Default().FindServiceByName(service)
    return [
        (shape(client_streams=method.client_streaming, server_streams=method.server_streaming), service, method.name)
        for method in descriptor.methods
    ]
