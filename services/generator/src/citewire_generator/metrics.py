"""The generator's own metric series; those that all processes share are in kit."""

from prometheus_client import Counter

MARKERS = Counter(
    "citewire_generator_markers_total",
    "Citation markers in answers: cited (numbers of the context, each once an answer), invalid (numbers that aren't in "
    "it), removed (taken out).",
    ["outcome"],
)
CITED = MARKERS.labels("cited")
INVALID = MARKERS.labels("invalid")
REMOVED = MARKERS.labels("removed")

NOT_FOUND = Counter(
    "citewire_generator_answers_total", "Completed answers, by whether the passages answered.", ["outcome"]
)
ANSWERS_FOUND = NOT_FOUND.labels("answered")
ANSWERS_NOT_FOUND = NOT_FOUND.labels("not_found")
