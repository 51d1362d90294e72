"""The binary form in which vectors go to pgvector."""

from __future__ import annotations

import numpy as np
import pytest

from citewire_retriever.store.vectors import half_vector


def read(wire: bytes) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    assert int.from_bytes(wire[:2], "big") == (len(wire) - 4) // 2
    assert wire[2:4] == b"\0\0"
    return np.frombuffer(wire[4:], dtype=">f2").astype(np.float64)


@pytest.mark.parametrize("scale", [1e-38, 1e-10, 1.0, 1e5, 1e38])
def test_the_direction_survives_whatever_the_length_is(scale: float) -> None:
    vector = np.random.default_rng(1).normal(size=384)
    sent = read(half_vector((vector * scale).astype(np.float32)).to_binary())
    assert np.isfinite(sent).all()
    assert sent @ vector / np.linalg.norm(sent) / np.linalg.norm(vector) == pytest.approx(1, abs=1e-6)
    assert np.linalg.norm(sent) == pytest.approx(1, abs=1e-3)
