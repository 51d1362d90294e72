"""Uploads: form fields, and files, texts and URLs passed to the retriever."""

import hashlib
import json
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated, Any, get_args

from citewire.retriever.v1 import corpus_pb2
from fastapi import Depends

from citewire_dialects.json_values import struct_from_json
from citewire_dialects.profile import DocumentType
from citewire_dialects.schemas.library import (
    FORM_LENGTHS,
    MAX_TAG,
    MAX_TAGS,
    AddressBody,
    Document,
    DocumentBody,
    FileBody,
    is_address,
)
from citewire_gateway.api.dependencies import Call, no_document
from citewire_http.api.form_fields import read_bound, read_object, read_text, read_texts
from citewire_http.bodies import parse_json, require_json, unsupported_media_type, validate
from citewire_http.idempotency import StoredAnswer, hash_body
from citewire_http.multipart import Form, is_printable_name, receive_form
from citewire_kit.errors import Violations, invalid_field
from citewire_kit.limiter import Taken
from citewire_kit.nesting import MAX_METADATA_NESTING, is_deeper
from citewire_kit.pace import paced
from citewire_kit.plan_limits import Measure

_LEASE_SECONDS = 120.0
"""How long an upload's Idempotency-Key stays claimed if its gateway crashed: the body is complete by then."""
_REPEATED = ("tags", "readers")
_VALIDITY = {"valid_from": timedelta(), "valid_until": timedelta(days=1)}
"""Limits of validity, with the offset to add if only a day is given."""
_MAX_METADATA = 64 * 1024
_TYPES = get_args(DocumentType)


def upload_header(form: Form, document_id: int | None) -> corpus_pb2.UploadHeader:
    """Reads the form's fields.

    Raises:
        InvalidArgument: With one violation per wrong field.
    """
    wrong = Violations()
    for name in form.fields.keys() - FORM_LENGTHS.keys() - {*_REPEATED, *_VALIDITY, "metadata"}:
        wrong.add(name[:64], "is not a field of an upload")
    single = {name: read_text(wrong, form, name, most) for name, most in FORM_LENGTHS.items()}
    wrong.require(single["type"] in ("", *_TYPES), "type", f"must be one of {', '.join(_TYPES)}")
    path = single.pop("path")
    rule = "must be a relative path: no \\ or control characters, no empty part, . or .."
    wrong.require(not path or is_relative(path), "path", rule)
    tags = _tags(wrong, form.fields.get("tags", []))
    readers = read_texts(wrong, "readers", form.fields.get("readers", []), comma=False)
    metadata = read_object(wrong, form, "metadata", _MAX_METADATA)
    deep = is_deeper(metadata, MAX_METADATA_NESTING)
    wrong.require(not deep, "metadata", f"must be nested at most {MAX_METADATA_NESTING} levels deep")
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
    """Whether a path stays in its folder, uses `/`, and contains no control characters."""
    return is_printable_name(path) and "\\" not in path and not {"", ".", ".."}.intersection(path.split("/"))


def _tags(wrong: Violations, values: Sequence[str]) -> list[str]:
    tags = read_texts(wrong, "tags", values, comma=True)
    wrong.require(len(tags) <= MAX_TAGS, "tags", f"must be at most {MAX_TAGS}")
    wrong.require(all(len(tag) <= MAX_TAG for tag in tags), "tags", f"must be at most {MAX_TAG} characters long each")
    return tags


@dataclass(frozen=True, slots=True)
class UploadCall(Call):
    """A call that stores a document or a new version of one; with a key, at most once."""

    async def store(self, document_id: int | None) -> Document:
        """Reads a form or a JSON body and sends it to the retriever."""
        media_type = self.request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if media_type == "multipart/form-data":
            return await self.store_form(document_id)
        if media_type not in ("", "application/json"):
            raise unsupported_media_type(media_type, "multipart/form-data or application/json")
        require_json(self.request)
        return await self.store_json(document_id, parse_json(await self.request.body()))

    async def store_json(self, document_id: int | None, given: object) -> Document:
        """Sends a text to the retriever, or a URL from which it fetches a file."""
        if is_address(given):
            return await self._fetch(document_id, validate(AddressBody, given))
        body = validate(DocumentBody, given)
        if not body.content.strip():
            raise invalid_field("content", "must not be empty")
        message = body.to_proto(document_id)
        await self._take(len(body.content.encode()))

        async def put(request_id: str) -> corpus_pb2.Document:
            message.request_id = request_id
            return await self.services.corpus.put(message)

        return await self._once(document_id, hash_body(body), put)

    async def store_form(
        self, document_id: int | None, *, read: Callable[[Form, int | None], corpus_pb2.UploadHeader] = upload_header
    ) -> Document:
        """Sends a form's file to the retriever; `read` builds the header from the form's fields."""
        media_type, services = self.request.headers.get("content-type", ""), self.services
        if not media_type.lower().startswith("multipart/form-data"):
            raise unsupported_media_type(media_type, "multipart/form-data")
        declared = self.request.headers.get("content-length", "")
        taken = await self._take(int(declared) if declared.isdecimal() else 0)
        with services.uploads.hold_for(self.tenant.org_id, self.request.scope) as place:
            async with receive_form(
                paced(self.request.stream(), services.settings.upload_pace(), place),
                media_type,
                max_file_bytes=services.settings.max_upload_bytes,
                folder=services.settings.spool_dir,
            ) as form:
                await services.limiter.settle(taken, form.size)
                return await self._upload(document_id, read(form, document_id), form.digest, form.data)

    async def store_file(self, document_id: int | None, file: FileBody, digest: bytes) -> Document:
        """Sends a small file to the retriever; equal content has the same digest."""
        await self._take(len(file.content))

        async def data() -> AsyncGenerator[bytes, None]:
            yield file.content

        header = file.to_message(corpus_pb2.UploadHeader, document_id=document_id)
        return await self._upload(document_id, header, digest, data)

    async def _upload(
        self,
        document_id: int | None,
        header: corpus_pb2.UploadHeader,
        digest: bytes,
        data: Callable[[], AsyncIterator[bytes]],
    ) -> Document:
        async def upload(request_id: str) -> corpus_pb2.Document:
            header.request_id = request_id
            return await self.services.corpus.upload(header, data())

        return await self._once(document_id, digest, upload)

    async def _fetch(self, document_id: int | None, body: AddressBody) -> Document:
        header = body.to_proto(document_id)
        taken = await self._take(0)

        async def fetch(request_id: str) -> corpus_pb2.Document:
            header.request_id = request_id
            document = await self.services.corpus.fetch(header)
            await self.services.limiter.settle(taken, document.size_bytes)
            return document

        return await self._once(document_id, hash_body(body), fetch)

    async def _take(self, size: int) -> Taken:
        """Counts an upload and its bytes before it is read; returns the reserved bytes."""
        await self.services.limiter.take(self.tenant, Measure.UPLOADS)
        return await self.services.limiter.take(self.tenant, Measure.UPLOAD_BYTES, size)

    async def _once(
        self, document_id: int | None, digest: bytes, store: Callable[[str], Awaitable[corpus_pb2.Document]]
    ) -> Document:
        """Stores a document; with a key, at most once."""
        if self.key is None:
            return Document.read(await store(""))
        operation = "documents" if document_id is None else f"documents/{document_id}"
        request_hash = hashlib.sha256(digest).digest()
        held = await self.services.idempotency.claim(
            self.tenant, self.key, operation=operation, request_hash=request_hash, lease_seconds=_LEASE_SECONDS
        )
        if isinstance(held, StoredAnswer):
            if not await self.services.reader.may_read([int(held.response["id"])]):
                raise no_document(str(held.response["id"]))  # it has since been deleted, or hidden from its owner
            return Document.model_validate(held.response)
        # The retriever stores it with the document, so that a repeated request after a lost response creates none.
        named = json.dumps([self.tenant.user_id, operation, self.key, request_hash.hex()]).encode()
        try:
            document = Document.read(await store(hashlib.sha256(named).hexdigest()))
        except BaseException:
            await held.release()
            raise
        await held.answer(document.stored())
        return document


UploadCallDep = Annotated[UploadCall, Depends(UploadCall.of)]
