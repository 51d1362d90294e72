"""Checks that several messages share. Each notes what is wrong and where, and goes on: callers hear of all of it."""

import json
import math
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final, Literal

from citewire.retriever.v1.corpus_pb2 import ListDocumentsRequest
from citewire.retriever.v1.retriever_pb2 import Scope
from google.protobuf.message import Message
from google.protobuf.struct_pb2 import ListValue, Struct, Value
from google.protobuf.timestamp_pb2 import Timestamp

from citewire_kit.errors import InvalidArgument, Violations, invalid_field
from citewire_kit.nesting import MAX_METADATA_NESTING, is_deeper
from citewire_kit.tenant import is_group, is_token
from citewire_retriever.model import DOCUMENT_TYPES, JsonObject, JsonValue, Space, Validity
from citewire_retriever.paging import DEFAULT_PAGE_SIZE, MAX_PAGE_SIZE
from citewire_retriever.service.metadata import MAX_URL, is_web_address

MAX_TITLE: Final = 500
MAX_FILE_NAME: Final = 255
MAX_FILE_PATH: Final = 1000
"""Maximum length of a file name with its folders."""
MAX_COLLECTION: Final = 128
MAX_TAGS: Final = 50
MAX_TAG: Final = 64
MAX_READERS: Final = 200
MAX_METADATA_BYTES: Final = 64 * 1024
MAX_DIMENSIONS: Final = 4096
_ODD: Final = "must contain neither NUL characters nor lone surrogates"


def is_storable(text: str) -> bool:
    """Whether Postgres can store the text: no NUL character, no lone surrogate."""
    return "\0" not in text and not any("\ud800" <= character <= "\udfff" for character in text)


def check_text(violations: Violations, field: str, text: str, *, longest: int, needed: bool = False) -> str:
    """Checks a text of one line or more, and returns it."""
    if violations.require(is_storable(text), field, _ODD):
        if needed:
            violations.require(bool(text.strip()), field, f"is required: 1–{longest} characters")
        violations.require(len(text) <= longest, field, f"must be at most {longest} characters")
    return text


def check_title(violations: Violations, field: str, title: str, *, needed: bool = False) -> str:
    """Checks a title; only white space counts as empty."""
    return check_text(violations, field, title, longest=MAX_TITLE, needed=needed).strip()


def check_url(violations: Violations, field: str, url: str) -> str:
    """Checks an original's URL, which may be empty. Clients turn it into links, so it must not be a script."""
    if is_storable(url) and len(url) <= MAX_URL:
        violations.require(not url or is_web_address(url), field, "must be an http or https URL, or empty")
    return check_text(violations, field, url, longest=MAX_URL)


def check_collection(violations: Violations, field: str, name: str, *, needed: bool = False) -> str:
    """Checks a collection's name; "" means none unless one is needed."""
    if name or needed:
        check_text(violations, field, name, longest=MAX_COLLECTION, needed=True)
    return name


def check_type(violations: Violations, field: str, kind: str, *, needed: bool = False) -> str:
    """Checks a document's type; "" means any unless one is needed."""
    if kind or needed:
        violations.require(kind in DOCUMENT_TYPES, field, f"must be one of {', '.join(DOCUMENT_TYPES)}")
    return kind


def check_file_name(violations: Violations, field: str, name: str, *, needed: bool = True) -> str:
    """Checks a file name, which may be a relative path that stays inside its folder."""
    if not name and not needed:
        return ""
    check_text(violations, field, name, longest=MAX_FILE_PATH, needed=True)
    parts = name.split("/")
    proper = "\\" not in name and not {"", ".", ".."}.intersection(parts)
    violations.require(not name or proper, field, "must be a name or a relative path: no \\, no empty part, . or ..")
    violations.require(len(parts[-1]) <= MAX_FILE_NAME, field, f"must be at most {MAX_FILE_NAME} characters long")
    return name


def check_tags(violations: Violations, field: str, tags: Sequence[str]) -> tuple[str, ...]:
    """Checks tags, and returns them in order without duplicates."""
    violations.require(len(tags) <= MAX_TAGS, field, f"must be at most {MAX_TAGS} tags")
    for number, tag in enumerate(tags[:MAX_TAGS]):
        check_text(violations, f"{field}[{number}]", tag, longest=MAX_TAG, needed=True)
    return tuple(dict.fromkeys(tags))


def check_readers(violations: Violations, field: str, readers: Sequence[str]) -> tuple[str, ...]:
    """Checks the subjects who may read a document, and returns them without duplicates."""
    violations.require(len(readers) <= MAX_READERS, field, f"must be at most {MAX_READERS} subjects")
    for number, reader in enumerate(readers[:MAX_READERS]):
        check_subject(violations, f"{field}[{number}]", reader)
    return tuple(dict.fromkeys(readers))


def check_subject(violations: Violations, field: str, subject: str) -> str:
    """Checks the subject of a grant."""
    kind, _, name = subject.partition(":")
    proper = is_token(name) if kind == "user" else kind == "group" and is_group(name)
    violations.require(subject == "everyone" or proper, field, "must be user:ID, group:NAME or everyone")
    return subject


def readers_of_acl(violations: Violations, field: str, acl: JsonValue) -> tuple[str, ...]:
    """Reads a document's readers from its source: an object of `users`, `groups` and `everyone`."""
    if not isinstance(acl, dict) or not acl.keys() <= {"users", "groups", "everyone"}:
        violations.add(field, "must be an object of users, groups and everyone")
        return ()
    everyone = acl.get("everyone", False)
    violations.require(isinstance(everyone, bool), f"{field}.everyone", "must be true or false")
    readers: list[str] = ["everyone"] if everyone is True else []
    for kind in ("user", "group"):
        names = acl.get(f"{kind}s", [])
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            violations.add(f"{field}.{kind}s", "must be a list of names")
            return ()
        readers += [f"{kind}:{name}" for name in names]
    violations.require(bool(readers), field, "must contain a user, a group or everyone")
    return check_readers(violations, field, readers)


def check_metadata(violations: Violations, field: str, struct: Struct) -> JsonObject:
    """Checks metadata: valid in JSON and Postgres, at most 64 KiB, and not nested too deeply for responses."""
    results: dict[str, JsonValue] = {}
    try:
        results = _from_struct(field, struct)
    except InvalidArgument as exc:
        for violation in exc.violations:
            violations.add(violation.field, violation.message)
        return results
    deep = is_deeper(results, MAX_METADATA_NESTING)
    violations.require(not deep, field, f"must be nested at most {MAX_METADATA_NESTING} levels deep")
    size = len(json.dumps(results, ensure_ascii=False).encode())
    violations.require(
        size <= MAX_METADATA_BYTES, field, f"must be at most {MAX_METADATA_BYTES} bytes as JSON, but has {size}"
    )
    return results


def check_id(violations: Violations, field: str, number: int) -> int:
    """Checks that an id is given."""
    violations.require(number > 0, field, "is required: an id is a positive number")
    return number


def read_moment(
    violations: Violations, message: Message, field: Literal["as_of", "valid_from", "valid_until"], where: str = ""
) -> datetime | None:
    """Reads a time; None if it isn't set. `where` precedes the field's name in errors."""
    if not message.HasField(field):
        return None
    timestamp: Timestamp = getattr(message, field)
    try:
        return timestamp.ToDatetime(UTC)
    except (ValueError, OverflowError):
        violations.add(where + field, "must be a time in the years 1 to 9999")
        return None


def read_validity(violations: Violations, message: Scope | ListDocumentsRequest, where: str = "") -> Validity:
    """Reads the filter for documents' validity."""
    as_of = read_moment(violations, message, "as_of", where)
    violations.require(as_of is None or not message.any_validity, f"{where}any_validity", "can't be given with as_of")
    return Validity(as_of, message.any_validity)


def check_page_size(violations: Violations, page_size: int) -> int:
    """Checks a page size, and returns it or the default."""
    violations.require(page_size <= MAX_PAGE_SIZE, "page_size", f"must be between 1 and {MAX_PAGE_SIZE}")
    return page_size or DEFAULT_PAGE_SIZE


def check_space(violations: Violations, field: str, space: Space) -> Space:
    """Checks an embedding space."""
    check_text(violations, f"{field}.model", space.model, longest=200, needed=True)
    check_text(violations, f"{field}.revision", space.revision, longest=100, needed=True)
    violations.require(
        1 <= space.dimensions <= MAX_DIMENSIONS, f"{field}.dimensions", f"must be between 1 and {MAX_DIMENSIONS}"
    )
    return space


def _from_struct(where: str, struct: Struct) -> dict[str, JsonValue]:
    results: dict[str, JsonValue] = {}
    for key, value in struct.fields.items():
        if not is_storable(key):
            raise invalid_field(where, f"a key {_ODD}")
        results[key] = _from_value(f"{where}.{key}", value)
    return results


def _from_list(where: str, values: ListValue) -> list[JsonValue]:
    return [_from_value(f"{where}[{number}]", value) for number, value in enumerate(values.values)]


def _from_value(where: str, value: Value) -> JsonValue:
    kind = value.WhichOneof("kind")
    if kind == "struct_value":
        return _from_struct(where, value.struct_value)
    if kind == "list_value":
        return _from_list(where, value.list_value)
    if kind == "string_value":
        if not is_storable(value.string_value):
            raise invalid_field(where, _ODD)
        return value.string_value
    if kind == "number_value":
        number = value.number_value
        if not math.isfinite(number):
            raise invalid_field(where, "must be a finite number")
        return int(number) if number.is_integer() and abs(number) <= 2**53 else number
    return value.bool_value if kind == "bool_value" else None
