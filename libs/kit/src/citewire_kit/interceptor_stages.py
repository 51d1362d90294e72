"""The stages of every call, one function each. `interceptors.py` runs them in the order of one list."""

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import ExitStack, asynccontextmanager, nullcontext
from contextvars import ContextVar
from urllib.parse import unquote

import grpc
from opentelemetry.trace import SpanKind, StatusCode

from citewire_kit import metrics
from citewire_kit.audit import NO_TRAIL, AuditTrail, current_record, use_record
from citewire_kit.audit_events import Outcome
from citewire_kit.audit_rpcs import AUDITED_RPCS, NOTED_BEFORE
from citewire_kit.caller_limits import CallerLimits
from citewire_kit.callers.admission import Admission
from citewire_kit.deadline import budget, is_over
from citewire_kit.errors import (
    CitewireError,
    Code,
    DeadlineExceeded,
    Internal,
    ResourceExhausted,
    Unimplemented,
)
from citewire_kit.interceptors import INTERCEPTOR_ORDER, Call, ClientGone, RpcFailure, Stage
from citewire_kit.status import to_rpc_status
from citewire_kit.telemetry import get_logger
from citewire_kit.tenant import (
    REQUEST_ID_KEY,
    context_from_metadata,
    current_request_id,
    use_call_context,
    use_request_id,
    use_tenant,
)
from citewire_kit.tracing import extract, get_tracer

log = get_logger(__name__)
_tracer = get_tracer(__name__)

_TURNED_AWAY = frozenset({Code.UNAUTHENTICATED, Code.PERMISSION_DENIED})

RETRY_SECONDS = 1.0
"""Advised wait for a rejected caller."""


class Load:
    """How many calls a server is handling, and its limit."""

    def __init__(self, max_concurrent: int | None) -> None:
        self.max_concurrent = max_concurrent
        self.in_flight = 0
        self.cutting = False

    def enter(self) -> None:
        """Counts the start of a call."""
        self.in_flight += 1

    def leave(self) -> None:
        """Counts the end of a call."""
        self.in_flight -= 1

    def cut(self) -> None:
        """Marks calls that end from now on as cut off by the server's shutdown."""
        self.cutting = True


current_load: ContextVar[Load | None] = ContextVar("citewire_load", default=None)


def build_stages(
    *, admission: Admission, load: Load, callers: CallerLimits | None = None, trail: AuditTrail = NO_TRAIL
) -> list[tuple[str, Stage]]:
    """Returns the stages in `INTERCEPTOR_ORDER`."""
    table: dict[str, Stage] = {
        "request_id": _request_id,
        "tracing": _tracing,
        "metrics": _metrics,
        "audit": lambda call: _audit(call, trail),
        "errors": _errors,
        "tenant": lambda call: _tenant(call, admission),
        "limits": lambda call: _limits(call, load, callers),
    }
    return [(name, table[name]) for name in INTERCEPTOR_ORDER]


@asynccontextmanager
async def _request_id(call: Call) -> AsyncGenerator[None, None]:
    """Takes over the caller's request id or creates one, and sets the time budget from the call's deadline."""
    with ExitStack() as stack:
        stack.enter_context(use_request_id(call.metadata.get(REQUEST_ID_KEY, "")))
        if call.seconds is not None:
            stack.enter_context(budget(call.seconds))
        yield


@asynccontextmanager
async def _tracing(call: Call) -> AsyncGenerator[None, None]:
    """Continues the caller's trace with a server span."""
    with _tracer.start_as_current_span(
        call.path.removeprefix("/"),
        context=extract(call.metadata),
        kind=SpanKind.SERVER,
        attributes={"rpc.system": "grpc", "rpc.service": call.service, "rpc.method": call.method},
        record_exception=False,  # exceptions can quote content
        set_status_on_exception=False,
    ) as span:
        code = Code.OK
        try:
            yield
        except BaseException as exc:
            code = code_of(exc, call)
            raise
        finally:
            if span.is_recording():
                span.set_attribute("rpc.grpc.status_code", grpc.StatusCode[code.value].value[0])
                if code is not Code.OK:
                    span.set_status(StatusCode.ERROR, code.value)


@asynccontextmanager
async def _metrics(call: Call) -> AsyncGenerator[None, None]:
    """Counts the call, whatever its result."""
    series = metrics.grpc_server_series(call.shape, call.service, call.method)
    series.started.inc()
    series.in_flight.inc()
    code = Code.OK
    try:
        yield
    except BaseException as exc:
        code = code_of(exc, call)
        raise
    finally:
        series.in_flight.dec()
        series.seconds.observe(time.monotonic() - call.started)
        series.handled[code].inc()


@asynccontextmanager
async def _audit(call: Call, trail: AuditTrail) -> AsyncGenerator[None, None]:
    """Records the call, unless its caller has already recorded what it is part of."""
    action = AUDITED_RPCS.get(call.path)
    if action is None or trail is NO_TRAIL:
        yield
        return
    code = Code.OK
    with use_record(trail, _address(call), call.metadata.get("user-agent", "")) as record:
        try:
            yield
        except BaseException as exc:
            code = code_of(exc, call)
            cause = exc.__cause__
            record.reason = cause.reason if isinstance(cause, CitewireError) else code.value
            raise
        finally:
            # Without auth callers can't be told apart, and only rejected ones are recorded.
            stranger = not record.issuer and code in _TURNED_AWAY
            if stranger or (record.issuer and record.issuer not in NOTED_BEFORE):
                refused = code in _TURNED_AWAY or code is Code.RESOURCE_EXHAUSTED
                outcome = Outcome.OK if code is Code.OK else Outcome.REFUSED if refused else Outcome.FAILED
                record.add(action, outcome, record.objects, record.reason)


def _address(call: Call) -> str:
    """The caller's address, from `ipv4:192.0.2.1:5000` or `ipv6:%5B2001:db8::1%5D:5000`."""
    kind, _, rest = unquote(str(call.context.peer())).partition(":")
    return rest.rpartition(":")[0].strip("[]") if kind in ("ipv4", "ipv6") else ""


@asynccontextmanager
async def _errors(call: Call) -> AsyncGenerator[None, None]:
    """Turns every exception into a status: our errors unchanged, others into a safe one, with a logged traceback."""
    try:
        yield
    except CitewireError as exc:
        if exc.code in (Code.INTERNAL, Code.DATA_LOSS, Code.UNKNOWN):
            log.exception("rpc_failed", rpc=call.path, code=exc.code.value, reason=exc.reason)
        else:
            # Not the message: it may quote what the caller sent.
            fields = [violation.field for violation in exc.violations[:8]]
            log.info("rpc_refused", rpc=call.path, code=exc.code.value, reason=exc.reason, fields=fields)
        raise _failure(exc) from exc
    except NotImplementedError as exc:  # raised by generated servicers for methods that aren't overridden
        raise _failure(Unimplemented("this call is not available yet", reason="NOT_IMPLEMENTED")) from exc
    except TimeoutError as exc:
        log.warning("rpc_timed_out", rpc=call.path, exc_info=True)
        raise _failure(
            DeadlineExceeded("the call took longer than its time budget", reason="DEADLINE_EXCEEDED")
        ) from exc
    except asyncio.CancelledError as exc:
        if isinstance(exc, ClientGone) or _task_cancelled():
            log.info("rpc_cancelled", rpc=call.path, code=code_of(exc, call).value)
            raise
        # Something inside was cancelled, not the call. If it were raised again, the client would wait forever.
        log.exception("rpc_failed", rpc=call.path, code=Code.INTERNAL.value)
        raise _failure(_internal()) from exc
    except grpc.aio.BaseError as exc:
        if not isinstance(exc, grpc.aio.AbortError):
            log.info("rpc_cancelled", rpc=call.path, code=Code.CANCELLED.value)
        raise
    except Exception as exc:
        log.exception("rpc_failed", rpc=call.path, code=Code.INTERNAL.value)
        raise _failure(_internal()) from exc


@asynccontextmanager
async def _tenant(call: Call, admission: Admission) -> AsyncGenerator[None, None]:
    """Verifies the caller, and sets the tenant and the call's context."""
    tenant = await admission.tenant_of(call.raw_metadata, call.path, call.context)
    record = current_record()
    if record is not None:
        record.tenant = tenant
    with use_tenant(tenant), use_call_context(context_from_metadata(call.metadata)):
        yield


@asynccontextmanager
async def _limits(call: Call, load: Load, callers: CallerLimits | None) -> AsyncGenerator[None, None]:
    """Admits the call if there is room and its caller's plan allows it; otherwise rejects it at once."""
    if load.max_concurrent is not None and load.in_flight >= load.max_concurrent:
        raise ResourceExhausted(
            "the server is at its limit of concurrent calls", reason="OVERLOADED", retry_after=RETRY_SECONDS
        )
    load.enter()
    token = current_load.set(load)
    try:
        async with nullcontext() if callers is None else callers.hold(call):
            yield
    finally:
        current_load.reset(token)
        load.leave()


def code_of(exc: BaseException, call: Call) -> Code:
    """Returns the code of a call that ends with `exc`."""
    if isinstance(exc, RpcFailure):
        return exc.code
    if isinstance(exc, grpc.aio.AbortError):
        return Code[call.context.code().name]
    if isinstance(exc, (asyncio.CancelledError, grpc.aio.BaseError)):
        return Code.DEADLINE_EXCEEDED if is_over() else Code.CANCELLED
    return Code.INTERNAL


def _failure(exc: CitewireError) -> RpcFailure:
    return RpcFailure(exc.code, to_rpc_status(exc))


def _internal() -> Internal:
    return Internal(
        "the service failed; its log has the details under the request id",
        reason="INTERNAL",
        metadata={"request_id": current_request_id()},
    )


def _task_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
