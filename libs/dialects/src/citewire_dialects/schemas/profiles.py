"""The fields of profiles: those that may be changed, and all of them as they are shown."""

from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictInt, StrictStr

from citewire_dialects.profile import DocumentType
from citewire_http.api.reading import Names
from citewire_http.api.schemas import ResponseModel
from citewire_kit.tenant import INPUT_TOKENS

_MOST_CANDIDATES = 200

RerankSeconds = Annotated[float, Field(strict=True, ge=0.01, le=20, allow_inf_nan=False)]
"""Bounds of the time limit for reranking."""


class InputTokens(BaseModel):
    """Maximum input tokens of the model by tenant plan, up to the plan's own; absent plans stay unchanged."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    free: Annotated[StrictInt, Field(ge=2_000, le=INPUT_TOKENS["free"])] | None = None
    basic: Annotated[StrictInt, Field(ge=2_000, le=INPUT_TOKENS["basic"])] | None = None
    pro: Annotated[StrictInt, Field(ge=2_000, le=INPUT_TOKENS["pro"])] | None = None


class SearchOptions(BaseModel):
    """The retrieval options of searches, questions and profiles, named as in the retriever's message."""

    max_per_document: Annotated[StrictInt, Field(ge=1, le=200)] | None = Field(
        default=None, description="Maximum chunks of one document; absent: no limit, or the profile's."
    )


class ProfileOptions(SearchOptions):
    """Profile fields to override, within its limits."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    scope: Literal["org", "user"] | None = Field(
        default=None, description="The documents searched: the organisation's, or the caller's own."
    )
    types: Annotated[list[DocumentType], Field(max_length=4)] | None = Field(
        default=None, description="Types of documents searched; none means all."
    )
    empty_selection: Literal["nothing", "absent"] | None = Field(
        default=None, description="What `document_ids: []` means."
    )
    strategy: Literal["semantic", "library"] | None = Field(
        default=None, description="`semantic` always searches; `library` reads a small library whole."
    )
    top_k: StrictInt | None = None
    min_score: Annotated[float, Field(strict=True, ge=0, le=1, allow_inf_nan=False)] | None = None
    min_score_calibrated: StrictBool | None = Field(
        default=None, description="Whether to use the embedding space's own threshold, if known."
    )
    by_document: StrictBool | None = Field(default=None, description="The best chunk of each document alone.")
    recent: Annotated[StrictInt, Field(ge=0, le=50)] | None = Field(
        default=None, description="How many of the latest documents are added, whatever their score."
    )
    mode: Literal["dense", "lexical", "hybrid"] | None = None
    fuse_by_rank: StrictBool | None = Field(
        default=None, description="Whether `hybrid` fuses by reciprocal rank alone, not by scores."
    )
    rerank: StrictBool | None = Field(default=None, description="Reranks results with a rerank model.")
    rerank_candidates: Annotated[StrictInt, Field(ge=1, le=_MOST_CANDIDATES)] | None = Field(
        default=None, description="Number of results to rerank, at least `top_k`."
    )
    rerank_keep: Annotated[StrictInt, Field(ge=1, le=_MOST_CANDIDATES)] | None = Field(
        default=None, description="Maximum results after reranking; absent: the profile's, or `top_k`."
    )
    rerank_seconds: RerankSeconds | None = Field(
        default=None, description="Time limit; absent: the operator's setting, 0.3 by default."
    )
    hyde: StrictBool | None = Field(default=None, description="Searches with a hypothetical answer (HyDE).")
    derive_filter: StrictBool | None = Field(
        default=None,
        description="Narrows the search to the tags, category, kind and saving dates that a question names.",
    )
    on_empty: Literal["model", "sentence"] | None = Field(
        default=None, description="What answers if nothing was found: the model, or a fixed sentence at no cost."
    )
    context_format: Literal["numbered", "source_labels", "typed", "plain"] | None = Field(
        default=None, description="The heading of a passage's block in the prompt."
    )
    max_context_chars: Annotated[StrictInt, Field(ge=1_000, le=1_000_000)] | None = Field(
        default=None, description="Maximum characters of the context, including labels and line ends."
    )
    input_tokens: InputTokens | None = Field(
        default=None, description="Maximum input tokens of the model, by tenant plan."
    )
    history_tokens: Annotated[StrictInt, Field(ge=0, le=32_000)] | None = Field(
        default=None, description="Maximum tokens of system prompt and conversation; 0 sends no history."
    )
    condense: StrictBool | None = Field(default=None, description="Rewrites follow-ups before searching.")
    keep_passages: StrictBool | None = Field(
        default=None,
        description="Keeps the passages of earlier questions in the prompt if a provider's cache makes it cheaper.",
    )
    decide: StrictBool | None = Field(
        default=None, description="First asks the model whether the question needs retrieval."
    )
    assess: StrictBool | None = Field(default=None, description="Has the model assess its answer.")
    judge_relevance: StrictBool | None = Field(default=None, description="Has the model leave out irrelevant passages.")
    fill_table_query: StrictBool | None = Field(
        default=None,
        description="Has the model write a table query if the rules find none.",
    )
    speculate: StrictBool | None = Field(default=None, description="Starts the answer before the decision of `decide`.")
    answer_language: Annotated[StrictStr, Field(max_length=64)] | None = None
    not_found_sentence: Annotated[StrictStr, Field(min_length=1, max_length=500)] | None = Field(
        default=None,
        description="In strict profiles, the exact answer if the passages don't answer the question.",
    )
    marker_style: Literal["none", "remove", "ref", "source"] | None = None
    remove_invalid_markers: StrictBool | None = Field(
        default=None, description="Removes markers without a matching source; otherwise they stay as written."
    )
    ask_back: StrictBool | None = None
    instructions: Annotated[StrictStr, Field(max_length=16_000)] | None = None
    max_completion_tokens: Annotated[StrictInt, Field(ge=1, le=32_768)] | None = None

    def given(self) -> dict[str, Any]:
        """Returns the changed fields as JSON."""
        return self.model_dump(exclude_none=True)


class Bounds(ResponseModel):
    """Default and range of a number that a request may choose."""

    default: int = Field(examples=[10])
    minimum: int = Field(examples=[1])
    maximum: int = Field(examples=[50])


class ProfileHistory(ResponseModel):
    """The part of a conversation that the model gets."""

    tokens: int | None = Field(description="Maximum tokens; null means all.", examples=[4000])
    condense: bool = Field(description="Whether follow-ups are rewritten before searching.", examples=[True])


class ProfileFields(ResponseModel):
    """All fields of a profile, as they are shown."""

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
    scope: Literal["org", "user"] = Field(examples=["org"])
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
