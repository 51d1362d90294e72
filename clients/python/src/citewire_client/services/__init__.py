"""Citewire's services over gRPC, for use in your own services: `pip install citewire-client[grpc]`.

Every call is made on behalf of a `Caller` and signed with a key of your service (`CallerKey`). Errors are raised as
`citewire_client.CitewireError`, as in the HTTP client. Messages are those of `citewire-protos`.
"""

from citewire_client.services.aio import AsyncStream
from citewire_client.services.blocking import Stream
from citewire_client.services.callers import Caller, CallerKey, CallerToken, TokenFile
from citewire_client.services.channels import Tls
from citewire_client.services.operations import (
    AsyncCorpusClient,
    AsyncEmbedderClient,
    AsyncGeneratorClient,
    AsyncRetrieverClient,
    CorpusClient,
    EmbedderClient,
    GeneratorClient,
    RetrieverClient,
)

__all__ = [
    "AsyncCorpusClient",
    "AsyncEmbedderClient",
    "AsyncGeneratorClient",
    "AsyncRetrieverClient",
    "AsyncStream",
    "Caller",
    "CallerKey",
    "CallerToken",
    "CorpusClient",
    "EmbedderClient",
    "GeneratorClient",
    "RetrieverClient",
    "Stream",
    "Tls",
    "TokenFile",
]
