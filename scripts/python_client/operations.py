"""The client's methods for asyncio, one for each operation."""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from textwrap import indent, wrap
from typing import Final

from scripts.python_client.tools import Json

FOREIGN_TAGS: Final = frozenset({"system"})
"""Operations for orchestrators."""
NOT_METHODS: Final = frozenset(
    # Third-party APIs have their own clients; the others stream and are hand-written.
    [
        *("simple_chat", "simple_query", "self_rag_query", "self_rag_chat", "read_message", "complete"),
        *("read_events", "watch_document", "get_content", "get_text", "export_user"),
        # A browser's sign-in:
        *("come_back", "sign_in", "sign_out", "refresh_session"),
    ]
)
FOREIGN_PATHS: Final = ("/v1/files", "/v1/responses", "/v1/vector_stores")
"""Operations for OpenAI's own clients; the library has its own ones."""
NAMES: Final = {
    "add_erasure": "create_erasure",
    "cancel": "cancel_run",
    "change_rules": "change_provider_rules",
    "get_session": "get_caller",
    "order": "rerank",
    "patch_document": "update_document",
}
NAMES_BY_BODY: Final = {
    ("add_document", "AddressBody"): "fetch_document",
    ("replace_document", "AddressBody"): "fetch_version",
}
"""Separate methods for the other bodies of operations that take several."""
SAFE_POSTS: Final = frozenset({"search", "verify", "rerank", "embed", "query_table"})
"""Operations that change nothing, so that they may be repeated."""
FOREIGN_FIELDS: Final = {"ChatRequest": frozenset({"id", "messageId", "trigger", "stream"})}
"""Fields of AI SDK's clients, and those that the method sets."""
ID_TYPES: Final = {"document_id": "int", "chunk_id": "int", "conversation_id": "UUID | str", "run_id": "UUID | str"}
FORM_TYPES: Final = {"tags": "Sequence[str]", "readers": "Sequence[str]", "metadata": "Mapping[str, Any]"}
"""Forms contain texts; these fields are sent as JSON."""
METHODS: Final = ("get", "post", "put", "patch", "delete")
WIDTH: Final = 112
HEADER: Final = '''"""Every operation of the API, as a method: scripts/python_client/ wrote it."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from citewire_client import models
from citewire_client._async.chat import AsyncChatStream
from citewire_client._async.transport import AsyncTransport
from citewire_client.files import FileSource, Progress, opened
from citewire_client.requests import NOT_GIVEN, NotGiven, Request, form_fields, given, idempotent, path_of, query


class AsyncOperations:
    """The API's operations. What a method doesn't give is the gateway's default."""

    def __init__(self, transport: AsyncTransport) -> None:
        """`transport` sends what the methods ask for."""
        self._transport = transport

'''


@dataclass(frozen=True)
class Field:
    """A parameter of a method."""

    name: str
    type: str
    required: bool

    def argument(self, absent: str) -> str:
        """Its declaration in the method; `absent`: the default."""
        if self.required:
            return f"{self.name}: {self.type}"
        if absent == "None":
            return f"{self.name}: {self.type.removesuffix(' | None')} | None = None"
        closed = self.type.removesuffix(" | None")
        return f"{self.name}: {closed} | NotGiven{self.type.removeprefix(closed)} = {absent}"


@dataclass(frozen=True)
class Operation:
    """A method and a path."""

    name: str
    method: str
    path: str
    definition: Json
    schemas: Json

    @property
    def placeholders(self) -> list[Field]:
        """The parameters in the path."""
        names = re.findall(r"{(\w+)}", self.path)
        content = self.definition.get("requestBody", {}).get("content", {})
        body = {member for media in content.values() for member in self._schema(media).get("properties", {})}
        return [
            Field(
                # The body of a rename has the new name.
                f"current_{name}" if name in body else name,
                ID_TYPES.get(name, "UUID | str" if name.endswith("_id") else "str"),
                required=True,
            )
            for name in names
        ]

    def _schema(self, media: Json) -> Json:
        return self.schemas[media["schema"]["$ref"].rpartition("/")[2]]

    @property
    def query(self) -> list[Field]:
        """The query parameters of the method."""
        return [
            Field(_safe(parameter["name"]), type_of(parameter["schema"], self.schemas), bool(parameter.get("required")))
            for parameter in self.definition.get("parameters", ())
            if parameter["in"] == "query" and parameter["name"] not in {"dialect", "format"}
        ]

    @property
    def has_key(self) -> bool:
        """Whether it takes an Idempotency-Key."""
        return any(parameter["name"] == "Idempotency-Key" for parameter in self.definition.get("parameters", ()))

    @property
    def repeatable(self) -> bool:
        """Whether it may be repeated."""
        return self.method != "post" or self.has_key or self.name in SAFE_POSTS

    def body(self, media_type: str) -> list[Field] | None:
        """Members of a request body, required ones first; None if there is no body."""
        content = self.definition.get("requestBody", {}).get("content", {})
        if media_type not in content:
            return None
        schema = self._schema(content[media_type])
        required = set(schema.get("required", ()))
        is_form = media_type.startswith("multipart")
        others = FOREIGN_FIELDS.get(schema["title"], frozenset[str]()) | ({"file"} if is_form else frozenset[str]())
        types = FORM_TYPES if is_form else {}
        fields = [
            Field(_safe(member), types.get(member) or type_of(value, self.schemas), member in required)
            for member, value in schema.get("properties", {}).items()
            if member not in others
        ]
        return sorted(fields, key=lambda field: not field.required)

    @property
    def answer(self) -> str | None:
        """The model of its response; None if that has no body."""
        for status, response in self.definition["responses"].items():
            if status.startswith("2") and "application/json" in response.get("content", {}):
                return str(response["content"]["application/json"]["schema"]["$ref"]).rpartition("/")[2]
        return None


def operations(document: Json) -> list[Operation]:
    """Returns the operations for which there are methods, by name."""
    schemas = document["components"]["schemas"]
    methods_of: list[Operation] = []
    for path, methods in document["paths"].items():
        for method in METHODS:
            definition = methods.get(method)
            if definition is None or path.startswith(FOREIGN_PATHS) or FOREIGN_TAGS & set(definition["tags"]):
                continue
            suffix = re.sub(r"\W", "_", path) + f"_{method}"
            name = str(definition["operationId"]).removesuffix(suffix)
            if name not in NOT_METHODS:
                operation = Operation(NAMES.get(name, name), method, path, definition, schemas)
                methods_of.extend(_by_body(operation))
    return sorted(methods_of, key=lambda operation: operation.name)


def _by_body(operation: Operation) -> Iterator[Operation]:
    """An operation for each of its JSON bodies; forms belong to the first."""
    body: Json = operation.definition.get("requestBody", {})
    media: Json = body.get("content", {}).get("application/json", {})
    bodies: list[Json] = media.get("schema", {}).get("anyOf", [])
    if not bodies:
        yield operation
    for number, schema in enumerate(bodies):
        content = {**body["content"]} if number == 0 else {}
        narrowed = {**body, "content": {**content, "application/json": {**media, "schema": schema}}}
        name = operation.name if number == 0 else NAMES_BY_BODY[operation.name, schema["$ref"].rpartition("/")[2]]
        yield replace(operation, name=name, definition={**operation.definition, "requestBody": narrowed})


def _safe(name: str) -> str:
    """A member's name for Python: `given` and `query` remove the underscore again."""
    return f"{name}_" if keyword.iskeyword(name) else name


def type_of(schema: Json, schemas: Json) -> str:
    """Returns the type that a method takes for a schema."""
    names = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}
    match schema:
        case {"$ref": reference}:
            name = str(reference).rpartition("/")[2]
            target = schemas[name]
            return type_of(target, schemas) if "properties" not in target else f"models.{name} | Mapping[str, Any]"
        case {"anyOf": options} | {"oneOf": options}:
            # Sorted by length, longest first, to keep `None` at the end.
            types = list(dict.fromkeys(part for option in options for part in type_of(option, schemas).split(" | ")))
            return " | ".join([part for part in types if part != "None"] + ["None"] * ("None" in types))
        case {"const": value}:
            return f"Literal[{value!r}]"
        case {"enum": values}:
            return f"Literal[{', '.join(map(repr, values))}]"
        case {"type": "string", "format": "uuid"}:
            return "UUID | str"
        case {"type": "string", "format": "date-time"}:
            return "datetime | str"
        case {"type": "array", "items": items}:
            return f"Sequence[{type_of(items, schemas)}]"
        case {"type": "object"}:
            return "Mapping[str, Any]"
        case {"type": kind}:
            return names[kind]
        case _:
            return "Any"


def operations_module(document: Json) -> str:
    """Returns the module of the operations, for asyncio."""
    methods = [text for operation in operations(document) for text in _methods(operation)]
    return HEADER + "\n".join(indent(text, "    ") for text in methods)


def _methods(operation: Operation) -> Iterator[str]:
    if operation.name == "chat":
        yield from _chat_methods(operation)
        return
    yield _json_method(operation)
    if operation.body("multipart/form-data") is not None:
        yield _upload_method(operation)
    if any(field.name == "page_token" for field in operation.query):
        yield _pages_method(operation)


def _docstring(operation: Operation, more: str = "") -> str:
    description = str(operation.definition.get("description") or operation.definition["summary"] + ".")
    text = re.sub(r"\s+", " ", f"{description} {more}").strip().replace('"', "'").replace("\\", "")
    first, *rest = re.split(r"(?<=\.) ", text, maxsplit=1)
    summary = [*wrap(first, WIDTH - 3), ""] if len(first) > WIDTH - 6 else [first]
    if not rest:
        return '"""' + "\n".join(summary) + '"""'
    return "\n".join([f'"""{summary[0]}', *summary[1:], "", *wrap(rest[0], WIDTH), '"""'])


def _signature(kind: str, name: str, first: list[Field], later: list[str], answer: str) -> str:
    arguments = ["self", *(field.argument("") for field in first)]
    if later:
        arguments += ["*", *later]
    return f"{kind} {name}({', '.join(arguments)}) -> {answer}:"


def _method(operation: Operation, head: str, body: str, more: str = "") -> str:
    return "\n".join([head, indent(_docstring(operation, more), "    "), indent(body, "    "), ""])


def _path(operation: Operation) -> str:
    names = [field.name for field in operation.placeholders]
    template = re.sub(r"{\w+}", "{}", operation.path)
    return f'path_of("{template}", {", ".join(names)})' if names else f'"{template}"'


def _request(operation: Operation, **more: str) -> str:
    parts = [f'"{operation.method.upper()}"', _path(operation)]
    if operation.query:
        parts.append(f"query({', '.join(f'{field.name}={field.name}' for field in operation.query)})")
    parts += [f"{name}={value}" for name, value in more.items() if value]
    if not operation.repeatable:
        parts.append("repeatable=False")
    return f"Request({', '.join(parts)})"


def _given(fields: list[Field]) -> str:
    return ", ".join(f"{field.name}={field.name}" for field in fields)


def _json_method(operation: Operation) -> str:
    body = operation.body("application/json")
    required = [field for field in body or () if field.required]
    optional = [field for field in body or () if not field.required]
    later = [field.argument("NOT_GIVEN") for field in optional] + [field.argument("None") for field in operation.query]
    if operation.has_key:
        later.append("idempotency_key: str | None = None")
    answer = f"models.{operation.answer}" if operation.answer else "None"
    head = _signature("async def", operation.name, operation.placeholders + required, later, answer)
    request = _request(
        operation,
        json=f"given({_given(body)})" if body is not None else "",
        headers="idempotent(idempotency_key)" if operation.has_key else "",
    )
    call = (
        f"return await self._transport.call({request}, {answer})"
        if operation.answer
        else f"await self._transport.do({request})"
    )
    return _method(operation, head, call)


def _upload_method(operation: Operation) -> str:
    fields = operation.body("multipart/form-data") or []
    later = ["file_name: str | None = None", *(field.argument("NOT_GIVEN") for field in fields)]
    later += ["progress: Progress | None = None"]
    if operation.has_key:
        later.append("idempotency_key: str | None = None")
    name = "upload_document" if operation.name == "add_document" else "upload_version"
    first = [*operation.placeholders, Field("file", "FileSource", True)]
    head = _signature("async def", name, first, later, f"models.{operation.answer}")
    request = _request(
        operation,
        form=f"form_fields({_given(fields)})",
        file="part",
        headers="idempotent(idempotency_key)" if operation.has_key else "",
    )
    more = "This one takes a file; `progress` is told how many bytes were sent, and of how many."
    lines = [
        "with opened(file, file_name, progress) as part:",
        f"    return await self._transport.call({request}, models.{operation.answer})",
    ]
    return _method(operation, head, "\n".join(lines), more)


def _pages_method(operation: Operation) -> str:
    query = [field for field in operation.query if field.name != "page_token"]
    member, model = _listed(operation)
    name = "iter_messages" if operation.name == "get_conversation" else f"iter_{operation.name.removeprefix('list_')}"
    later = [field.argument("None") for field in query]
    answer = f"AsyncGenerator[{model}, None]"
    head = _signature("def", name, operation.placeholders, later, answer)
    parts = ['"GET"', _path(operation), f"query({_given(query)})"]
    call = f'return self._transport.pages(Request({", ".join(parts)}), models.{operation.answer}, "{member}")'
    more = "Yields them one by one, and asks for the next page when it is needed."
    return _method(operation, head, call, more)


def _listed(operation: Operation) -> tuple[str, str]:
    """The member of a page that contains the list, and the type of its entries."""
    properties = operation.schemas[operation.answer or ""]["properties"]
    member, schema = next((name, value) for name, value in properties.items() if value.get("type") == "array")
    reference = schema["items"].get("$ref")
    return member, f"models.{reference.rpartition('/')[2]}" if reference else type_of(
        schema["items"], operation.schemas
    )


def _chat_methods(operation: Operation) -> Iterator[str]:
    """A method that waits for the answer and one that streams it, with the same arguments."""
    fields = operation.body("application/json") or []
    question = next(field for field in fields if field.name == "question")
    rest = [field for field in fields if field.name != "question"]
    arguments = f"question: {question.type.removesuffix(' | None')} | NotGiven = NOT_GIVEN, *, "
    arguments += ", ".join([*(field.argument("NOT_GIVEN") for field in rest), "idempotency_key: str | None = None"])

    def request(stream: bool) -> str:
        body = f"given({_given([question, *rest])}, stream={stream})"
        return _request(operation, json=body, headers="idempotent(idempotency_key)")

    yield _method(
        operation,
        f"async def chat(self, {arguments}) -> models.{operation.answer}:",
        f"return await self._transport.call({request(False)}, models.{operation.answer})",
        "This one waits for the whole answer.",
    )
    yield _method(
        operation,
        f"def stream_chat(self, {arguments}) -> AsyncChatStream:",
        f"return AsyncChatStream(self._transport, {request(True)})",
        "This one streams: enter what it returns, then iterate over its events.",
    )
