"""A library of two organisations with partial access for callers, and its rules, for proofs of permissions."""

from __future__ import annotations

import random
import re
from dataclasses import replace

import prometheus_client

from citewire_kit.tenant import Tenant
from corpus_rows import CorpusRows, NewDocument, Vectors
from permission_model import ModelDocument, PermissionModel

ORGS = ("acme", "globex")
PEOPLE = (
    ("alice", ("editor",), ("hr",)),
    ("bob", ("member",), ("dev", "a, b")),
    ("carl", ("reader",), ("hr", "dev")),
    ("dora", ("admin",), ()),
    ("eve", ("editor",), ()),
)
SUBJECTS = ("everyone", "group:hr", "group:dev", "group:a, b", "user:bob", "user:eve", "user:carl")
GROUPS = ("hr", "dev", "a, b")
CANARY = re.compile(r"canary(?:acme|globex)\w+?x\b")
"""Title, tag, words and bytes of a document, or the name of a collection."""
_DOCUMENTS = 15


class Organisation:
    """The stored data of one organisation, and its rules."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.model = PermissionModel()
        self.made = 0
        self.collections = [f"canary{name}{collection}x" for collection in ("Payroll", "Code", "Wiki")]
        self.callers = [Tenant(name, user, "pro", roles, groups=groups) for user, roles, groups in PEOPLE]

    def read(self, rows: CorpusRows) -> None:
        """Reads the grants and documents as they are stored."""
        self.model.grants = {}
        for collection, subject, access in rows.all(
            "SELECT c.name, g.subject, g.access FROM corpus.collection_grants g"
            " JOIN corpus.collections c USING (org_id, collection_id) WHERE org_id = %s",
            (self.name,),
        ):
            self.model.grants.setdefault(collection, {})[subject] = access
        self.model.documents = {
            document_id: ModelDocument(document_id, chunk_id, owner, collection, label, frozenset(readers))
            for document_id, chunk_id, owner, collection, label, readers in rows.all(
                "SELECT d.document_id, coalesce(min(k.chunk_id), 0), d.owner, coalesce(c.name, ''), d.title,"
                " coalesce(a.readers, '{}') FROM corpus.documents d"
                " LEFT JOIN corpus.collections c USING (org_id, collection_id)"
                " LEFT JOIN corpus.accesses a USING (org_id, access_id)"
                " LEFT JOIN corpus.chunks k USING (org_id, document_id)"
                " WHERE d.org_id = %s GROUP BY d.document_id, d.owner, c.name, d.title, a.readers"
                " ORDER BY d.document_id",
                (self.name,),
            )
        }

    def join_and_leave(self, choices: random.Random) -> tuple[Tenant, Tenant]:
        """Moves one of the callers to other groups; returns the caller before and after."""
        number = choices.randrange(len(self.callers))
        before = self.callers[number]
        groups = tuple(choices.sample(GROUPS, choices.randrange(len(GROUPS) + 1)))
        self.callers[number] = replace(before, groups=groups)
        return before, self.callers[number]

    def named(self, caller: Tenant) -> set[str]:
        """The canaries that a caller may read: titles of documents and names of collections."""
        collections = {name for name in self.collections if self.model.access(caller, name)}
        return {document.label for document in self.model.visible(caller).values()} | collections

    def refill(self, rows: CorpusRows, choices: random.Random, vectors: Vectors) -> None:
        """Inserts ingested documents, so that they can be found."""
        while sum(document.chunk_id > 0 for document in self.model.documents.values()) < _DOCUMENTS:
            self.made += 1
            label = f"canary{self.name}{self.made}x"
            document = NewDocument(
                self.name,
                vectors[self.made % len(vectors)][None],
                title=label,
                owner=choices.choice(PEOPLE)[0],
                collection=choices.choice(("", *self.collections)),
                tags=(label,),
                texts=(f"beacon {label}",),
                metadata={"secret": label},
            )
            number, _ = rows.add(document)
            rows.run("INSERT INTO corpus.originals VALUES (%s, %s, 1, 0, %s)", (self.name, number, label.encode()))
            rows.run("UPDATE corpus.versions SET size_bytes = %s WHERE document_id = %s", (len(label), number))
            stored = "INSERT INTO corpus.stored_bytes (org_id, user_id, bytes) VALUES (%s, %s, %s)"
            rows.run(stored, (self.name, document.owner, len(label) - 1))  # as if it had been uploaded like this
            rows.run("INSERT INTO corpus.texts VALUES (%s, %s, 1, 0, 0, %s)", (self.name, number, label))
            self.read(rows)


def assert_nothing_leaked(printed: str) -> None:
    """Asserts that no canary is in the output, especially the log, or in the metrics."""
    assert not CANARY.findall(printed), "in the log"
    assert not CANARY.findall(prometheus_client.generate_latest().decode()), "in the metrics"
