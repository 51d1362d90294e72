"""Citewire's services over gRPC, for services of your own: `pip install citewire-client[grpc]`.

Every call is made for somebody (`Caller`), and signed with a key of your service (`CallerKey`); what goes wrong is a
`citewire_client.CitewireError`, as with the HTTP client. Messages are those of `citewire-protos`.
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
