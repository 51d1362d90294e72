"""Shared by the bodies: the types of their fields, and the scope of a search."""

from typing import Annotated, Any, ClassVar, Literal, get_args

from citewire.retriever.v1 import retriever_pb2
from pydantic import MISSING, Field, StrictBool, StrictInt, StrictStr, WithJsonSchema

from citewire_dialects.filters import parse_filter
from citewire_dialects.profile import DocumentType
from citewire_http.api.schemas import MAX_ID, Count, Id, RequestModel, ResponseModel, Rounded
from citewire_http.api.times import Moment

MAX_DOCUMENT_IDS = 10_000

DocumentId = Annotated[StrictInt, Field(ge=1, le=MAX_ID)]
DocumentIds = Annotated[list[DocumentId], Field(max_length=MAX_DOCUMENT_IDS)]
CollectionName = Annotated[StrictStr, Field(min_length=1, max_length=128)]
CitedId = Annotated[int, WithJsonSchema({"type": "integer", "minimum": 0, "maximum": MAX_ID})]
"""Id used in citations; 0 for passages from the request."""
OF_BROUGHT = "0, like the version and the chunk, for a passage from the request."
Score = Annotated[float, Field(strict=True, ge=0, le=1, allow_inf_nan=False)]
Similarity = Annotated[Rounded, WithJsonSchema({"type": "number", "minimum": 0, "maximum": 1})]
KnownType = Annotated[str, WithJsonSchema({"type": "string", "enum": list(get_args(DocumentType))})]

PLACE_NAMES = {
    "page_number": "place.page",
    "row_number": "place.row",
    "end_row_number": "place.end_row",
    "start_line": "place.start_line",
    "end_line": "place.end_line",
    "slide": "place.slide",
    "sheet": "place.sheet",
    "cell_range": "place.cell_range",
    "cell": "place.cell",
    "record_path": "place.record_path",
    "start_seconds": "place.start_seconds",
    "end_seconds": "place.end_seconds",
    "part": "place.part",
}
"""A chunk's place in the original; fields that its format doesn't have are left out."""


class PlaceFields(ResponseModel):
    """A place in the original; fields that its format doesn't have are left out."""

    place_after: ClassVar[str] = ""
    """The field after which the place is written; empty if it comes first. Frames must stay the same byte for byte."""

    page_number: Id | MISSING = Field(default=MISSING, examples=[3])
    row_number: Id | MISSING = Field(default=MISSING, description="Row of the sheet, from 1; the first of several.")
    end_row_number: Id | MISSING = Field(default=MISSING, description="Last row, if there are several.")
    start_line: Id | MISSING = MISSING
    end_line: Id | MISSING = MISSING
    slide: Id | MISSING = Field(default=MISSING, description="Slide of a presentation, from 1.")
    sheet: str | MISSING = Field(default=MISSING, description="Name of the sheet in a workbook.")
    cell_range: str | MISSING = Field(default=MISSING, description="Cells of the sheet, like `B2:D9`.")
    cell: Id | MISSING = Field(default=MISSING, description="Cell of a notebook, from 1.")
    record_path: str | MISSING = Field(
        default=MISSING, description="Path of a record or value, like `orders[3].customer`; XPath in XML."
    )
    start_seconds: float | MISSING = Field(default=MISSING, description="Start of its speech, in seconds.")
    end_seconds: float | MISSING = MISSING
    part: str | MISSING = Field(default=MISSING, description="Path of an inner file, such as an e-mail's attachment.")

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: object) -> None:
        """Moves the place to its position, because a base class's fields come first otherwise."""
        super().__pydantic_init_subclass__(**kwargs)
        own = [name for name in cls.model_fields if name not in PlaceFields.model_fields]
        at = own.index(cls.place_after) + 1 if cls.place_after else 0
        order = (*own[:at], *PlaceFields.model_fields, *own[at:])
        cls.__pydantic_fields__ = {name: cls.model_fields[name] for name in order}
        cls.model_rebuild(force=True)


class ScopeFields(RequestModel):
    """The scope of a search: everything that satisfies all of these."""

    document_ids: DocumentIds | None = Field(
        default=None, description="The selected documents; absent means all in scope."
    )
    collection: CollectionName | None = None
    filter: Any = Field(
        default=None,
        description='A condition on documents: {"all": […]}, {"any": […]}, {"not": …} or {"field", "op", "value"}.',
        examples=[{"all": [{"field": "tags", "op": "contains", "value": "2025"}]}],
    )

    as_of: Moment | None = Field(default=None, description="Finds what is valid at this time; absent: now.")
    any_validity: StrictBool = Field(default=False, description="Whether to search regardless of validity.")

    def scope(self) -> retriever_pb2.Scope:
        """Returns it as the retriever's message; an empty selection stays empty."""
        ids, parsed = self.document_ids, None if self.filter is None else parse_filter(self.filter)
        selection = None if ids is None else retriever_pb2.DocumentSelection(document_ids=ids)
        return self.to_message(
            retriever_pb2.Scope, collection=self.collection or "", selection=selection, filter=parsed
        )


class StreamError(ResponseModel):
    """An error after the stream has started."""

    text: str = Field(examples=["the model provider went away"])
    retryable: Literal[True] | MISSING = Field(
        default=MISSING, description="Only if the same request may be sent again at once."
    )
    reason: Literal["RUN_LOST", "RUN_CANCELLED"] | MISSING = Field(
        default=MISSING, description="Only if the run lost its gateway, or was stopped."
    )
    last_sequence: Count | MISSING = Field(
        default=MISSING, description="With a `reason`: number of the last event before this one."
    )
