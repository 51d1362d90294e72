"""`/v1/feedback`: answers that users of the organisation rated, for owners and admins."""

from fastapi import APIRouter, Depends, Response
from fastapi.responses import JSONResponse
from pydantic import Field

from citewire_accounts.api.dependencies import TenantDep, authenticate
from citewire_accounts.api.routes.feedback import RatedPageDep
from citewire_gateway.api.dependencies import ServicesDep
from citewire_gateway.api.routes.conversations import StoredAnswer, message_body
from citewire_http.api.openapi import problems
from citewire_http.api.schemas import ResponseModel, Uuid
from citewire_http.departures import CancellingRoute

router = APIRouter(route_class=CancellingRoute, tags=["admin"], dependencies=[Depends(authenticate)])


class FeedbackEntry(ResponseModel):
    """A rated answer, with the question."""

    conversation_id: Uuid = Field(examples=["01938f2e-4c5a-7b10-9d3e-5f0c2a6b7e11"])
    user: str = Field(description="The user who asked the question and rated the answer.", examples=["ada"])
    profile: str = Field(examples=["grounded"])
    question: str = Field(examples=["How much did revenue grow?"])
    answer: StoredAnswer = Field(description="With its `feedback`; withheld if the caller may not see its sources.")


class FeedbackList(ResponseModel):
    """A page of rated answers, latest feedback first."""

    feedback: list[FeedbackEntry]
    next_page_token: str = Field(description='"" on the last page.', examples=[""])


@router.get(
    "/v1/feedback",
    summary="List feedback",
    response_model=FeedbackList,
    response_description="A page of rated answers.",
    responses=problems(403, 422),
)
async def list_feedback(tenant: TenantDep, services: ServicesDep, page: RatedPageDep) -> Response:
    """Returns answers that users of the organisation rated, latest first. For owners and admins.

    An answer that was written from documents hidden from the caller is `withheld`.
    """
    rated, token = page
    entries = [
        {
            "conversation_id": str(entry.conversation_id),
            "user": entry.user_id,
            "profile": answer.profile,
            "question": answer.question,
            "answer": message_body(answer.message, entry.feedback),
        }
        for entry, answer in await services.reader.rated(tenant, rated)
    ]
    return JSONResponse({"feedback": entries, "next_page_token": token})
