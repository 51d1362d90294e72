"""From an upload's form fields to the header that the retriever gets before the file."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, get_args

from citewire.retriever.v1 import corpus_pb2

from citewire_dialects.json_values import struct_from_json
from citewire_dialects.profile import DocumentType
from citewire_gateway.api.schemas.library import MAX_TAG, MAX_TAGS
from citewire_http.api.form_fields import read_bound, read_object, read_text, read_texts
from citewire_http.multipart import Form
from citewire_kit.errors import Violations

MAX_LENGTHS = {"path": 1000, "title": 500, "collection": 128, "url": 2048, "type": 32}
_REPEATED = ("tags", "readers")
_VALIDITY = {"valid_from": timedelta(), "valid_until": timedelta(days=1)}
"""Bounds, and what a day's beginning is from each."""
_MAX_METADATA = 64 * 1024
_TYPES = get_args(DocumentType)


def upload_header(form: Form, document_id: int | None) -> corpus_pb2.UploadHeader:
    """Reads the form's fields.

    Raises:
        InvalidArgument: With one violation per wrong field.
    """
    wrong = Violations()
    for name in form.fields.keys() - MAX_LENGTHS.keys() - {*_REPEATED, *_VALIDITY, "metadata"}:
        wrong.add(name[:64], "is not a field of an upload")
    single = {name: read_text(wrong, form, name, most) for name, most in MAX_LENGTHS.items()}
    wrong.require(single["type"] in ("", *_TYPES), "type", f"must be one of {', '.join(_TYPES)}")
    path = single.pop("path")
    wrong.require(not path or is_relative(path), "path", "must be a relative path: no \\, no empty part, . or ..")
    tags = _tags(wrong, form.fields.get("tags", []))
    readers = read_texts(wrong, "readers", form.fields.get("readers", []), comma=False)
    metadata = read_object(wrong, form, "metadata", _MAX_METADATA)
    fields: dict[str, Any] = single | {name: read_bound(wrong, form, name, after) for name, after in _VALIDITY.items()}
    wrong.raise_if_any()
    return corpus_pb2.UploadHeader(
        document_id=document_id,
        file_name=path or form.file_name,
        media_type=form.media_type,
        tags=tags,
        readers=readers,
        metadata=None if metadata is None else struct_from_json(metadata),
        **fields,
    )


def is_relative(path: str) -> bool:
    """Whether a path stays in its folder, is written with `/`, and holds nothing that a terminal would obey."""
    return path.isprintable() and "\\" not in path and not {"", ".", ".."}.intersection(path.split("/"))


def _tags(wrong: Violations, values: Sequence[str]) -> list[str]:
    tags = read_texts(wrong, "tags", values, comma=True)
    wrong.require(len(tags) <= MAX_TAGS, "tags", f"must be at most {MAX_TAGS}")
    wrong.require(all(len(tag) <= MAX_TAG for tag in tags), "tags", f"must be at most {MAX_TAG} characters long each")
    return tags
