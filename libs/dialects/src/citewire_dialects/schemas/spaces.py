"""Embedding spaces and what was measured of them."""

from enum import StrEnum
from typing import Annotated, ClassVar, Self

from citewire.retriever.v1 import calibration_pb2, corpus_pb2
from pydantic import Field, StrictBool, StrictInt, StrictStr

from citewire_dialects.schemas import Score
from citewire_http.api.reading import Names
from citewire_http.api.schemas import Count, FlatObject, JsonObject, RequestModel, ResponseModel, Time


class SpaceRole(StrEnum):
    """The use of a space."""

    LIVE = "live"
    NEXT = "next"
    PREVIOUS = "previous"
    FURTHER = "further"

    @classmethod
    def _missing_(cls, value: object) -> "SpaceRole":
        del value  # from a later version
        return cls.FURTHER


class SpaceBody(RequestModel):
    """An embedding space, as `GET /v1/spaces` names it."""

    model: Annotated[StrictStr, Field(min_length=1, max_length=200)]
    revision: Annotated[StrictStr, Field(min_length=1, max_length=100)]
    dimensions: Annotated[StrictInt, Field(ge=1, le=4096)]


class SpaceChoice(RequestModel):
    """An embedding space, as `GET /v1/spaces` or the embedder names it."""

    model: Annotated[StrictStr, Field(min_length=1, max_length=200)] = Field(examples=["text-embedding-3-small"])
    revision: Annotated[StrictStr, Field(min_length=1, max_length=100)] | None = Field(
        default=None, description="Absent: that of the model that is offered.", examples=["1"]
    )
    dimensions: Annotated[StrictInt, Field(ge=1, le=4096)] | None = Field(
        default=None, description="Absent: those of the model that is offered.", examples=[1536]
    )


class PrepareBody(RequestModel):
    """The space to prepare beside the live one."""

    space: SpaceChoice


class SwitchBody(RequestModel):
    """The space to make live."""

    space: SpaceChoice
    force: StrictBool = Field(
        default=False,
        description="Switches even to a space that lacks vectors; searches then miss documents that aren't embedded.",
    )


_RELEVANCE = "Cosine similarity below which a chunk is hardly ever relevant."
_ANSWERABLE = "Score of an extractive answer below which the passages don't answer the question."
_OFF_TOPIC = (
    "Cosine similarity at or below which a chunk has nothing to do with the question; null: derived from the space's "
    "scale and the question's words."
)
_WEIGHT = "Weight of the vectors in hybrid search; the rest is the words' weight."


class CalibrationValues(RequestModel):
    """The measured values; the server's defaults replace absent or null ones."""

    relevance_threshold: Score | None = Field(default=None, description=_RELEVANCE)
    answerable_threshold: Score | None = Field(default=None, description=_ANSWERABLE)
    dense_weight: Score | None = Field(default=None, description=_WEIGHT)
    off_topic_threshold: Score | None = Field(default=None, description=_OFF_TOPIC)
    report: FlatObject | None = Field(
        default=None, description="Report of the measurement: any JSON object, at most 64 KiB."
    )

    def to_proto(self) -> calibration_pb2.Calibration:
        """Returns it as a message; absent fields stay unset."""
        return self.to_message(calibration_pb2.Calibration, report=self.report or {})


class CalibrationBody(RequestModel):
    """The calibration of a space's scores; it replaces the stored one completely."""

    space: SpaceBody
    calibration: CalibrationValues | None = Field(
        description="Null removes the stored calibration: the server's defaults apply again."
    )


class Calibration(ResponseModel):
    """The calibration of a space's scores; null where not measured."""

    relevance_threshold: float | None = Field(description=_RELEVANCE, examples=[0.21])
    answerable_threshold: float | None = Field(description=_ANSWERABLE, examples=[0.38])
    dense_weight: float | None = Field(description=_WEIGHT, examples=[0.5])
    off_topic_threshold: float | None = Field(description=_OFF_TOPIC, examples=[0.1])
    measured_at: Time | None = Field(description="null if it came with the server.", examples=["2026-01-01T12:00:00Z"])
    report: JsonObject = Field(examples=[{"questions": 1200}])


class SpaceScale(ResponseModel):
    """The scale of cosine similarities in a space, measured with built-in questions and texts."""

    unrelated: float = Field(description="Mean similarity of a question and an unrelated text.", examples=[0.048])
    deviation: float = Field(description="Its standard deviation.", examples=[0.076])
    related: float = Field(
        description="Median similarity of a question and its answer, in standard deviations above that mean.",
        examples=[8.4],
    )


class Space(ResponseModel):
    """An embedding space: its progress, and what its scores mean."""

    parts = ("space",)
    names: ClassVar[Names] = {
        "items": "documents",
        "with_vectors": "documents_filled",
        "given_up": "documents_failed",
        "chunks_with_vectors": "chunks_filled",
    }

    model: str = Field(examples=["text-embedding-3-small"])
    revision: str = Field(examples=["1"])
    dimensions: int = Field(examples=[1536])
    role: SpaceRole = Field(examples=["next"])
    items: Count = Field(description="Documents with a live version.", examples=[240])
    with_vectors: Count = Field(examples=[190])
    missing: Count = Field(description="Documents that still lack vectors.", examples=[50])
    given_up: Count = Field(description="Documents whose embedding failed permanently.", examples=[0])
    chunks: Count = Field(examples=[1810])
    chunks_with_vectors: Count = Field(examples=[1424])
    calibration: Calibration | None
    scale: SpaceScale | None = Field(description="null until it has been measured.")

    @classmethod
    def from_proto(cls, message: corpus_pb2.SpaceInfo) -> Self:
        """Reads the retriever's description."""
        return cls.read(message, missing=message.documents - message.documents_filled)


class SpaceList(ResponseModel):
    """The organisation's embedding spaces, the live one first."""

    spaces: list[Space]
    next_page_token: str = Field(description='"" on the last page.', examples=[""])
