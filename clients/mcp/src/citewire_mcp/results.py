"""The structured results of the tools, with their places in the documents."""

from typing import Any, Final, Self

from pydantic import BaseModel, Field

from citewire_client import models
from citewire_client.base import Model

_PLACE: Final = (
    *("section", "page_number", "slide", "sheet", "cell_range", "row_number", "start_line", "end_line", "cell"),
    *("record_path", "start_seconds", "end_seconds", "part"),
)


def place_of(located: Model) -> dict[str, Any]:
    """Returns the place of something in its document, with the fields that apply to the document's format."""
    members = {name: getattr(located, name, None) for name in _PLACE}
    return {name: value for name, value in members.items() if value is not None}


class Passage(BaseModel):
    """A passage of a document."""

    chunk_id: int = Field(description="For `open_passage`.")
    document_id: int
    title: str
    file_name: str
    place: dict[str, Any] = Field(
        description="Its place in the document: page_number, section, sheet, row_number, and so on."
    )
    content: str
    score: float | None = Field(default=None, description="Cosine similarity with the query.")

    @classmethod
    def read(cls, passage: models.SearchResult | models.Chunk) -> Self:
        """Converts a search result or a chunk."""
        return cls(
            chunk_id=passage.chunk_id,
            document_id=passage.document_id,
            title=passage.title,
            file_name=passage.file_name,
            place=place_of(passage),
            content=passage.content,
            score=getattr(passage, "score", None),
        )


class Passages(BaseModel):
    """Passages, the most relevant first."""

    passages: list[Passage]


class CheckedQuote(BaseModel):
    """A sentence of the answer and the quote from a document that it was compared with."""

    sentence: str
    quote: str
    verdict: str = Field(
        description="How far the quote supports the sentence: supported, partial, unsupported or unverified."
    )
    number: int = Field(description="The number in the answer's markers.")
    chunk_id: int
    document_id: int
    file_name: str
    place: dict[str, Any]


class Answer(BaseModel):
    """An answer from the documents. Every quote was found in them; none is invented."""

    answer: str
    answered: bool = Field(description="False: the documents contain no answer.")
    quotes: list[CheckedQuote]
    conversation_id: str | None = Field(
        default=None, description="Pass it to the next call of `ask` to continue the conversation."
    )
    model: str | None = None


class DocumentInfo(BaseModel):
    """A document of the library."""

    document_id: int
    title: str
    file_name: str
    collection: str | None
    tags: list[str]
    status: str = Field(description="`ready`: it can be searched.")
    uri: str = Field(description="The resource with its text.")


class DocumentPage(BaseModel):
    """Documents, newest first."""

    documents: list[DocumentInfo]
    next_page_token: str = Field(description='For the next call; "" on the last page.')


def uri_of(document_id: int) -> str:
    """Returns the resource URI of a document."""
    return f"citewire://documents/{document_id}"


def document_info(document: models.Document) -> DocumentInfo:
    """Converts a document."""
    return DocumentInfo(
        document_id=document.id,
        title=document.title,
        file_name=document.file_name,
        collection=document.collection,
        tags=document.tags,
        status=document.status,
        uri=uri_of(document.id),
    )


def read_answer(chat: models.ChatAnswer) -> Answer:
    """Converts a chat's answer."""
    cited = {citation.index: citation for citation in chat.citations}
    return Answer(
        answer=chat.answer,
        answered=not chat.not_found,
        quotes=[
            CheckedQuote(
                sentence=chat.answer[citation.sentence.start : citation.sentence.end],
                quote=citation.quote,
                verdict=citation.verdict,
                number=citation.index,
                chunk_id=citation.chunk_id,
                document_id=citation.document_id,
                file_name=cited[citation.index].file_name,
                # The quote's own place, and the section of its passage.
                place={**place_of(cited[citation.index]), **place_of(citation)},
            )
            for citation in chat.verified or ()
        ],
        conversation_id=None if chat.conversation_id is None else str(chat.conversation_id),
        model=chat.model,
    )
