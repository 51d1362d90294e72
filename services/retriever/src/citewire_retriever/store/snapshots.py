"""What searches and plans see, each in one transaction."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from citewire.retriever.v1.calibration_pb2 import Calibration
from citewire.retriever.v1.retriever_pb2 import Chunk, ScopeCounts

from citewire_retriever.model import Candidate, ItemVersion, Space


@dataclass(frozen=True, slots=True)
class SearchSnapshot:
    """What a search saw, all in one transaction."""

    served: tuple[Space, ...]
    """The spaces that serve the organisation, the live one first; empty while nothing was ingested."""
    unknown_ids: tuple[int, ...]
    """Ids of the scope's selection that aren't documents of the caller's; at most 100."""
    ranked: tuple[Candidate, ...]
    """At most `top_k`, best first; of a hybrid search only keys. Empty if the query's space isn't served."""
    recent: tuple[Candidate, ...]
    """The most recent documents' first chunks."""
    exact: bool
    """Whether no index was used for the ranking."""
    lexical: tuple[Candidate, ...] = ()
    """At most `top_k` of a lexical or hybrid search, best first; keys or chunks, as above."""
    scope_chunks: int | None = None
    """Chunks of a narrowed scope, where the search counted them."""
    hidden: bool = False
    """Whether part of the library is hidden from the caller."""
    ideal: float = 0.0
    """Of a hybrid search: lexical score of a text that has all of the question's words many times."""
    calibration: Calibration | None = None
    """What the organisation stored for the query's space, without the report."""
    chunks: Mapping[int, Chunk] = field(default_factory=dict[int, Chunk])
    """Those that were chosen, by id, of a search that found keys."""


SelectChunks: TypeAlias = Callable[[SearchSnapshot], Sequence[int]]
"""Says which chunks of a hybrid search are read whole. It is called once, with all that the legs gave."""


def select_nothing(_: SearchSnapshot) -> Sequence[int]:
    """Selects nothing."""
    return ()


@dataclass(frozen=True, slots=True)
class ScopeSnapshot:
    """What a plan is made from, all in one transaction."""

    served: tuple[Space, ...]
    unknown_ids: tuple[int, ...]
    counts: ScopeCounts
    cut: bool = False
    """Whether the most recent item alone is over the budget: only its beginning is kept."""
    items: tuple[ItemVersion, ...] = ()
    """If asked for: those that fit the budget, most recent first; the very first also if it doesn't."""
    calibration: Calibration | None = None
    """What the organisation stored for the live space, without the report."""
