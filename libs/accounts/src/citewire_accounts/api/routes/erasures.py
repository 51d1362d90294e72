"""`/v1/erasures`: the erasure of users and organisations, and its progress."""

from typing import Annotated, Literal
from uuid import UUID

from fastapi import APIRouter, Depends
from pydantic import MISSING, Field, StrictStr

from citewire_accounts.api.dependencies import AccountsDep, TenantDep, authenticate, require_admin
from citewire_accounts.tenants import erasures
from citewire_http.api.openapi import problems
from citewire_http.api.pages import PagesDep
from citewire_http.api.reading import time_text
from citewire_http.api.schemas import Count, RequestModel, ResponseModel, Time, Uuid
from citewire_http.bodies import JsonBody
from citewire_http.departures import CancellingRoute
from citewire_kit.audit import touch
from citewire_kit.errors import NotFound, invalid_field

router = APIRouter(route_class=CancellingRoute, tags=["erasures"], dependencies=[Depends(authenticate)])


class ErasureRequest(RequestModel):
    """What to erase: a user, or the whole organisation."""

    user: Annotated[StrictStr, Field(min_length=1, max_length=128)] | None = Field(
        default=None, description="The user's id.", examples=["bob"]
    )
    organisation: Annotated[StrictStr, Field(min_length=1, max_length=128)] | None = Field(
        default=None, description="The caller's organisation, by its id: all its data is permanently erased."
    )
    documents: Literal["delete", "keep"] = Field(
        default="delete",
        description="Whether to delete the user's documents; `keep` assigns them to a placeholder name.",
    )


class Erasure(ResponseModel):
    """An erasure with its progress."""

    id: Uuid = Field(examples=["01938f2e-4c5a-7b10-9d3e-5f0c2a6b7e13"])
    kind: Literal["user", "organisation"] = Field(examples=["user"])
    user: str | MISSING = Field(default=MISSING, description="Absent once the erasure is complete.", examples=["bob"])
    successor: str = Field(description="The name that replaces the user in accounts.", examples=["erased:5f0c2a6b7e13"])
    documents: Literal["delete", "keep"]
    state: Literal["running", "done"] = Field(examples=["running"])
    erased_documents: Count = Field(
        description="Number of documents deleted or given to the successor so far.", examples=[12]
    )
    created_at: Time = Field(examples=["2026-01-15T09:31:00Z"])
    finished_at: Time | MISSING = Field(default=MISSING, examples=["2026-01-15T09:37:00Z"])


class ErasureList(ResponseModel):
    """The latest hundred erasures, oldest first."""

    erasures: list[Erasure]
    next_page_token: str = Field(description='"" on the last page.', examples=[""])


@router.post("/v1/erasures", summary="Erase a user or the organisation", status_code=202, responses=problems(404, 409))
async def add_erasure(
    tenant: TenantDep, services: AccountsDep, body: Annotated[ErasureRequest, Depends(JsonBody(ErasureRequest))]
) -> Erasure:
    """Starts the erasure of a user, or of the whole organisation, in the background.

    Keys stop working within seconds. It is complete once no earlier request can still write.
    """
    require_admin(tenant)
    if (body.user is None) == (body.organisation is None):
        raise invalid_field("user", "is required unless organisation is given; only one of them may be")
    if body.organisation not in (None, tenant.org_id):
        raise invalid_field("organisation", "must be the id of the caller's own organisation")
    if body.organisation is not None and body.documents == "keep":
        raise invalid_field("documents", "can't be kept without their organisation")
    erasure = await services.erasures.ask(tenant, body.user or "", body.documents)
    touch(f"user:{body.user}" if body.user else f"organisation:{tenant.org_id}")
    return erasure_json(erasure)


@router.get("/v1/erasures", summary="List erasures")
async def list_erasures(tenant: TenantDep, services: AccountsDep, pages: PagesDep) -> ErasureList:
    """Returns the organisation's latest hundred erasures, oldest first; `q` searches users and their successors."""
    require_admin(tenant)
    erasures, token = pages.page(
        await services.erasures.page(tenant),
        key=lambda erasure: (erasure.created_at.isoformat(), str(erasure.erasure_id)),
        text=lambda erasure: f"{erasure.subject}\n{erasure.successor}",
    )
    return ErasureList(erasures=[erasure_json(erasure) for erasure in erasures], next_page_token=token)


@router.get("/v1/erasures/{erasure_id}", summary="Show the progress of an erasure", responses=problems(404))
async def get_erasure(erasure_id: str, tenant: TenantDep, services: AccountsDep) -> Erasure:
    """Returns an erasure. An organisation's erasure is deleted with it."""
    require_admin(tenant)
    try:
        number = UUID(erasure_id)
    except ValueError as exc:
        raise NotFound(f"there is no erasure {erasure_id[:64]}", reason="ERASURE_NOT_FOUND") from exc
    return erasure_json(await services.erasures.get(tenant, number))


def erasure_json(erasure: erasures.Erasure) -> Erasure:
    """Converts an erasure to JSON."""
    return Erasure(
        id=str(erasure.erasure_id),
        kind=erasure.subject_kind,
        user=erasure.subject or MISSING,
        successor=erasure.successor,
        documents=erasure.documents,
        state=erasure.state,
        erased_documents=erasure.erased,
        created_at=time_text(erasure.created_at),
        finished_at=MISSING if erasure.finished_at is None else time_text(erasure.finished_at),
    )
