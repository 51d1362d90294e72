"""Profiles: the built-in ones, and an organisation's own."""

from typing import Annotated, Any, Self

from citewire.retriever.v1 import retriever_pb2
from pydantic import MISSING, Field, StrictStr

from citewire_dialects.profile import EventType, Profile
from citewire_dialects.schemas.profiles import ProfileFields, ProfileOptions
from citewire_gateway.profiles.store import StoredProfile
from citewire_http.api.reading import time_text
from citewire_http.api.schemas import JsonObject, RequestModel, ResponseModel, Time
from citewire_kit.enums import enum_text


class ProfileBody(RequestModel):
    """A tenant's profile: a modified built-in one."""

    base: StrictStr = Field(description="A built-in profile, such as `grounded`.")
    description: Annotated[StrictStr, Field(max_length=500)] = ""
    changes: ProfileOptions = Field(default_factory=ProfileOptions)


class ProfileInfo(ProfileFields):
    """A profile: how questions are answered. One of an organisation's own has `version`, `base` and `changes`."""

    version: int | MISSING = MISSING
    base: str | MISSING = MISSING
    changes: JsonObject | MISSING = Field(default=MISSING, description="See `ProfileOptions`.")
    created_at: Time | MISSING = MISSING

    @classmethod
    def of(cls, profile: Profile, stored: StoredProfile | None = None) -> Self:
        """Describes a profile; `stored` is its stored form, if it is an organisation's own."""
        return cls.read(
            profile,
            scope="user" if profile.level == retriever_pb2.SCOPE_LEVEL_USER else "org",
            strategy=enum_text(retriever_pb2.Strategy, profile.strategy),
            on_empty="model" if profile.no_match is None else "sentence",
            by_document=profile.search.group_by == retriever_pb2.GROUP_BY_DOCUMENT,
            events=[event.value for event in EventType if event in profile.events],
            optional_events=[event.value for event in EventType if event in profile.optional_events],
            **({} if stored is None else _origin(stored)),
        )


def _origin(stored: StoredProfile) -> dict[str, Any]:
    return {
        "version": stored.version,
        "base": stored.base,
        "changes": stored.changes.given(),
        "created_at": time_text(stored.created_at),
    }


class ProfileList(ResponseModel):
    """The available profiles: the built-in ones, then the organisation's own."""

    profiles: list[ProfileInfo]
    next_page_token: str = Field(description='"" on the last page.', examples=[""])
