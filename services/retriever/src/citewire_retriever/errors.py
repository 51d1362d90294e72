"""Errors raised in several places."""

from collections.abc import Sequence
from typing import Final

from citewire_kit.errors import FailedPrecondition, NotFound, PermissionDenied
from citewire_retriever.model import Scope, Space

_MAX_NAMED: Final = 250
"""Maximum characters of ids in an error's metadata."""


def documents_not_found(document_ids: Sequence[int]) -> NotFound:
    """Returns the common error for nonexistent documents and those of other tenants, which lists them."""
    return _not_found("document", document_ids, "DOCUMENT_NOT_FOUND")


def scope_not_found(scope: Scope, unknown_ids: Sequence[int]) -> NotFound:
    """Returns the error for parts of a scope that the caller doesn't have; the id 0 means its collection."""
    return collection_not_found(scope.collection) if 0 in unknown_ids else documents_not_found(unknown_ids)


def collection_not_found(name: str) -> NotFound:
    """Returns the common error for a nonexistent collection and one of another tenant."""
    return NotFound(f"there is no collection {name!r}", reason="COLLECTION_NOT_FOUND", metadata={"collection": name})


def access_missing(what: str, needed: str) -> PermissionDenied:
    """Returns the error for an action on something that the caller may only see.

    Args:
        what: The action, such as "change document 7".
        needed: The access that it needs: `write` or `manage`.
    """
    return PermissionDenied(
        f"you may not {what}: it needs {needed} access", reason="PERMISSION_DENIED", metadata={"needed": needed}
    )


def chunks_not_found(chunk_ids: Sequence[int]) -> NotFound:
    """Returns the common error for nonexistent chunks and those of other tenants, which lists them."""
    return _not_found("chunk", chunk_ids, "CHUNK_NOT_FOUND")


def space_mismatch(current: Space) -> FailedPrecondition:
    """Returns the error for a vector of a space that isn't served; its metadata has the current one."""
    return FailedPrecondition(
        "the vector belongs to an embedding space that isn't served: embed the question again in the current one",
        reason="SPACE_MISMATCH",
        metadata={"model": current.model, "revision": current.revision, "dimensions": str(current.dimensions)},
    )


def _not_found(what: str, ids: Sequence[int], reason: str) -> NotFound:
    named = ""
    count = 0
    for number in ids:
        longer = f"{named},{number}" if named else str(number)
        if len(longer) > _MAX_NAMED:
            break
        named, count = longer, count + 1
    metadata = {f"{what}_ids": named}
    if count < len(ids):
        metadata["left_out"] = str(len(ids) - count)
    shown = named.replace(",", ", ")
    message = f"no such {what}: {shown}" if len(ids) == 1 else f"no such {what}s: {shown}"
    return NotFound(message, reason=reason, metadata=metadata)
