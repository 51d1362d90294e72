"""Wherever a document's url is set, only addresses of web pages are accepted."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from citewire.retriever.v1 import corpus_pb2 as pb
from google.protobuf.field_mask_pb2 import FieldMask

from citewire_kit.errors import InvalidArgument
from citewire_retriever.converters.documents import changes_from_proto, text_from_proto, upload_from_proto

HOSTILE = [
    "javascript:alert(1)",
    "JavaScript:alert(1)",
    " javascript:alert(1)",
    "\x01javascript:alert(1)",
    "java\nscript:alert(1)",
    "java\tscript:alert(1)",
    "javascript://example.org/%0aalert(1)",
    "data:text/html,<script>alert(1)</script>",
    "vbscript:msgbox(1)",
    "file:///etc/passwd",
    "blob:https://example.org/1",
    "//example.org/a",
    "/a",
    "example.org",
    "https://",
    "https:///a",
    "https://[x",
    "http:example.org",
    "https://example.org/\u2028",
    "https://example.org ",
]
HONEST = [
    "",
    "https://example.org",
    "HTTPS://Example.org:8443/a b?c=d#page=3",
    "http://user@192.0.2.1/",
    "https://例え.jp/資料",
    "http://[2001:db8::1]/",
]


def upload(url: str) -> object:
    return upload_from_proto(pb.UploadDocumentRequest(header=pb.UploadHeader(file_name="f", url=url)))


def put(url: str) -> object:
    return text_from_proto(pb.PutDocumentRequest(type="article", title="T", content="c", url=url))


def update(url: str) -> object:
    document = pb.Document(document_id=1, url=url)
    return changes_from_proto(pb.UpdateDocumentRequest(document=document, update_mask=FieldMask(paths=["url"])))


@pytest.mark.parametrize("url", HOSTILE)
@pytest.mark.parametrize("set_url", [upload, put, update])
def test_scripts_and_files_are_refused(set_url: Callable[[str], object], url: str) -> None:
    with pytest.raises(InvalidArgument) as raised:
        set_url(url)
    (violation,) = raised.value.violations
    assert violation.field in ("url", "document.url")
    assert "http" in violation.message


@pytest.mark.parametrize("url", HONEST)
@pytest.mark.parametrize("set_url", [upload, put, update])
def test_web_pages_are_accepted(set_url: Callable[[str], object], url: str) -> None:
    assert set_url(url)
