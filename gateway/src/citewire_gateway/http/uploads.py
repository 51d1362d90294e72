"""How many uploads are received at once: each has a spool file, and disks are finite."""

from collections.abc import Generator
from contextlib import contextmanager

from citewire_kit.errors import ResourceExhausted


class UploadSlots:
    """Admission by permit: an upload too many is refused at once, instead of waiting with its body half-sent."""

    def __init__(self, most: int) -> None:
        self._free = most

    @contextmanager
    def take(self) -> Generator[None]:
        """Holds a slot during the block.

        Raises:
            ResourceExhausted: All are taken (`OVERLOADED`).
        """
        if self._free <= 0:
            raise ResourceExhausted("too many uploads at once", reason="OVERLOADED", retry_after=2.0)
        self._free -= 1
        try:
            yield
        finally:
            self._free += 1
