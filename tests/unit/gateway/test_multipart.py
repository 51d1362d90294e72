"""A form is read the same however its bytes arrive."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from pathlib import Path
from unittest.mock import patch

import pytest
from starlette.requests import ClientDisconnect

from citewire_gateway.api.uploads import upload_header
from citewire_http.api.reading import struct_to_json
from citewire_http.multipart import receive_form
from citewire_kit.errors import Aborted, CitewireError, InvalidArgument, Unavailable

TYPE = "multipart/form-data; boundary=XX"
CONTENT = bytes(range(256)) * 20 + b"\r\n--X\r\n--X-not\r\n--" + bytes(range(256))


def body_of(boundary: bytes, tags: bytes = b"2025, final") -> bytes:
    return (
        b"--" + boundary + b'\r\nContent-Disposition: form-data; name="tags"\r\n\r\n' + tags + b"\r\n"
        b"--" + boundary + b'\r\nContent-Disposition: form-data; name="file"; filename="\xc3\xbc.pdf"\r\n'
        b"Content-Type: application/pdf; charset=x\r\n\r\n" + CONTENT + b"\r\n"
        b"--" + boundary + b'\r\nContent-Disposition: form-data; name="metadata"\r\n\r\n{"a": [1, 2]}\r\n'
        b"--" + boundary + b"--\r\n"
    )


BODY = body_of(b"XX")


async def pieces(body: bytes, cuts: list[int]) -> AsyncIterator[bytes]:
    for start, end in zip([0, *cuts], [*cuts, len(body)], strict=True):
        yield body[start:end]


async def read(body: bytes, cuts: list[int], content_type: str = TYPE) -> tuple[bytes, bytes, dict[str, list[str]]]:
    async with receive_form(pieces(body, cuts), content_type, max_file_bytes=100_000, folder=None) as form:
        content = b"".join([piece async for piece in form.data()])
        assert (form.file_name, form.media_type, form.size) == ("ü.pdf", "application/pdf", len(content))
        return content, form.digest, form.fields


async def test_a_form_cut_anywhere_is_read_the_same() -> None:
    whole = await read(BODY, [])
    assert whole[0] == CONTENT
    assert whole[2] == {"tags": ["2025, final"], "metadata": ['{"a": [1, 2]}']}
    for cut in range(1, len(BODY), 7):
        assert await read(BODY, [cut]) == whole
    assert await read(BODY, list(range(1, len(BODY)))) == whole
    dice = random.Random(1)
    for _ in range(50):
        assert await read(BODY, sorted(dice.sample(range(1, len(BODY)), 12))) == whole


async def test_the_digest_covers_the_content_and_not_the_encoding() -> None:
    _, digest, _ = await read(BODY, [])
    assert (await read(body_of(b"YY"), [], TYPE.replace("XX", "YY")))[1] == digest
    assert (await read(body_of(b"XX", b"2025, draft"), []))[1] != digest


async def test_fields_are_read() -> None:
    async with receive_form(pieces(BODY, []), TYPE, max_file_bytes=100_000, folder=None) as form:
        fields = upload_header(form, None)
    assert list(fields.tags) == ["2025", "final"]
    assert struct_to_json(fields.metadata) == {"a": [1, 2]}
    assert (fields.file_name, fields.media_type, fields.collection) == ("ü.pdf", "application/pdf", "")


def body_of_file(name: str) -> bytes:
    return (
        f'--XX\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n\r\ntext\r\n'
        f'--XX\r\nContent-Disposition: form-data; name="path"\r\n\r\nshots/{name}\r\n--XX--\r\n'
    ).encode()


@pytest.mark.parametrize(
    "name",
    [
        "Screenshot 3.07.12\u202fPM.png",
        "Plan\u00a02027.docx",
        "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645.md",
        "\U0001f469\u200d\U0001f680.md",
    ],
)
async def test_spaces_and_joiners_of_file_names_are_accepted(name: str) -> None:
    """As macOS, Office, Persian keyboards and emojis write them."""
    async with receive_form(pieces(body_of_file(name), []), TYPE, max_file_bytes=100, folder=None) as form:
        assert (form.file_name, upload_header(form, None).file_name) == (name, f"shots/{name}")


@pytest.mark.parametrize("name", ["a\x1bb.md", "a\u202eb.md", "a\u2028b.md", "a\u200bb.md", "a\x85b.md"])
async def test_control_characters_of_file_names_are_refused(name: str) -> None:
    with pytest.raises(InvalidArgument, match="printable characters"):
        async with receive_form(pieces(body_of_file(name), []), TYPE, max_file_bytes=100, folder=None):
            pass


@pytest.mark.parametrize("boundary", ["", "; boundary=", "; boundary=" + "x" * 300])
async def test_a_form_without_a_usable_boundary_is_refused(boundary: str) -> None:
    with pytest.raises(InvalidArgument):
        await read(BODY, [], f"multipart/form-data{boundary}")


async def test_a_truncated_form_is_never_complete() -> None:
    for end in range(0, len(BODY) - 4, 11):  # without its last `--` and line end it would still be complete
        with pytest.raises(CitewireError):
            await read(BODY[:end], [])


async def test_a_client_that_leaves_is_not_a_malformed_form() -> None:
    async def leaves() -> AsyncIterator[bytes]:
        yield BODY[:200]
        raise ClientDisconnect

    with pytest.raises(Aborted):
        async with receive_form(leaves(), TYPE, max_file_bytes=100, folder=None):
            pass


@pytest.mark.parametrize("content", [CONTENT, b"less than a file buffers"])
async def test_a_full_disk_is_a_temporary_fault_of_the_server(content: bytes) -> None:
    full = Path("/dev/full").open("r+b")  # noqa: SIM115, ASYNC230 # closed by the code under test
    with patch("tempfile.TemporaryFile", return_value=full), pytest.raises(Unavailable) as raised:
        await read(BODY.replace(CONTENT, content), [])
    assert "No space" not in raised.value.message
