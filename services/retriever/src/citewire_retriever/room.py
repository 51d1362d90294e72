"""Reports a full disk as temporary, and not as the uploader's fault."""

import errno
from collections.abc import Generator
from contextlib import contextmanager

from citewire_kit.errors import Unavailable


@contextmanager
def room_needed(*, retry_after: float | None = None) -> Generator[None]:
    """Writes files.

    Args:
        retry_after: Seconds that the caller should wait.

    Raises:
        Unavailable: The disk is full, or the user's part of it (reason `SERVICE_UNAVAILABLE`).
    """
    try:
        yield
    except OSError as exc:
        if exc.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise Unavailable(
            "there is no room for the file at the moment", reason="SERVICE_UNAVAILABLE", retry_after=retry_after
        ) from exc
