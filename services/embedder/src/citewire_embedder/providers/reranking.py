"""What a rerank model is to the rest of the service, and the values that travel between them."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RerankInfo:
    """What a caller may know about a rerank model.

    Attributes:
        name: Its public name, or the provider's name for it.
        provider: `local`, or the kind of a remote provider.
        revision: Of a local model's weights; empty for a remote one.
        max_input_tokens: What it reads of a text; 0 if that isn't known.
        precision: In what numbers it computes; empty for a remote model.
    """

    name: str
    provider: str
    revision: str = ""
    max_input_tokens: int = 0
    precision: str = ""


@dataclass(frozen=True, slots=True)
class Ranked:
    """One document's place.

    Attributes:
        index: Of the document among those given.
        score: Comparable only within one model.
    """

    index: int
    score: float


@dataclass(frozen=True, slots=True)
class Ranking:
    """Documents by relevance.

    Attributes:
        ranked: Best first; equal scores in the order given.
        input_tokens: Tokens that the model read.
        estimated: Whether the provider didn't say how many.
    """

    ranked: tuple[Ranked, ...]
    input_tokens: int
    estimated: bool = False


class RerankModel(ABC):
    """A model that scores documents against a query. Its methods may run concurrently."""

    @property
    @abstractmethod
    def info(self) -> RerankInfo:
        """What the model is."""

    @abstractmethod
    async def rerank(
        self,
        query: str,
        documents: Sequence[str],
        top_n: int | None = None,
        first_scores: Sequence[float] = (),
        headings: Sequence[str] = (),
    ) -> Ranking:
        """Scores all documents and returns the best.

        Args:
            query: The question.
            documents: 1-1000 texts, none empty.
            top_n: How many to return; None for all.
            first_scores: The documents' in a first ranking, which a model may weigh beside its own; may be empty.
            headings: What stands above each document, and is read before it; may be empty, as may each.

        Raises:
            CitewireError: The model can't do it, or not now.
        """

    @abstractmethod
    async def close(self) -> None:
        """Lets go of the model, its threads or connections."""


def below(headings: Sequence[str], documents: Sequence[str]) -> Sequence[str]:
    """Puts each document below what stands above it, in a line of its own."""
    if not headings:
        return documents
    return [f"{above}\n{text}" if above else text for above, text in zip(headings, documents, strict=True)]


def best_first(scores: Sequence[float], top_n: int | None) -> tuple[Ranked, ...]:
    """Orders documents by their scores; equal ones keep their order."""
    order = sorted(range(len(scores)), key=lambda index: -scores[index])
    return tuple(Ranked(index, float(scores[index])) for index in order[:top_n])
