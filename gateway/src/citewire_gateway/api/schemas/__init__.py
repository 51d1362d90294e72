"""Bodies of the gateway's own routes; those of chats, documents and search are the dialects'."""

from typing import Literal

from pydantic import Field

from citewire_http.api.schemas import ResponseModel


class Health(ResponseModel):
    """The process answers."""

    status: Literal["ok"]


class Readiness(ResponseModel):
    """The gateway's dependencies."""

    status: Literal["ready"]
    database: str = Field(examples=["ok"])
    embedder: str = Field(examples=["ok"])
    retriever: str = Field(examples=["ok"])
    generator: str = Field(examples=["ok"])
