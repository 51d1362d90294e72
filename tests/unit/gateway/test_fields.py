"""A field isn't lost between the contract and the API: a place that is missing for one fails here."""

from __future__ import annotations

import io
from collections.abc import Set
from pathlib import Path

import pytest
from citewire.common.v1.place_pb2 import Place
from citewire.generator.v1 import generator_pb2
from citewire.retriever.v1 import corpus_pb2, retriever_pb2
from google.protobuf.message import Message

from citewire_dialects.schemas import PLACE_NAMES, ScopeFields, chat, library, search
from citewire_dialects.schemas.profiles import ProfileOptions
from citewire_gateway.api.uploads import upload_header
from citewire_http.api.reading import ReadableModel
from citewire_http.api.schemas import RequestModel
from citewire_http.multipart import Form

PROFILES_PAGE = Path(__file__).resolve().parents[3] / "docs" / "reference" / "profiles.md"
NOTHING = frozenset[str]()


def names_of(message: type[Message]) -> set[str]:
    return set(message.DESCRIPTOR.fields_by_name)


def sources_of(schema: type[ReadableModel]) -> set[str]:
    """The names by which a schema's fields are read, those of parts included."""
    return {part for name in schema.model_fields for part in schema.names.get(name, name).split(".")}


OF_BOTH = names_of(corpus_pb2.UploadHeader) & names_of(corpus_pb2.PutDocumentRequest)
DESCRIBING = OF_BOTH - {"document_id", "media_type", "request_id"}
"""Fields that describe a new document, whether it is a file or a text."""


@pytest.mark.parametrize(
    ("body", "message", "apart"),
    [
        (library.DocumentBody, corpus_pb2.PutDocumentRequest, NOTHING),
        (library.FileBody, corpus_pb2.UploadHeader, {"content"}),
        (library.AddressBody, corpus_pb2.UploadHeader, NOTHING),
        (library.DocumentPatch, corpus_pb2.Document, NOTHING),
        (library.DocumentForm, corpus_pb2.UploadHeader, {"file", "path"}),
        (ScopeFields, retriever_pb2.Scope, {"document_ids"}),
        (
            search.SearchBody,
            retriever_pb2.SearchRequest,
            {*ScopeFields.model_fields, "rerank", "rerank_seconds", "include"},
        ),
        (search.PassageBody, generator_pb2.Passage, NOTHING),
    ],
)
def test_every_field_of_a_body_has_one_of_its_message(
    body: type[RequestModel], message: type[Message], apart: Set[str]
) -> None:
    assert set(body.model_fields) - names_of(message) == apart


@pytest.mark.parametrize(
    "body", [library.DocumentBody, library.FileBody, library.AddressBody, library.DocumentForm, library.Document]
)
def test_whatever_describes_a_document_is_taken_and_shown(body: type[RequestModel] | type[library.Document]) -> None:
    assert set(body.model_fields) >= DESCRIBING


def test_whatever_describes_a_document_can_be_changed() -> None:
    assert set(library.DocumentPatch.model_fields) == DESCRIBING - {"type"} | {"file_name"}


@pytest.mark.parametrize("name", sorted(library.DocumentForm.model_fields.keys() - {"file"}))
def test_every_field_of_a_form_is_read(name: str) -> None:
    texts = {"metadata": '{"a": 1}', "type": "article", "valid_from": "2030-01-31", "valid_until": "2030-01-31"}
    header = upload_header(Form(io.BytesIO(), fields={name: [texts.get(name, "x")]}), None)
    given = {field.name for field, _ in header.ListFields()}
    assert given == {"file_name" if name == "path" else name}


@pytest.mark.parametrize(
    ("schema", "messages", "hidden"),
    [
        (library.Document, (corpus_pb2.Document,), NOTHING),
        (
            search.SearchResult,
            (retriever_pb2.SearchResult, retriever_pb2.Chunk),
            {"chunk", "recent", "first_score", "recency_rank"}
            | {"char_start", "char_end", "content_hash", "heading", "label", "live", "token_count", "verbatim"}
            | {"category", "computed", "created_at", "entity_type", "places", "type"}
            | {"metadata", "tags"},  # only where they are asked for
        ),
        (
            search.Chunk,
            (retriever_pb2.Chunk,),
            {"category", "computed", "entity_type", "heading", "metadata", "places", "tags", "verbatim"},
        ),
        (
            chat.Citation,
            (retriever_pb2.Chunk,),
            {"char_start", "char_end", "chunk_index", "content_hash", "heading", "live", "token_count", "verbatim"}
            | {"metadata", "places"}
            | {"text", "type"},  # shown as `snippet` and `document_type`
        ),
        (chat.VerifiedCitation, (generator_pb2.VerifiedCitation,), NOTHING),
    ],
    ids=["document", "result", "chunk", "citation", "verified"],
)
def test_every_field_is_shown_or_hidden_on_purpose(
    schema: type[ReadableModel], messages: tuple[type[Message], ...], hidden: Set[str]
) -> None:
    known = {name for message in messages for name in names_of(message)}
    assert known - sources_of(schema) == hidden


def test_a_passage_has_what_its_chunk_has_or_is_made_for_the_prompt() -> None:
    names = names_of(generator_pb2.Passage)
    assert names - names_of(retriever_pb2.Chunk) == {"place_label", "saved_at", "similarity"}


def test_every_option_of_a_profile_is_on_its_page() -> None:
    page = PROFILES_PAGE.read_text(encoding="utf-8")
    assert [name for name in ProfileOptions.model_fields if f"`{name}`" not in page] == []


def test_places_are_shown_with_every_field() -> None:
    shown = {name.removeprefix("place.") for name in PLACE_NAMES.values()}
    assert shown == names_of(Place) - {"boxes"}  # which only a located quote has
