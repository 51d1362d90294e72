"""The permissions of callers, computed in Python from the rules; tests compare the database with them."""

from __future__ import annotations

from dataclasses import dataclass, field

from citewire_kit.tenant import Tenant

ACCESSES = ("read", "write", "manage")


@dataclass(slots=True)
class ModelDocument:
    """A live document."""

    document_id: int
    chunk_id: int
    owner: str
    collection: str
    label: str
    """A tag of its own."""
    readers: frozenset[str] = frozenset()


@dataclass(slots=True)
class PermissionModel:
    """One organisation."""

    grants: dict[str, dict[str, str]] = field(default_factory=dict[str, dict[str, str]])
    """By collection: subjects and their access."""
    documents: dict[int, ModelDocument] = field(default_factory=dict[int, ModelDocument])

    def access(self, caller: Tenant, collection: str) -> str | None:
        """A caller's access to a collection ("": none)."""
        if caller.role in ("admin", "owner"):
            return "manage"
        grants = self.grants.get(collection)
        if not grants:
            return "manage" if caller.role == "editor" else "read"
        granted = [access for subject, access in grants.items() if subject in subjects(caller)]
        if not granted:
            return None
        return max(granted, key=ACCESSES.index) if caller.role == "editor" else "read"

    def sees(self, caller: Tenant, document: ModelDocument) -> bool:
        """Whether a caller may see a document."""
        if caller.role in ("admin", "owner") or document.owner == caller.user_id:
            return True
        grants = self.grants.get(document.collection, {})
        if any(access == "manage" for subject, access in grants.items() if subject in subjects(caller)):
            return True
        allowed = not document.readers or not document.readers.isdisjoint(subjects(caller))
        return self.access(caller, document.collection) is not None and allowed

    def may_change(self, caller: Tenant, document: ModelDocument) -> bool:
        """Whether a caller who sees a document may change it."""
        if caller.role == "reader":
            return False
        return document.owner == caller.user_id or self.access(caller, document.collection) in ("write", "manage")

    def visible(self, caller: Tenant) -> dict[int, ModelDocument]:
        """The documents that a caller may see, by id."""
        return {number: document for number, document in self.documents.items() if self.sees(caller, document)}


def subjects(caller: Tenant) -> set[str]:
    """A caller's subjects, as in grants."""
    return {"everyone", f"user:{caller.user_id}", *(f"group:{group}" for group in caller.groups)}
