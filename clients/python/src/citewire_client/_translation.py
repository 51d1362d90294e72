"""The HTTP library's errors as ours, so that callers needn't know which library it is."""

from collections.abc import Generator
from contextlib import contextmanager

import httpx

from citewire_client.errors import ConnectionFailedError, TimedOutError


@contextmanager
def translated(url: str) -> Generator[None]:
    """Turns what goes wrong on the way into `ConnectionFailedError`."""
    try:
        yield
    except (httpx.ConnectError, httpx.ConnectTimeout) as error:
        raise ConnectionFailedError(f"nothing answers at {url}") from error
    except httpx.TimeoutException as error:
        raise TimedOutError(f"{url} has sent nothing for too long") from error
    except (httpx.TransportError, httpx.DecodingError) as error:
        raise ConnectionFailedError(f"{url} closed the connection in the middle") from error
