"""A chat model that reads its prompt's labels: it cites each passage with the labels that it was told to look for.

It follows the prompt's rules for models, so a test sees whether the prompt contains everything needed for that.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from echo_model import EchoModel

_LABEL = re.compile(r"^\[(\d+)\] (.+?)((?: \| (?:kind|category|saved|tags): [^|\n]*)+)$", re.MULTILINE)
_TODAY = re.compile(r"^Today is \w+, (\d{4}-\d{2}-\d{2})\.$", re.MULTILINE)


class ListingModel(EchoModel):
    """The model; `wanted` are the labels that an item must have (`kind: restaurant`), `since` the first save day."""

    required: Sequence[str] = ()
    since = ""
    today = ""
    """The current day according to the last prompt."""
    labels: Sequence[str] = ()
    """The labels of the last prompt's passages."""

    def texts(self, prompt: str, question: str) -> list[str]:
        """The answer to a prompt: a line with a marker for each passage that fits."""
        today = _TODAY.search(question)
        self.today = today[1] if today else ""
        matches = list(_LABEL.finditer(question))
        self.labels = [match[3] for match in matches]
        return [f"{match[2]} [ref:{match[1]}].\n" for match in matches if self._fits(match[3])]

    def _fits(self, label: str) -> bool:
        saved = re.search(r"saved: (\S+)", label)
        return all(part in label for part in self.required) and (saved[1] if saved else "") >= self.since
