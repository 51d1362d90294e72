"""Time zones by their names."""

from datetime import UTC, tzinfo
from functools import lru_cache
from zoneinfo import ZoneInfo


@lru_cache(maxsize=1024)
def find_time_zone(name: str) -> tzinfo | None:
    """Returns the time zone of an IANA name (`Europe/Berlin`); UTC if it is empty, None if it is unknown."""
    if not name:
        return UTC
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):  # unknown, not a relative path, or a folder of the database
        return None
