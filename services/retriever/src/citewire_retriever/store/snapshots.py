"""Data read by searches and plans, each in one transaction."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from citewire.retriever.v1.calibration_pb2 import Calibration
from citewire.retriever.v1.retriever_pb2 import Chunk, ScopeCounts

from citewire_retriever.model import Candidate, ItemVersion, Space


@dataclass(frozen=True, slots=True)
class SearchSnapshot:
    """A search's data, read in one transaction."""

    served: tuple[Space, ...]
    """The spaces that serve the organisation, the live one first; empty while nothing was ingested."""
    unknown_ids: tuple[int, ...]
    """Selected ids that aren't documents of the caller; at most 100."""
    ranked: tuple[Candidate, ...]
    """At most `top_k`, best first; only keys in a hybrid search. Empty if the query's space isn't served."""
    recent: tuple[Candidate, ...]
    """The most recent documents' first chunks."""
    exact: bool
    """Whether no index was used for the ranking."""
    lexical: tuple[Candidate, ...] = ()
    """At most `top_k` of a lexical or hybrid search, best first; keys or chunks, as above."""
    scope_chunks: int | None = None
    """Number of chunks in a narrowed scope, if counted."""
    hidden: bool = False
    """Whether part of the library is hidden from the caller."""
    ideal: float = 0.0
    """Hybrid search: lexical score of a text that has all of the question's words many times."""
    calibration: Calibration | None = None
    """The organisation's calibration of the query's space, without the report."""
    chunks: Mapping[int, Chunk] = field(default_factory=dict[int, Chunk])
    """The selected chunks by id, of a search that found keys."""


SelectChunks: TypeAlias = Callable[[SearchSnapshot], Sequence[int]]
"""Selects the chunks of a hybrid search to read whole. It is called once, with both legs' results."""


def select_nothing(_: SearchSnapshot) -> Sequence[int]:
    """Selects nothing."""
    return ()


@dataclass(frozen=True, slots=True)
class ScopeSnapshot:
    """A plan's data, read in one transaction."""

    served: tuple[Space, ...]
    unknown_ids: tuple[int, ...]
    counts: ScopeCounts
    cut: bool = False
    """Whether the most recent item alone exceeds the budget, so that only its beginning is kept."""
    items: tuple[ItemVersion, ...] = ()
    """On request: the items that fit the budget, most recent first; the first one even if it doesn't."""
    calibration: Calibration | None = None
    """The organisation's calibration of the live space, without the report."""
