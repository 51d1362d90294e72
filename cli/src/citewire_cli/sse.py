"""Reading server-sent events, with the client library's parser."""

from collections.abc import AsyncGenerator, AsyncIterable

from citewire_cli.errors import CliError
from citewire_client.errors import InvalidResponseError
from citewire_client.sse import SseEvent, SseParser

__all__ = ["SseEvent", "read_events"]


async def read_events(chunks: AsyncIterable[bytes]) -> AsyncGenerator[SseEvent]:
    """The events of a response body; ends when the body ends.

    Raises:
        CliError: It can't be read as a stream of events.
    """
    parser = SseParser()
    try:
        async for chunk in chunks:
            for event in parser.feed(chunk):
                yield event
    except InvalidResponseError as error:
        raise CliError("The stream cannot be read", str(error)) from None
