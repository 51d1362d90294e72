"""A field of documents isn't lost between the contract, the domain and SQL: forgetting a place fails here."""

from __future__ import annotations

import re
from dataclasses import fields

import pytest
from citewire.retriever.v1 import corpus_pb2 as pb
from citewire.retriever.v1.retriever_pb2 import Chunk
from google.protobuf.field_mask_pb2 import FieldMask
from google.protobuf.message import Message

from citewire_kit.errors import InvalidArgument
from citewire_retriever.converters.documents import changes_from_proto
from citewire_retriever.model import VALIDITY, Changes, NewContent
from citewire_retriever.store.rows import CHUNK_COLUMNS, queries

SQL = queries("documents")
OF_VERSION = {"media_type", "request_id", "source_url"}
"""Fields of new content that aren't stored with the document."""
COLUMNS = {"collection": "collection_id", "readers": "access_id"}
"""Columns of fields that are stored as ids."""
COMPOSED = {"error", "progress", "enrichment"}
"""Fields of a document that several columns make up."""


def names_of(message: type[Message]) -> set[str]:
    return set(message.DESCRIPTOR.fields_by_name)


def parameters_of(query: str) -> set[str]:
    return set(re.findall(r"%\((\w+)\)s", SQL[query]))


def stored(names: set[str]) -> set[str]:
    return {COLUMNS.get(name, name) for name in names}


def test_both_kinds_of_new_content_have_every_field() -> None:
    content = {field.name for field in fields(NewContent)}
    assert names_of(pb.UploadHeader) == content
    assert names_of(pb.PutDocumentRequest) - {"content"} == content - {"file_name", "source_url"}


def test_new_content_is_stored_with_every_field() -> None:
    content = {field.name for field in fields(NewContent)} - OF_VERSION
    assert stored(content - {"document_id"}) <= parameters_of("insert_document")
    assert stored(content) <= parameters_of("add_version")


def test_what_new_content_describes_can_be_changed() -> None:
    described = {field.name for field in fields(NewContent)} - OF_VERSION - {"document_id", "type"}
    changeable = {field.name for field in fields(Changes)} - {"validity"} | set(VALIDITY)
    assert changeable == described


@pytest.mark.parametrize("name", [field.name for field in fields(Changes) if field.name != "validity"])
def test_every_change_is_read_and_stored(name: str) -> None:
    document = pb.Document(document_id=1, title="t", file_name="f")
    document.metadata.update({"k": 1})
    request = pb.UpdateDocumentRequest(document=document, update_mask=FieldMask(paths=[name]))
    _, changes = changes_from_proto(request)
    assert [field.name for field in fields(Changes) if getattr(changes, field.name) not in (None, {})] == [name]
    assert stored({name}) <= parameters_of("update_document")


def test_nothing_else_can_be_changed() -> None:
    for name in names_of(pb.Document) - {field.name for field in fields(Changes)} - set(VALIDITY):
        request = pb.UpdateDocumentRequest(document=pb.Document(document_id=1), update_mask=FieldMask(paths=[name]))
        with pytest.raises(InvalidArgument):
            changes_from_proto(request)


def test_every_field_of_a_chunk_is_selected() -> None:
    derived = {"entity_type", "category", "heading", "label"}
    assert set(CHUNK_COLUMNS) == names_of(Chunk) - derived - {"computed"}  # which no stored chunk is


def test_every_field_of_a_document_is_selected() -> None:
    columns = set(re.findall(r"(?:\b[a-z]\.|\bAS )(\w+)", SQL["select_document"].partition("\nFROM ")[0]))
    assert names_of(pb.Document) - COMPOSED <= columns
