"""Terminal output: text without control characters, JSON for scripts, errors on stderr."""

import asyncio
import functools
import json
import os
import sys
from collections.abc import Callable, Coroutine, Iterable
from typing import ParamSpec

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from citewire_cli.errors import CliError, ExitCode

P = ParamSpec("P")

# Documents are untrusted text: they must not move the cursor, set the title, hide a line, or reorder the text (the last
# two ranges are bidirectional overrides).
_CONTROLS = dict.fromkeys(
    code
    for first, last in ((0x00, 0x1F), (0x7F, 0x9F), (0x202A, 0x202E), (0x2066, 0x2069))
    for code in range(first, last + 1)
    if chr(code) not in "\n\t"
)


def clean(text: str) -> str:
    """`text` without the control characters that a terminal would obey; line feeds and tabs stay."""
    return text.translate(_CONTROLS)


def clean_path(path: object) -> str:
    """A path, whose name may contain line breaks, cleaned and on one line: it must not look like a line of ours."""
    return clean(str(path).replace("\n", "\\n").replace("\t", "\\t"))


def one_line(text: str, limit: int) -> str:
    """`text` cleaned, on one line, at most `limit` characters with an ellipsis."""
    flat = " ".join(clean(text).split())
    return flat if len(flat) <= limit else flat[: limit - 1].rstrip() + "…"


def stdout() -> Console:
    """A console for answers; plain if it isn't a terminal. Without markup, as the output is data."""
    return Console(highlight=False, markup=False, emoji=False, soft_wrap=True)


def stderr() -> Console:
    """A console for progress and errors."""
    return Console(stderr=True, highlight=False, markup=False, emoji=False, soft_wrap=True)


def print_json(value: object) -> None:
    """One JSON value on one line of stdout; bytes of file names that aren't UTF-8 are escaped as lone surrogates."""
    text = json.dumps(value, ensure_ascii=False)
    sys.stdout.write(text.encode(errors="backslashreplace").decode() + "\n")
    sys.stdout.flush()


def print_table(columns: Iterable[str], rows: Iterable[Iterable[str]]) -> None:
    """A table without borders on stdout; in a pipe at full width, so that no line is wrapped or cut."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*(Text(clean(cell)) for cell in row))
    console = Console(highlight=False, markup=False, emoji=False)
    if not console.is_terminal:
        console.width = 1000
    console.print(table)


def print_error(error: CliError, *, as_json: bool) -> None:
    """An error on stderr: title, detail, refused fields, and the request's id for the gateway's logs."""
    if as_json:
        sys.stderr.write(json.dumps(error.as_json(), ensure_ascii=False) + "\n")
        return
    console = stderr()
    console.print(Text.assemble((clean(error.title), "bold red")))
    if error.detail:
        console.print(clean(error.detail))
    for refused in error.errors:
        console.print(f"  {clean(refused.field)}: {clean(refused.message)}")
    if error.retry_after is not None:
        console.print(f"Try again in {error.retry_after:g} s.")
    if error.request_id:
        console.print(Text(f"Request {clean(error.request_id)}", style="dim"))


def async_command(work: Callable[P, Coroutine[object, object, ExitCode]]) -> Callable[P, None]:
    """Turns a coroutine function into a command: the one place where errors become exit codes.

    Ctrl-C cancels the work (requests are closed, so the gateway stops too) and exits with 130. The function's argument
    `json` decides how errors are printed.
    """

    @functools.wraps(work)
    def command(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            code = asyncio.run(work(*args, **kwargs))
        except CliError as error:
            print_error(error, as_json=kwargs.get("json") is True)
            code = error.code
        except KeyboardInterrupt:
            stderr().print("Interrupted.")
            code = ExitCode.INTERRUPTED
        except BrokenPipeError:
            # The reader of our output has gone (`| head`): nobody to report to, and exiting must not fail again.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            code = ExitCode.OK
        raise typer.Exit(int(code))

    return command


def checked_text(value: str, what: str) -> str:
    """`value` if it can be sent; raises CliError (usage) for bytes that aren't UTF-8."""
    try:
        value.encode()
    except UnicodeEncodeError:
        raise CliError(f"{what} is not valid UTF-8", "", ExitCode.USAGE) from None
    return value
