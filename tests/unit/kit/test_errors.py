"""Domain errors, and the table that maps them to gRPC and HTTP."""

from __future__ import annotations

import grpc
import pytest
from google.protobuf.any_pb2 import Any as AnyMessage
from google.rpc import error_details_pb2
from google.rpc.status_pb2 import Status
from hypothesis import given
from hypothesis import strategies as st

from citewire_kit import errors
from citewire_kit.errors import CitewireError, Code, FieldViolation, InvalidArgument, Unavailable, Violations
from citewire_kit.status import DETAILS_KEY, MAX_DETAILS_BYTES, from_rpc_error, grpc_code, http_status, to_rpc_status

LEAVES = [
    cls
    for cls in vars(errors).values()
    if isinstance(cls, type) and issubclass(cls, CitewireError) and cls is not CitewireError
]


def as_rpc_error(code: grpc.StatusCode, details: str, raw: bytes | None = None) -> grpc.aio.AioRpcError:
    trailing = grpc.aio.Metadata() if raw is None else grpc.aio.Metadata((DETAILS_KEY, raw))
    return grpc.aio.AioRpcError(code, grpc.aio.Metadata(), trailing, details)


def there_and_back(error: CitewireError) -> CitewireError:
    raw = to_rpc_status(error).SerializeToString()
    return from_rpc_error(as_rpc_error(grpc_code(error), error.message, raw))


@pytest.mark.parametrize("cls", LEAVES)
def test_every_error_reaches_the_client_unchanged(cls: type[CitewireError]) -> None:
    error = cls("what happened", reason="INVALID_FIELD", metadata={"limit": "200"}, retry_after=2.25)
    back = there_and_back(error)
    assert type(back) is cls
    assert (back.message, back.reason, back.metadata, back.retry_after) == (
        "what happened",
        "INVALID_FIELD",
        {"limit": "200"},
        2.25,
    )


def test_the_tree_covers_the_codes_that_a_server_may_choose() -> None:
    assert {cls.code for cls in LEAVES} == set(Code) - {Code.OK, Code.CANCELLED, Code.UNKNOWN, Code.OUT_OF_RANGE}


@given(
    message=st.text(max_size=3000),
    metadata=st.dictionaries(st.text(max_size=300), st.text(max_size=3000), max_size=20),
    violations=st.lists(st.builds(FieldViolation, st.text(max_size=300), st.text(max_size=3000)), max_size=100),
)
def test_details_are_always_under_four_kilobytes(
    message: str, metadata: dict[str, str], violations: list[FieldViolation]
) -> None:
    error = InvalidArgument(message, reason="INVALID_FIELD", metadata=metadata, violations=violations, retry_after=1)
    status = to_rpc_status(error)
    assert status.ByteSize() < MAX_DETAILS_BYTES
    back = there_and_back(error)
    assert back.reason == "INVALID_FIELD"
    left_out = int(back.metadata.get("violations_left_out", "0"))
    assert len(back.violations) + left_out == len(violations)


@pytest.mark.parametrize(
    ("code", "details", "expected", "reason"),
    [
        (grpc.StatusCode.UNAVAILABLE, "failed to connect to all addresses", Code.UNAVAILABLE, "SERVICE_UNAVAILABLE"),
        (grpc.StatusCode.CANCELLED, "", Code.UNAVAILABLE, "SERVICE_UNAVAILABLE"),
        (grpc.StatusCode.UNKNOWN, "Stream removed", Code.UNAVAILABLE, "SERVICE_UNAVAILABLE"),
        (
            grpc.StatusCode.INTERNAL,
            "Received RST_STREAM with error code 2",
            Code.UNAVAILABLE,
            "SERVICE_UNAVAILABLE",
        ),
        (grpc.StatusCode.DEADLINE_EXCEEDED, "Deadline Exceeded", Code.DEADLINE_EXCEEDED, "DEADLINE_EXCEEDED"),
        (
            grpc.StatusCode.DEADLINE_EXCEEDED,
            "Stream removed (Deadline Exceeded)",
            Code.DEADLINE_EXCEEDED,
            "DEADLINE_EXCEEDED",
        ),
        (grpc.StatusCode.UNIMPLEMENTED, "Method not found!", Code.UNIMPLEMENTED, "NOT_IMPLEMENTED"),
        (
            grpc.StatusCode.RESOURCE_EXHAUSTED,
            "SERVER: Received message larger than max (20 vs. 16)",
            Code.RESOURCE_EXHAUSTED,
            "TOO_LARGE",
        ),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, "x", Code.RESOURCE_EXHAUSTED, "OVERLOADED"),
        (grpc.StatusCode.UNKNOWN, "Unexpected <class 'KeyError'>: 'secret'", Code.INTERNAL, "INTERNAL"),
    ],
)
def test_an_error_without_our_details_gets_a_safe_text(
    code: grpc.StatusCode, details: str, expected: Code, reason: str
) -> None:
    error = from_rpc_error(as_rpc_error(code, details))
    assert (error.code, error.reason) == (expected, reason)
    assert not details or details not in error.message


@pytest.mark.parametrize("raw", [b"\xff\xff not protobuf", b"", Status(code=5, message="secret").SerializeToString()])
def test_details_that_are_not_ours_are_not_shown(raw: bytes) -> None:
    error = from_rpc_error(as_rpc_error(grpc.StatusCode.NOT_FOUND, "secret", raw))
    assert error.code is Code.INTERNAL
    assert "secret" not in error.message


def test_details_of_another_domain_are_not_shown() -> None:
    info, packed = error_details_pb2.ErrorInfo(reason="KEY_LEAKED", domain="provider.example"), AnyMessage()
    packed.Pack(info)
    raw = Status(code=7, message="secret", details=[packed]).SerializeToString()
    error = from_rpc_error(as_rpc_error(grpc.StatusCode.PERMISSION_DENIED, "secret", raw))
    assert error.reason == "INTERNAL"
    assert "secret" not in error.message


@pytest.mark.parametrize("cls", LEAVES)
def test_every_code_has_an_http_status(cls: type[CitewireError]) -> None:
    assert 400 <= http_status(cls("x", reason="X")) < 600


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (InvalidArgument("x", reason="INVALID_FIELD"), 422),
        (InvalidArgument("x", reason="INVALID_JSON"), 400),
        (InvalidArgument("x", reason="UNSUPPORTED_FORMAT"), 415),
        (errors.ResourceExhausted("x", reason="TOO_LARGE"), 413),
        (errors.ResourceExhausted("x", reason="OVERLOADED"), 503),
        (errors.ResourceExhausted("x", reason="RATE_LIMITED"), 429),
        (errors.ResourceExhausted("x", reason="BUDGET_EXCEEDED"), 402),
        (Unavailable("x", reason="SERVICE_UNAVAILABLE"), 503),
        (errors.Unimplemented("x", reason="METHOD_NOT_ALLOWED"), 405),
        (errors.Unauthenticated("x", reason="API_KEY_INVALID"), 401),
        (errors.DeadlineExceeded("x", reason="DEADLINE_EXCEEDED"), 504),
    ],
)
def test_http_statuses(error: CitewireError, status: int) -> None:
    assert http_status(error) == status


def test_all_violations_are_reported_at_once() -> None:
    violations = Violations()
    assert violations.require(True, "query", "must not be empty")
    violations.raise_if_any()
    assert not violations.require(False, "top_k", "must be between 1 and 200")
    violations.add("mode", "must be dense, lexical or hybrid")
    assert violations
    with pytest.raises(InvalidArgument) as raised:
        violations.raise_if_any()
    assert [v.field for v in raised.value.violations] == ["top_k", "mode"]
    assert raised.value.message == "top_k: must be between 1 and 200, and 1 more"
    assert raised.value.reason == "INVALID_FIELD"
