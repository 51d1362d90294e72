"""`/v1/documents/{document_id}/tables`: a document's tables, and queries over them."""

from typing import Annotated

from citewire.retriever.v1 import table_pb2
from fastapi import APIRouter, Depends

from citewire_accounts.api.dependencies import authenticate
from citewire_dialects.schemas.tables import DocumentTables, TableAnswer, TableQueryBody
from citewire_gateway.api.dependencies import ServicesDep, document_number
from citewire_gateway.api.routes.documents import Version
from citewire_http.api.openapi import problems
from citewire_http.bodies import JsonBody
from citewire_http.departures import CancellingRoute

router = APIRouter(route_class=CancellingRoute, tags=["search"], dependencies=[Depends(authenticate)])


@router.get("/v1/documents/{document_id}/tables", summary="List a document's tables", responses=problems(404, 409, 503))
async def list_tables(document_id: str, services: ServicesDep, version: Version = None) -> DocumentTables:
    """Returns a version's tables with their columns; by default the live version's."""
    request = table_pb2.ListTablesRequest(document_id=document_number(document_id), version=version)
    return DocumentTables.read(await services.corpus.list_tables(request))


@router.post(
    "/v1/documents/{document_id}/tables:query",
    summary="Query a table",
    response_description="The exact answer, and the rows from which it was computed.",
    responses=problems(404, 409, 503),
)
async def query_table(
    document_id: str, services: ServicesDep, body: Annotated[TableQueryBody, Depends(JsonBody(TableQueryBody))]
) -> TableAnswer:
    """Counts, sums, groups and filters the rows of the whole table that has the columns; nothing is estimated.

    If there is no exact answer, the request is rejected (`TABLE_NOT_COMPUTED`), and `detail` says why.
    """
    return TableAnswer.from_proto(await services.corpus.query_table(body.to_proto(document_number(document_id))))
