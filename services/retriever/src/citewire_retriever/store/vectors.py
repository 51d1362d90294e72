"""Vectors on their way to pgvector, and the binary form in which they go."""

from typing import Final, TypeAlias

import numpy as np
import psycopg
from numpy.typing import NDArray
from psycopg.adapt import Buffer, Dumper
from psycopg.pq import Format

Float32: TypeAlias = NDArray[np.float32]


class HalfVector:
    """A vector to be stored or searched as `halfvec`.

    It is scaled to length 1 first: cosine distance doesn't see it, and no value can leave half precision's range.
    Use it as a parameter with a cast: `%s::halfvec`.
    """

    __slots__ = ("wire",)

    def __init__(self, vector: Float32) -> None:
        """Takes a one-dimensional vector of finite values, not all zero."""
        scaled = vector.astype(np.float64)  # in which no square of a float32 overflows or vanishes
        scaled /= np.sqrt(scaled @ scaled)
        # halfvec's binary form: dimensions, a reserved field, then the values, all big-endian.
        self.wire: Final = len(vector).to_bytes(2, "big") + b"\0\0" + scaled.astype(">f2").tobytes()


class _HalfVectorDumper(Dumper):
    format = Format.BINARY
    oid = 0  # unknown: the cast in the statement says what it is, so no type has to be looked up

    def dump(self, obj: HalfVector) -> Buffer:
        return obj.wire


# For every connection that is opened from now on, so that no pool can forget it. HalfVector is our own: nobody else's
# parameters change.
psycopg.adapters.register_dumper(HalfVector, _HalfVectorDumper)
