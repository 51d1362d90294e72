"""Server reflection under both of its names, `grpc.reflection.v1` and the older `v1alpha`.

grpcio-reflection answers v1alpha only. The two differ in nothing but the package's name, and names aren't part of the
messages on the wire, so its servicer answers both.
"""

from collections.abc import Iterable
from typing import Any, Final

import grpc
from google.protobuf import descriptor_pb2, text_format
from google.protobuf.descriptor_pool import Default
from grpc_reflection.v1alpha import reflection, reflection_pb2

V1ALPHA: Final[str] = reflection.SERVICE_NAME
V1: Final[str] = V1ALPHA.replace("v1alpha", "v1")
_METHOD: Final = "ServerReflectionInfo"


def register(names: Iterable[str], server: grpc.aio.Server) -> None:
    """Adds both versions to a server.

    Args:
        names: Full names of the server's other services; their stubs must be imported.
        server: A server that hasn't started.
    """
    _describe_v1()
    servicer: Any = reflection.aio.ReflectionServicer((*names, V1, V1ALPHA))
    for name in (V1, V1ALPHA):
        handler: Any = grpc.stream_stream_rpc_method_handler(
            servicer.ServerReflectionInfo,
            request_deserializer=reflection_pb2.ServerReflectionRequest.FromString,
            response_serializer=reflection_pb2.ServerReflectionResponse.SerializeToString,
        )
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(name, {_METHOD: handler}),))


def _describe_v1() -> None:
    """Registers v1's own schema, because clients that describe every listed service request it too."""
    alpha = descriptor_pb2.FileDescriptorProto()
    reflection_pb2.DESCRIPTOR.CopyToProto(alpha)
    text = text_format.MessageToString(alpha).replace("v1alpha", "v1")
    file = text_format.Parse(text, descriptor_pb2.FileDescriptorProto())
    file.name = "grpc/reflection/v1/reflection.proto"
    file.options.ClearField("deprecated")
    try:
        Default().FindFileByName(file.name)
    except KeyError:
        Default().AddSerializedFile(file.SerializeToString())
