"""Ids of what calls are a part of."""

import uuid


def exchange_uuid(text: str) -> uuid.UUID | None:
    """Reads an exchange's id; None if it isn't one: what a call is a part of isn't worth refusing it."""
    try:
        return uuid.UUID(text)
    except ValueError:
        return None
