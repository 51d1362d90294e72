"""From an upload's form fields to the header that the retriever gets before the file."""

import json
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, cast, get_args

from citewire.retriever.v1 import corpus_pb2

from citewire_gateway.api.schemas.library import MAX_TAG, MAX_TAGS
from citewire_gateway.clients.retriever import struct_from_json
from citewire_gateway.profiles.model import DocumentType
from citewire_http.api.times import read_moment
from citewire_http.bodies import parse_json
from citewire_http.multipart import Form
from citewire_kit.errors import CitewireError, InvalidArgument, Violations

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
    single = {name: _single(wrong, form, name, most) for name, most in MAX_LENGTHS.items()}
    wrong.require(single["type"] in ("", *_TYPES), "type", f"must be one of {', '.join(_TYPES)}")
    path = single.pop("path")
    wrong.require(not path or is_relative(path), "path", "must be a relative path: no \\, no empty part, . or ..")
    tags = _tags(wrong, form.fields.get("tags", []))
    readers = _listed(wrong, "readers", form.fields.get("readers", []), comma=False)
    metadata = _metadata(wrong, form)
    fields: dict[str, Any] = single | {name: _moment(wrong, form, name, after) for name, after in _VALIDITY.items()}
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


def _single(wrong: Violations, form: Form, name: str, most: int) -> str:
    values = form.fields.get(name, [])
    wrong.require(len(values) <= 1, name, "is there more than once")
    value = values[0].strip() if values else ""
    wrong.require(len(value) <= most, name, f"must be at most {most} characters long")
    return value


def _moment(wrong: Violations, form: Form, name: str, after: timedelta) -> datetime | None:
    text = _single(wrong, form, name, 200)
    try:
        return read_moment(name, text, after=after) if text else None
    except InvalidArgument as exc:
        wrong.add(name, exc.violations[0].message)
        return None


def _tags(wrong: Violations, values: Sequence[str]) -> list[str]:
    tags = _listed(wrong, "tags", values, comma=True)
    wrong.require(len(tags) <= MAX_TAGS, "tags", f"must be at most {MAX_TAGS}")
    wrong.require(all(len(tag) <= MAX_TAG for tag in tags), "tags", f"must be at most {MAX_TAG} characters long each")
    return tags


def _listed(wrong: Violations, name: str, values: Sequence[str], *, comma: bool) -> list[str]:
    """Several come as repeated fields; each may hold several too, as a JSON list or, with `comma`, between commas."""
    listed: list[str] = []
    for value in values:
        if not value.lstrip().startswith("["):
            listed.extend(part.strip() for part in (value.split(",") if comma else [value]))
            continue
        members = _parsed(wrong, name, value)
        if not isinstance(members, list) or not all(
            isinstance(member, str) for member in cast("list[object]", members)
        ):
            wrong.add(name, "must be a JSON list of strings")
            continue
        listed.extend(member.strip() for member in cast("list[str]", members))
    return [part for part in dict.fromkeys(listed) if part]


def _metadata(wrong: Violations, form: Form) -> dict[str, Any] | None:
    text = _single(wrong, form, "metadata", _MAX_METADATA)
    if not text:
        return None
    value = _parsed(wrong, "metadata", text)
    if not isinstance(value, dict):
        wrong.add("metadata", "must be a JSON object")
        return None
    return cast("dict[str, Any]", value)


def _parsed(wrong: Violations, name: str, text: str) -> object:
    try:
        value = parse_json(text.encode())
        json.dumps(value, ensure_ascii=False).encode()  # half a surrogate pair can be written in JSON, and not sent on
    except (CitewireError, UnicodeEncodeError):
        wrong.add(name, "isn't valid JSON")
        return None
    return value
