"""Files that others replace while a process runs: certificates, keys, and who may call."""

import time
from collections.abc import Callable
from typing import Final, Generic, TypeVar

from citewire_kit.plain_structlog import structlog
from citewire_kit.tls_files import Stamp, stamp_of

T = TypeVar("T")

_LOOK_SECONDS: Final = 1.0
"""Minimum interval between checks of the files."""

log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)  # importing telemetry would be circular


class Watched(Generic[T]):
    """The newest readable content of some files.

    Args:
        read: Reads the files, with their state before reading.
        topic: What they are, for the log.

    Raises:
        OSError: A file can't be read.
        ValueError: The content isn't what it should be.
    """

    def __init__(self, read: Callable[[], tuple[Stamp, T]], topic: str) -> None:
        self._read, self._topic = read, topic
        self._stamp, self.value = read()
        self._looked = time.monotonic()
        self._failing = False

    def changed(self) -> bool:
        """Checks the files, at most once a second; says whether `value` is a new one."""
        now = time.monotonic()
        if now - self._looked < _LOOK_SECONDS:
            return False
        self._looked = now
        try:
            if stamp_of(path for path, *_ in self._stamp) == self._stamp:
                return False
            self._stamp, self.value = self._read()
        except (OSError, ValueError) as exc:
            # The current content is still valid for a while, and is kept until the files can be read again.
            if not self._failing:
                log.warning("files_unreadable", files=self._topic, error=str(exc))
            self._failing = True
            return False
        self._failing = False
        log.info("files_renewed", files=self._topic)
        return True
