"""Error messages and exit codes."""

import enum
from dataclasses import dataclass, field


class ExitCode(enum.IntEnum):
    """Exit codes of every `citewire` command; the same table is printed by `citewire --help`."""

    OK = 0
    FAILED = 1
    USAGE = 2
    UNREACHABLE = 3
    UNAUTHORISED = 4
    NOT_FOUND = 5
    INTERRUPTED = 130


EXIT_CODE_HELP = (
    "Exit codes: 0 done; 1 the answer, the upload or the stack failed; 2 wrong usage or input; "
    "3 the gateway cannot be reached or is overloaded; 4 not authorised; 5 not found, or the documents hold no answer; "
    "130 interrupted."
)


@dataclass(frozen=True, slots=True)
class FieldError:
    """One field that the gateway refused: its name and what is wrong with it."""

    field: str
    message: str


@dataclass(eq=False)
class CliError(Exception):
    """An error that the person at the terminal can act on: shown as text (or JSON), never as a traceback."""

    title: str
    """The failure, on one line."""
    detail: str = ""
    """Why it failed and what to do, in one or two sentences; may be empty."""
    code: ExitCode = ExitCode.FAILED
    """The process's exit code."""
    errors: tuple[FieldError, ...] = ()
    """Fields refused by the gateway."""
    reason: str = ""
    """The gateway's documented reason (`problem+json`), empty if the error was made here."""
    request_id: str = ""
    """The gateway's id of the failed request, for its logs; may be empty."""
    status: int = 0
    """HTTP status, 0 if there was no response."""
    retry_after: float | None = field(default=None)
    """Seconds to wait before another try makes sense, None if unknown."""

    def __str__(self) -> str:
        """Title and detail on one line."""
        return f"{self.title}: {self.detail}" if self.detail else self.title

    def as_json(self) -> dict[str, object]:
        """The error as `--json` prints it, on stderr."""
        body: dict[str, object] = {"title": self.title, "detail": self.detail, "exit_code": int(self.code)}
        if self.errors:
            body["errors"] = [{"field": e.field, "message": e.message} for e in self.errors]
        if self.reason:
            body["reason"] = self.reason
        if self.request_id:
            body["request_id"] = self.request_id
        if self.status:
            body["status"] = self.status
        if self.retry_after is not None:
            body["retry_after"] = self.retry_after
        return {"error": body}
