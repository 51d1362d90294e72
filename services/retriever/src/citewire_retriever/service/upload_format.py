"""Refuses uploads with the first bytes of an unsupported format, as their ingest would fail."""

from collections.abc import AsyncGenerator, AsyncIterator

from citewire_kit.errors import InvalidArgument
from citewire_retriever.ingest.detect import HEAD_BYTES, detect
from citewire_retriever.ingest.errors import IngestCode, IngestError
from citewire_retriever.ingest.kinds import SUPPORTED


async def readable(data: AsyncIterator[bytes], file_name: str, media_type: str) -> AsyncGenerator[bytes]:
    """Passes an upload on after checking its head.

    Only the format is checked. Other faults of a file are found when all of it is read, and become its version's error.

    Raises:
        InvalidArgument: The format isn't supported (reason `UNSUPPORTED_FORMAT`).
    """
    head: bytes | None = b""
    async for part in data:
        if head is None:
            yield part
            continue
        head += part
        if len(head) >= HEAD_BYTES:
            _check(head, file_name, media_type)
            yield head
            head = None
    if head:
        _check(head, file_name, media_type)
        yield head


def _check(head: bytes, file_name: str, media_type: str) -> None:
    try:
        detect(head[:HEAD_BYTES], file_name, media_type)
    except IngestError as error:
        if error.code is IngestCode.UNSUPPORTED_FORMAT:
            raise InvalidArgument(
                error.message, reason="UNSUPPORTED_FORMAT", metadata={"supported": SUPPORTED}
            ) from None
