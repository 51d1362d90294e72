"""Bodies for users' feedback on answers."""

from typing import Annotated

from pydantic import Field, StrictStr

from citewire_accounts.tenants.feedback import REASONS, Rating, Reason
from citewire_http.api.schemas import RequestModel, ResponseModel, Time
from citewire_kit.errors import Violations

_UP, _DOWN = (", ".join(f"`{reason}`" for reason in reasons) for reasons in REASONS.values())


class FeedbackBody(RequestModel):
    """The caller's feedback on an answer."""

    rating: Rating = Field(description="Whether the answer is good.", examples=["down"])
    reasons: list[Reason] = Field(
        default_factory=list[Reason],
        max_length=10,
        description=f"For `up`: {_UP}; for `down`: {_DOWN}.",
        examples=[["outdated"]],
    )
    comment: Annotated[StrictStr, Field(max_length=2000)] = Field(
        default="", description="A comment in the caller's own words.", examples=["The allowance went up in May."]
    )

    def check(self) -> None:
        """Rejects reasons that belong to the other rating.

        Raises:
            InvalidArgument: Names each of them.
        """
        violations = Violations()
        for number, reason in enumerate(self.reasons):
            allowed = REASONS[self.rating]
            violations.require(
                reason in allowed,
                f"reasons.{number}",
                f"must be one of the reasons for {self.rating}: {', '.join(allowed)}",
            )
        violations.raise_if_any()


class FeedbackInfo(ResponseModel):
    """Feedback on an answer."""

    rating: Rating = Field(examples=["down"])
    reasons: list[str] = Field(examples=[["outdated"]])
    comment: str = Field(description='"" for none.', examples=["The allowance went up in May."])
    updated_at: Time = Field(examples=["2026-01-15T09:35:00Z"])
