"""`POST /v1/documents:batch`: many changes of documents in one request, each with its own result."""

from collections.abc import AsyncGenerator
from typing import Annotated

from citewire.retriever.v1 import corpus_pb2
from fastapi import APIRouter, Depends, Response
from pydantic import MISSING, Field

from citewire_accounts.api.dependencies import TenantDep, authenticate
from citewire_gateway.api.dependencies import Services, ServicesDep
from citewire_gateway.api.routes import documents
from citewire_gateway.api.schemas.library import Document, DocumentPatch, FileBody, is_address
from citewire_http.api.batches import Batch, Operation, attempt
from citewire_http.api.openapi import problems
from citewire_http.api.parameters import IdempotencyDep
from citewire_http.api.schemas import Problem, ResponseModel
from citewire_http.bodies import JsonBody, validate
from citewire_http.departures import CancellingRoute
from citewire_http.idempotency import hash_json
from citewire_kit.plan_limits import Measure
from citewire_kit.tenant import Tenant

router = APIRouter(route_class=CancellingRoute, tags=["documents"], dependencies=[Depends(authenticate)])


class OperationResult(ResponseModel):
    """What became of one operation."""

    status: int = Field(description="The status that a request of its own would have had.", examples=[202])
    document: Document | MISSING = Field(default=MISSING, description="As it is now, unless it was deleted.")
    error: Problem | MISSING = Field(default=MISSING, description="Its fields begin with `operations.NUMBER`.")


class BatchResults(ResponseModel):
    """A result for each operation, in their order."""

    results: list[OperationResult]


@router.post("/v1/documents:batch", summary="Change many documents", responses=problems(413, 415))
async def change_many(
    tenant: TenantDep, services: ServicesDep, key: IdempotencyDep, batch: Annotated[Batch, Depends(JsonBody(Batch))]
) -> BatchResults:
    """Does operations one after another. One that fails hinders no other; its result has the error."""
    results: list[OperationResult] = []
    done: dict[int, Document | None] = {}

    async def do(operation: Operation) -> None:
        if results:  # the first counts as the request itself
            await services.limiter.take(tenant, Measure.REQUESTS)
        done[len(results)] = await _do(tenant, services, operation)

    for number, operation in enumerate(batch.keyed(key)):
        status, problem = await attempt(number, operation, do)
        document = done.get(number) or MISSING
        results.append(OperationResult(status=status, document=document, error=problem or MISSING))
    return BatchResults(results=results)


async def _do(tenant: Tenant, services: Services, operation: Operation) -> Document | None:
    given, name = operation.document or {}, str(operation.id)
    match operation.op:
        case "update":
            return await documents.patch_document(name, services, validate(DocumentPatch, given))
        case "retry":
            return await documents.retry_document(name, Response(), services)
        case "delete":
            return await documents.delete_document(name, tenant, services)
        case _ if "file_name" in given and not is_address(given):
            return await _store_file(tenant, services, operation, validate(FileBody, given))
        case _:
            return await documents.store_json(tenant, services, operation.key, operation.id, given)


async def _store_file(tenant: Tenant, services: Services, operation: Operation, file: FileBody) -> Document:
    await documents.take_upload(services, tenant, len(file.content))
    header = file.to_message(corpus_pb2.UploadHeader, document_id=operation.id)

    async def data() -> AsyncGenerator[bytes, None]:
        yield file.content

    async def upload(request_id: str) -> corpus_pb2.Document:
        header.request_id = request_id
        return await services.corpus.upload(header, data())

    digest = hash_json(operation.document)
    return await documents.store_once(tenant, services, operation.key, operation.id, digest, upload)
