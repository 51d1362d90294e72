"""`POST /v1/documents:batch`: many changes of documents in one request, each with its own result."""

from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, Depends, Response
from pydantic import MISSING, Field

from citewire_accounts.api.dependencies import authenticate
from citewire_dialects.schemas.library import Document, DocumentPatch, FileBody, is_address
from citewire_gateway.api.routes import documents
from citewire_gateway.api.uploads import UploadCall, UploadCallDep
from citewire_http.api.batches import Batch, Operation, attempt
from citewire_http.api.openapi import problems
from citewire_http.api.schemas import Problem, ResponseModel
from citewire_http.bodies import JsonBody, validate
from citewire_http.departures import CancellingRoute
from citewire_http.idempotency import hash_json
from citewire_kit.plan_limits import Measure

router = APIRouter(route_class=CancellingRoute, tags=["documents"], dependencies=[Depends(authenticate)])


class OperationResult(ResponseModel):
    """The result of one operation."""

    status: int = Field(description="The status of the equivalent single request.", examples=[202])
    document: Document | MISSING = Field(default=MISSING, description="As it is now, unless it was deleted.")
    error: Problem | MISSING = Field(default=MISSING, description="Its fields begin with `operations.NUMBER`.")


class BatchResults(ResponseModel):
    """A result for each operation, in their order."""

    results: list[OperationResult]


@router.post("/v1/documents:batch", summary="Change many documents", responses=problems(413, 415))
async def change_many(call: UploadCallDep, batch: Annotated[Batch, Depends(JsonBody(Batch))]) -> BatchResults:
    """Runs operations in order. A failed one doesn't affect the others; its result has the error."""
    results: list[OperationResult] = []
    done: dict[int, Document | None] = {}

    async def do(operation: Operation) -> None:
        if results:  # the first counts as the request itself
            await call.services.limiter.take(call.tenant, Measure.REQUESTS)
        done[len(results)] = await _do(replace(call, key=operation.key), operation)

    for number, operation in enumerate(batch.keyed(call.key)):
        status, problem = await attempt(number, operation, do)
        document = done.get(number) or MISSING
        results.append(OperationResult(status=status, document=document, error=problem or MISSING))
    return BatchResults(results=results)


async def _do(call: UploadCall, operation: Operation) -> Document | None:
    given, name = operation.document or {}, str(operation.id)
    match operation.op:
        case "update":
            return await documents.patch_document(name, call.services, validate(DocumentPatch, given))
        case "retry":
            return await documents.retry_document(name, Response(), call.services)
        case "delete":
            return await documents.delete_document(name, call.tenant, call.services)
        case _ if "file_name" in given and not is_address(given):
            return await call.store_file(operation.id, validate(FileBody, given), hash_json(given))
        case _:
            return await call.store_json(operation.id, given)
