"""Chunks as the columns that are stored of them."""

from collections.abc import Mapping, Sequence
from typing import Any

from psycopg.types.json import Jsonb

from citewire_retriever.headings import headings_of
from citewire_retriever.ingest.chunks import Chunk, embedding_input, input_hash
from citewire_retriever.ingest.wire import place_values
from citewire_retriever.lexical import weigh_chunk
from citewire_retriever.store.vectors import sparse_vector


def chunk_columns(chunks: Sequence[Chunk]) -> dict[str, list[Any]]:
    """Returns the values for the query `insert_chunks`, one list per column."""
    return {
        "indices": [chunk.index for chunk in chunks],
        "texts": [chunk.text for chunk in chunks],
        "token_counts": [chunk.token_count for chunk in chunks],
        "hashes": [chunk.content_hash for chunk in chunks],
        "sections": [chunk.section for chunk in chunks],
        "char_starts": [chunk.char_start for chunk in chunks],
        "char_ends": [chunk.char_end for chunk in chunks],
        "verbatims": [chunk.verbatim for chunk in chunks],
        "place": [Jsonb(place_values(chunk.place)) for chunk in chunks],
        "places": [_parts(chunk) for chunk in chunks],
        "input_hashes": [input_hash(chunk) for chunk in chunks],
    }


def chunk_terms(chunks: Sequence[Chunk], ids: Mapping[int, int]) -> dict[str, list[Any]]:
    """Returns the values for the query `insert_terms`; `ids` are the chunks' ids by index."""
    return {
        "chunk_ids": [ids[chunk.index] for chunk in chunks],
        "terms": [weighed_terms(chunk.header, chunk.text) for chunk in chunks],
    }


def weighed_terms(header: str, text: str) -> str:
    """Returns the terms of a chunk below its header, as they are stored."""
    return sparse_vector(weigh_chunk(embedding_input(header, text), headings_of(header))).to_text()


def _parts(chunk: Chunk) -> Jsonb | None:
    return Jsonb([[start, place_values(place)] for start, place in chunk.places]) if chunk.places else None
