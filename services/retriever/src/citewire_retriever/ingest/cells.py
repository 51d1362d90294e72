"""Names of a sheet's cells, such as `B2` and `B2:D9`."""

import re
from collections.abc import Iterable
from typing import Final

_MOST_LETTERS: Final = 26
_CORNER: Final = re.compile(r"([A-Z]{1,3})(\d{1,7})")


def column_name(number: int) -> str:
    """A column's letters: 1 is A, 27 is AA."""
    letters = ""
    while number:
        number, letter = divmod(number - 1, _MOST_LETTERS)
        letters = chr(ord("A") + letter) + letters
    return letters


def column_number(letters: str) -> int:
    """The column of letters: A is 1, AA is 27."""
    number = 0
    for letter in letters:
        number = number * _MOST_LETTERS + ord(letter) - ord("A") + 1
    return number


def cover(ranges: Iterable[str]) -> str:
    """The smallest range that contains the given ones."""
    corners = [corner for cells in ranges for corner in _CORNER.findall(cells)]
    columns, rows = [column_number(letters) for letters, _ in corners], [int(row) for _, row in corners]
    first, last = (f"{column_name(end(columns))}{end(rows)}" for end in (min, max))
    return first if first == last else f"{first}:{last}"
