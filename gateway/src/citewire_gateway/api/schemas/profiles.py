"""Profiles: the built-in ones, and an organisation's own."""

from typing import Annotated, Any, ClassVar, Literal, Self

from citewire.retriever.v1 import retriever_pb2
from pydantic import (
    MISSING,
    Field,
    StrictStr,
)

from citewire_accounts.api.schemas import ScopeName
from citewire_dialects.options import ProfileOptions
from citewire_dialects.profile import EventType, Profile
from citewire_gateway.profiles.store import StoredProfile
from citewire_http.api.reading import Names, time_text
from citewire_http.api.schemas import JsonObject, RequestModel, ResponseModel, Time
from citewire_kit.enums import enum_text


class ProfileBody(RequestModel):
    """A tenant's profile: a modified built-in one."""

    base: StrictStr = Field(description="A built-in profile, such as `grounded`.")
    description: Annotated[StrictStr, Field(max_length=500)] = ""
    changes: ProfileOptions = Field(default_factory=ProfileOptions)


class Bounds(ResponseModel):
    """Default and range of a number that a request may choose."""

    default: int = Field(examples=[10])
    minimum: int = Field(examples=[1])
    maximum: int = Field(examples=[50])


class ProfileHistory(ResponseModel):
    """The part of a conversation that the model gets."""

    tokens: int | None = Field(description="Maximum tokens; null means all.", examples=[4000])
    condense: bool = Field(description="Whether follow-ups are rewritten before searching.", examples=[True])


class ProfileInfo(ResponseModel):
    """A profile: how questions are answered. One of an organisation's own has `version`, `base` and `changes`."""

    parts = ("answer", "search")
    names: ClassVar[Names] = {
        "input_tokens": "budget.input_tokens",
        "rerank_candidates": "rerank.candidates",
        "rerank_keep": "rerank.keep",
        "rerank_seconds": "rerank.seconds",
        "conversations": "persist",
    }

    name: str = Field(examples=["grounded"])
    description: str = Field(examples=["Strictly from the documents, each sentence verified."])
    scope: ScopeName = Field(examples=["org"])
    strategy: str = Field(examples=["semantic"])
    mode: str = Field(examples=["hybrid"])
    top_k: Bounds
    min_score: float | None = Field(examples=[None])
    min_score_calibrated: bool = Field(
        description="Whether to use the embedding space's own threshold.", examples=[False]
    )
    types: list[str] = Field(description="Types of documents; empty is all.", examples=[[]])
    empty_selection: str = Field(description="What `document_ids: []` means.", examples=["nothing"])
    on_empty: Literal["model", "sentence"] = Field(
        description="What answers if nothing was found.", examples=["sentence"]
    )
    context_format: str = Field(examples=["numbered"])
    max_context_chars: int | None = Field(
        description="Maximum characters of the context, including labels and line ends.", examples=[None]
    )
    marker_style: str = Field(examples=["ref"])
    remove_invalid_markers: bool = Field(
        description="Whether markers without a matching source are removed.", examples=[False]
    )
    grounding: str = Field(examples=["strict"])
    answer_language: str | None = Field(description="null is the question's.", examples=[None])
    not_found_sentence: str | None = Field(examples=["I could not find this in the documents."])
    ask_back: bool = Field(description="Whether the model asks back when the question is unclear.", examples=[True])
    instructions: str | None = Field(description="Instructions in addition to our prompt.", examples=[None])
    history: ProfileHistory | None
    keep_passages: bool = Field(
        description="Whether the passages of earlier questions stay in the prompt where the provider's cache makes it "
        "cheaper.",
        examples=[True],
    )
    by_document: bool = Field(examples=[False])
    max_per_document: int | None = Field(description="Maximum chunks of one document.", examples=[None])
    fuse_by_rank: bool = Field(description="Whether `hybrid` fuses by reciprocal rank alone.", examples=[False])
    recent: int = Field(description="How many of the latest documents are added.", examples=[0])
    input_tokens: dict[str, int] | None = Field(description="By tenant plan.", examples=[None])
    rerank_candidates: int | None = Field(examples=[40])
    rerank_keep: int | None = Field(description="Maximum results after reranking; null means `top_k`.", examples=[None])
    rerank_seconds: float | None = Field(description="null: the operator's setting.", examples=[None])
    hyde: bool = Field(examples=[False])
    derive_filter: bool = Field(examples=[False])
    decide: bool = Field(examples=[False])
    assess: bool = Field(examples=[False])
    judge_relevance: bool = Field(description="Whether the model leaves out irrelevant passages.", examples=[False])
    fill_table_query: bool = Field(description="Whether a model may write table queries.", examples=[False])
    speculate: bool = Field(examples=[False])
    max_completion_tokens: int | None = Field(examples=[None])
    events: list[str] = Field(examples=[["citations", "token", "usage", "done"]])
    optional_events: list[str] = Field(examples=[["assessment"]])
    conversations: str = Field(examples=["always"])
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
