"""Which language model will see text."""

from collections.abc import Mapping

EXTRACTIVE = "extractive: quotes the best sentences of your documents; no text leaves this machine"


def describe_provider(environ: Mapping[str, str]) -> str:
    """One line about the generator's provider, as its settings choose it."""
    return EXTRACTIVE
