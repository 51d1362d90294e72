"""Vectors on their way to Postgres, adapted by pgvector's own package."""

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
    """Returns a vector as it is stored and searched, of length 1.

    Cosine distance doesn't see the length, and without it no value can leave half precision's range. Use it as a
    parameter with a cast, `%s::halfvec`.

    Args:
        vector: One dimension, finite values, not all zero.
    """
    scaled = vector.astype(np.float64)  # in which no square of a float32 overflows or vanishes
    return HalfVector(scaled / np.sqrt(scaled @ scaled))


def sparse_vector(weights: Mapping[int, float]) -> SparseVector:
    """Returns weights of terms as a `sparsevec`, which counts from 0 here and from 1 in SQL."""
    return SparseVector({number - 1: weight for number, weight in weights.items()}, DIMENSIONS)


# For every connection that is opened from now on, so that no pool can forget it. `register_vector` would ask each new
# connection for the type's number; the cast in the statement says what it is.
psycopg.adapters.register_dumper(HalfVector, HalfVectorBinaryDumper)
