"""Vectors as parameters for Postgres, adapted by pgvector's package."""

from collections.abc import Mapping
from typing import TypeAlias

import numpy as np
import psycopg
from numpy.typing import NDArray
from pgvector import HalfVector, SparseVector
from pgvector.psycopg.halfvec import HalfVectorBinaryDumper

from citewire_retriever.lexical import DIMENSIONS

Float32: TypeAlias = NDArray[np.float32]


def half_vector(vector: Float32) -> HalfVector:
    """Returns a vector as stored and searched, normalised to length 1.

    Cosine distance ignores the length, and normalising keeps values within half precision's range. Use it as a
    parameter with a cast, `%s::halfvec`.

    Args:
        vector: One dimension, finite values, not all zero.
    """
    scaled = vector.astype(np.float64)  # in which squares of float32 neither overflow nor underflow
    return HalfVector(scaled / np.sqrt(scaled @ scaled))


def sparse_vector(weights: Mapping[int, float]) -> SparseVector:
    """Returns weights of terms as a `sparsevec`, which counts from 0 here and from 1 in SQL."""
    return SparseVector({number - 1: weight for number, weight in weights.items()}, DIMENSIONS)


# Registered for all future connections, so that no pool can forget it. `register_vector` would query the type's number
# on each new connection; a cast in the statement makes that unnecessary.
psycopg.adapters.register_dumper(HalfVector, HalfVectorBinaryDumper)
