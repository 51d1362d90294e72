"""Fields of documents that filters compare, derived from the contract: a new one needs no further list."""

from typing import Final

from citewire.retriever.v1.corpus_pb2 import Document
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.timestamp_pb2 import Timestamp

_OF_VERSION: Final = frozenset({"media_type", "sha256"})
"""Texts of the latest version: a filter compares what documents have themselves, in columns of these names."""
_FIELDS: Final = Document.DESCRIPTOR.fields

TEXT_FIELDS: Final = tuple(
    field.name
    for field in _FIELDS
    if field.type == FieldDescriptor.TYPE_STRING and not field.is_repeated and field.name not in _OF_VERSION
)
TIME_FIELDS: Final = tuple(
    field.name
    for field in _FIELDS
    if field.message_type is not None and field.message_type.full_name == Timestamp.DESCRIPTOR.full_name
)
OTHER_FIELDS: Final = ("tags", "id")
"""Fields with operators of their own, besides `metadata.KEY`."""
