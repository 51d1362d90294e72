"""Converts the HTTP library's errors to the client's own, so that callers needn't know the library."""

from collections.abc import Generator
from contextlib import contextmanager

import httpx

from citewire_client.errors import ConnectionFailedError, TimedOutError


@contextmanager
def translated(url: str) -> Generator[None]:
    """Converts transport errors to `ConnectionFailedError`."""
    try:
        yield
    except (httpx.ConnectError, httpx.ConnectTimeout) as error:
        raise ConnectionFailedError(f"nothing answers at {url}") from error
    except httpx.TimeoutException as error:
        raise TimedOutError(f"{url} has sent nothing for too long") from error
    except (httpx.TransportError, httpx.DecodingError) as error:
        raise ConnectionFailedError(f"{url} closed the connection in the middle") from error
