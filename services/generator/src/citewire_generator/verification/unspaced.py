"""Names in scripts without spaces between words: found by what stands around them, character by character."""

import re
from collections.abc import Sequence

_RUN = re.compile(r"[\u30a1-\u30fa\u30fc\u3400-\u4dbf\u4e00-\u9fff\U00020000-\U0002ffff]{2,}")
_BEFORE = re.compile(r"[\u30a1-\u30fa\u30fc\u3400-\u4dbf\u4e00-\u9fff\U00020000-\U0002ffff]+$")
MAX_GAP = 8
"""Characters between two anchors, at most."""


def replaced_runs(
    sentence: str, pairs: Sequence[tuple[int, int, Sequence[tuple[int, int]]]], passage: str
) -> list[str]:
    """Returns the parts of a sentence for which a passage has others, between the same characters.

    Args:
        sentence: A sentence.
        pairs: Its pairs of characters: where each starts and ends, and its spans in the passage (none if it isn't
            there).
        passage: The passage's text.
    """
    covered = [False] * len(sentence)
    starting: dict[int, Sequence[tuple[int, int]]] = {}
    ending: dict[int, Sequence[tuple[int, int]]] = {}
    for start, end, spans in pairs:
        if spans:
            covered[start:end] = [True] * (end - start)
            starting[start] = ending[end] = spans
    bare = "".join(" " if known else char for char, known in zip(sentence, covered, strict=True))
    found: list[str] = []
    for match in _RUN.finditer(bare):
        left, right = ending.get(match.start(), ()), starting.get(match.end(), ())
        if left and right:
            gaps = [passage[one[1] : other[0]] for one in left for other in right if 0 < other[0] - one[1] <= MAX_GAP]
            replaced = any(_RUN.search(gap) and match.group() not in gap for gap in gaps)
        else:
            # At a clause's start nothing stands before it: what is right before the same characters is another.
            begins = not match.start() or not sentence[match.start() - 1].isalnum()
            preceding = [_BEFORE.search(passage[max(one[0] - MAX_GAP, 0) : one[0]]) for one in right] if begins else []
            replaced = any(before is not None and len(before.group()) > 1 for before in preceding)
        if replaced:
            found.append(match.group())
    return found
