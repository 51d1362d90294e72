"""Receives files, either uploaded or fetched from an address named in the upload."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from citewire_egress.fetch import Fetcher, failed
from citewire_kit.errors import InvalidArgument
from citewire_kit.fair import Holding
from citewire_kit.pace import Pace, paced
from citewire_retriever.model import NewContent
from citewire_retriever.service.spool import Spool, too_much_text
from citewire_retriever.service.text_size import holds_more_text
from citewire_retriever.service.upload_format import readable


@dataclass(frozen=True, slots=True)
class ReceivingLimits:
    """Limits on a file, explained in `RetrieverSettings`."""

    upload_max_bytes: int
    max_chars: int
    upload_pace: Pace
    spool_dir: Path | None = None


class Receiver:
    """See the module.

    Args:
        limits: Limits on a file.
        fetcher: Fetches files; None to refuse fetching.
    """

    def __init__(self, limits: ReceivingLimits, fetcher: Fetcher | None) -> None:
        self._limits = limits
        self._fetcher = fetcher

    @asynccontextmanager
    async def receive(
        self, content: NewContent, data: AsyncIterator[bytes], slot: Holding
    ) -> AsyncGenerator[tuple[NewContent, Spool]]:
        """Receives a file, and yields it with its completed metadata; it is removed when the block ends.

        Args:
            content: Its metadata.
            data: Its bytes, unless it is fetched.
            slot: The upload's slot.

        Raises:
            CitewireError: As in `CorpusService.upload`.
        """
        if not content.source_url:
            async with self._spooled(content, data, slot) as spool:
                yield content, spool
            return
        if self._fetcher is None:
            raise failed("this server doesn't fetch files: upload the file, or ask the operator to allow it")
        async with self._fetcher.open(content.source_url) as file:
            content = replace(
                content,
                file_name=content.file_name or file.file_name,
                media_type=content.media_type or file.media_type,
                url=content.url or content.source_url,
            )
            async with self._spooled(content, file.data, slot) as spool:
                yield content, spool

    @asynccontextmanager
    async def _spooled(self, content: NewContent, data: AsyncIterator[bytes], slot: Holding) -> AsyncGenerator[Spool]:
        limits = self._limits
        async with Spool(limit_bytes=limits.upload_max_bytes, folder=limits.spool_dir) as spool:
            pieces = paced(data, limits.upload_pace, slot)
            async with aclosing(pieces), aclosing(readable(pieces, content.file_name, content.media_type)) as parts:
                async for part in parts:
                    await spool.write(part)
            if spool.size_bytes == 0:
                raise InvalidArgument("the file is empty", reason="EMPTY_UPLOAD")
            if await holds_more_text(spool, limits.max_chars, content.file_name, content.media_type):
                raise too_much_text(limits.max_chars)
            yield spool
