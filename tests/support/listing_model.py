"""A chat model that reads its prompt's labels: it names each passage that has what it was told to look for.

It does what the rules of the prompt say a model should, so a test sees whether the prompt holds what is needed for it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from echo_model import EchoModel

_LABEL = re.compile(r"^\[(\d+)\] (.+?)((?: \| (?:kind|category|saved|tags): [^|\n]*)+)$", re.MULTILINE)
_TODAY = re.compile(r"^Today is \w+, (\d{4}-\d{2}-\d{2})\.$", re.MULTILINE)


class ListingModel(EchoModel):
    """The model; `wanted` says which labels an item must have (`kind: restaurant`), `since` the first day of saving."""

    required: Sequence[str] = ()
    since = ""
    today = ""
    """The day that the last prompt said it is."""
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
