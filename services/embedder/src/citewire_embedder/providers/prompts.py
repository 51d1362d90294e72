"""What remote embedding models want before a text: their servers don't add it."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from citewire_embedder.providers.base import Purpose


@dataclass(frozen=True, slots=True)
class Prompts:
    """What stands before a text, as the model was trained with it."""

    query: str = ""
    document: str = ""

    def of(self, purpose: Purpose) -> str:
        """The prompt for a purpose."""
        return self.query if purpose is Purpose.QUERY else self.document


_MXBAI = "Represent this sentence for searching relevant passages: "
_PROMPTS: Final[Mapping[str, Prompts]] = MappingProxyType(
    {
        "nomic-embed-text": Prompts("search_query: ", "search_document: "),
        "mxbai-embed-large": Prompts(query=_MXBAI),
        "snowflake-arctic-embed": Prompts(query=_MXBAI),
    }
)


def prompts_of(model: str) -> Prompts:
    """The prompts of a model, by its name without owner, tag and version."""
    name = model.rpartition("/")[2].partition(":")[0].lower()
    return next((prompts for known, prompts in _PROMPTS.items() if name.startswith(known)), Prompts())
