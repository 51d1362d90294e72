"""Thresholds of similarity, measured per embedding model.

Below its model's threshold a chunk has nothing to do with the question: if no chunk is above it, no model is asked. It
lies far below the threshold at which the generator says that it found nothing; it must never cost an answer.
"""

from collections.abc import Mapping
from types import MappingProxyType

MIN_SIMILARITIES: Mapping[str, float] = MappingProxyType({"all-MiniLM-L6-v2": 0.075})
"""all-MiniLM-L6-v2, cosine similarity of a question and the passage that answers it, least and first percentile:
SQuAD 2.0 0.117 and 0.192 (1,200 questions), XQuAD en 0.104 and 0.200, es 0.132 and 0.232 (1,190 each), SciFact 0.078
and 0.191 (339 judgements), ClapNQ 0.185 and 0.297 (150). A question and the best of some 35 passages about something
else: median 0.160, and 0.14 of the questions below 0.075. So the threshold costs no answer, and spares a call where a
question is wildly off-topic; what lies between is for the generator to judge."""

UNMEASURED = 0.0
"""For models that nobody measured: only a chunk that points away from the question is left out."""


def min_similarity(model: str) -> float:
    """Returns the threshold of an embedding model; its name may carry an organisation in front (`org/name`)."""
    return MIN_SIMILARITIES.get(model.rpartition("/")[2], UNMEASURED)
