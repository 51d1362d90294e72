"""An option of searches isn't lost between the contract and the domain: forgetting a place fails here."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest
from citewire.retriever.v1 import retriever_pb2 as pb
from google.protobuf.descriptor import FieldDescriptor

from citewire_kit.errors import InvalidArgument
from citewire_retriever.converters.search import search_from_proto
from citewire_retriever.model import SearchQuery

FIELDS = pb.SearchRequest.DESCRIPTOR.fields
SWITCHES = [field.name for field in FIELDS if field.type == FieldDescriptor.TYPE_BOOL]
NUMBERS = [field.name for field in FIELDS if field.type in (FieldDescriptor.TYPE_UINT32, FieldDescriptor.TYPE_DOUBLE)]


def query(**options: Any) -> SearchQuery:  # noqa: ANN401 # by their names
    return search_from_proto(pb.SearchRequest(mode=pb.SEARCH_MODE_LEXICAL, query="words", **options))


def test_a_search_has_every_field_of_its_request() -> None:
    of_request, of_query = {field.name for field in FIELDS}, {field.name for field in fields(SearchQuery)}
    assert of_request - of_query == {"query", "group_by"}
    assert of_query - of_request == {"text", "by_document"}


@pytest.mark.parametrize("name", SWITCHES)
def test_every_switch_is_read(name: str) -> None:
    assert getattr(query(**{name: True}), name) is True
    assert getattr(query(), name) is False


@pytest.mark.parametrize("name", NUMBERS)
def test_every_number_is_read_and_bounded(name: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        query(**{name: 4_000_000_000})
    assert {violation.field for violation in refused.value.violations} == {name}
    if name not in ("recent", "diversity"):  # which are for vectors
        assert getattr(query(**{name: 1}), name) == 1
