"""Ids that our processes generate."""

import os
import time
import uuid


def uuid7() -> uuid.UUID:
    """Returns a UUID version 7 (RFC 9562): milliseconds first, so that indexes grow only at one end."""
    value = (time.time_ns() // 1_000_000) << 80 | int.from_bytes(os.urandom(10))
    value = value & ~(0xF << 76) | 0x7 << 76
    return uuid.UUID(int=value & ~(0x3 << 62) | 0x2 << 62)
