"""How deep JSON is nested, and that no accepted metadata is too deep for an answer."""

from __future__ import annotations

from typing import Any

import pytest
from citewire.retriever.v1 import retriever_pb2
from google.protobuf.struct_pb2 import Struct

from citewire_kit.errors import InvalidArgument, Violations
from citewire_kit.nesting import MAX_METADATA_NESTING, is_deeper
from citewire_retriever.converters.checks import check_metadata


def nested(depth: int, *, lists: bool = False) -> Any:  # noqa: ANN401 # any value of JSON
    value: object = 1
    for _ in range(depth):
        value = [value] if lists else {"a": value, "b": 1}
    return value


@pytest.mark.parametrize("lists", [True, False])
def test_depth(lists: bool) -> None:
    assert not is_deeper(nested(0), 0)
    for depth in (1, 2, 30, 5_000):
        assert is_deeper(nested(depth, lists=lists), depth - 1)
        assert not is_deeper(nested(depth, lists=lists), depth)
    mixed: dict[str, Any] = {"a": {}, "b": [[]], "c": "[[[["}
    assert not is_deeper(mixed, 3)


@pytest.mark.parametrize("lists", [True, False])
def test_accepted_metadata_fits_every_answer(lists: bool) -> None:
    struct, wrong = Struct(), Violations()
    struct.update({"m": nested(MAX_METADATA_NESTING - 1, lists=lists)})
    check_metadata(wrong, "metadata", struct)
    wrong.raise_if_any()
    chunk = retriever_pb2.SearchResponse()
    chunk.results.add().chunk.metadata.CopyFrom(struct)
    assert retriever_pb2.SearchResponse.FromString(chunk.SerializeToString()) == chunk
    struct.update({"m": nested(MAX_METADATA_NESTING, lists=lists)})
    check_metadata(wrong, "metadata", struct)
    with pytest.raises(InvalidArgument, match="metadata: must be nested at most 16 levels deep"):
        wrong.raise_if_any()
