"""Who may do what with a collection, and who may read a document."""

from enum import StrEnum
from typing import Annotated, Literal

from citewire.retriever.v1 import corpus_pb2
from pydantic import Field, StrictStr

from citewire_http.api.schemas import RequestModel, ResponseModel
from citewire_kit.enums import EnumMap


class Access(StrEnum):
    """Access to a collection or a document; each level includes those before it."""

    READ = "read"
    WRITE = "write"
    MANAGE = "manage"

    @classmethod
    def _missing_(cls, value: object) -> "Access":
        del value  # from a retriever of another version
        return cls.READ


ACCESSES = EnumMap(Access, corpus_pb2.Access)

Subject = Annotated[
    StrictStr,
    Field(max_length=206, description="`user:ID`, `group:NAME` or `everyone`.", examples=["group:hr"]),
]


class GrantBody(RequestModel):
    """One subject's access to a collection."""

    subject: Subject
    access: Literal["read", "write", "manage"]


class GrantsBody(RequestModel):
    """A collection's grants, replacing the previous ones."""

    grants: Annotated[
        list[GrantBody], Field(max_length=1000, description="One per subject; none opens the collection to everybody.")
    ]

    def to_proto(self, name: str) -> corpus_pb2.SetCollectionGrantsRequest:
        """Returns it as the retriever's message."""
        grants = [
            corpus_pb2.Grant(subject=grant.subject, access=ACCESSES.to_proto(Access(grant.access)))
            for grant in self.grants
        ]
        return corpus_pb2.SetCollectionGrantsRequest(name=name, grants=grants)


class Grant(ResponseModel):
    """One subject's access to a collection."""

    subject: str = Field(examples=["group:hr"])
    access: Access = Field(examples=["read"])


class GrantList(ResponseModel):
    """A collection's grants by subject; none: it is open to everybody."""

    grants: list[Grant]
