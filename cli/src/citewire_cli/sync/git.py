"""A Git repository as a source: one commit without its history, by the `git` program."""

import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit, urlunsplit

from citewire_cli.errors import CliError, ExitCode
from citewire_cli.sync.mirror import Mirror, split_fragment, without_credentials

SCHEMES: Final = ("git+https", "git+http", "git+ssh", "git+file")
GIT_SECONDS: Final = 3600.0
"""Longest run of one `git` command."""
_LOOK_SECONDS: Final = 0.25
_SAFE: Final = {
    "core.hooksPath": "/dev/null",
    "core.symlinks": "false",  # a link would be followed out of the repository
    "core.fsmonitor": "false",
    "protocol.allow": "never",
    **{f"protocol.{name}.allow": "always" for name in ("https", "http", "ssh", "file")},
    "http.lowSpeedLimit": "1000",  # bytes a second; slower for so long is a server that has gone
    "http.lowSpeedTime": "60",
    # Git LFS finds its server by a remote, and the mirror has none: pointers stay pointers, and are left out.
    **{f"filter.lfs.{name}": value for name, value in {"smudge": "", "process": "", "required": "false"}.items()},
}
_OTHERS_REPOSITORY: Final = frozenset(
    [
        "GIT_ALTERNATE_OBJECT_DIRECTORIES",
        "GIT_COMMON_DIR",
        "GIT_DIR",
        "GIT_IMPLICIT_WORK_TREE",
        "GIT_INDEX_FILE",
        "GIT_NAMESPACE",
        "GIT_OBJECT_DIRECTORY",
        "GIT_PREFIX",
        "GIT_QUARANTINE_PATH",
        "GIT_SHALLOW_FILE",
        "GIT_WORK_TREE",
    ]
)
"""Set where git itself runs us, as in a hook: they name another repository, whose files ours would replace."""


class GitRepository(Mirror):
    """See the module."""

    def __init__(self, source: str, cache: Path, *, url_prefix: str = "") -> None:
        """Fetches nothing yet.

        Args:
            source: `git+https://host/repository.git@ref#folder`; without a ref the remote's HEAD, without a folder all.
            cache: as of `Mirror`.
            url_prefix: as of `Folder`.

        Raises:
            CliError: as `Mirror`, or the source isn't of this form (usage).
        """
        address, folder = split_fragment(source.removeprefix("git+"))
        parts = urlsplit(address)
        path, at, ref = parts.path.rpartition("@")
        path, self._ref = (path, ref) if at else (ref, "HEAD")
        self._address = urlunsplit(parts._replace(path=path))
        inside = Path(folder.strip("/"))
        wrong = not path.strip("/") or not self._ref or self._ref.startswith("-")
        if wrong or inside.is_absolute() or ".." in inside.parts:
            form = "Write it as git+https://HOST/REPOSITORY@REF#FOLDER."
            raise CliError("This is not a Git source", form, ExitCode.USAGE)
        super().__init__("git", source, cache, inside=inside.as_posix(), url_prefix=url_prefix)

    def refresh(self) -> dict[str, CliError]:
        """See `Mirror.refresh`: all of a commit is there, or nothing is done."""
        # Of a run that was killed: this one has the mirror for itself.
        for lock in (self.mirrored / ".git").glob("*.lock"):
            lock.unlink(missing_ok=True)
        if not (self.mirrored / ".git" / "HEAD").exists():
            self._git("init", "--quiet")
        self._git("fetch", "--quiet", "--depth=1", "--no-tags", "--force", "--", self._address, self._ref)
        self._git("checkout", "--quiet", "--force", "--detach", "FETCH_HEAD")
        self._git("clean", "--quiet", "-ffdx")
        if not self.root.is_dir():
            raise CliError("The repository has no such folder", self.root.name, ExitCode.USAGE)
        return {}

    def _git(self, *arguments: str) -> None:
        options = [part for name, value in _SAFE.items() for part in ("-c", f"{name}={value}")]
        command = ["git", "-C", str(self.mirrored), *options, *arguments]
        environment = {name: value for name, value in os.environ.items() if name not in _OTHERS_REPOSITORY}
        try:
            # A session of its own has no terminal that git could ask for a password.
            process = subprocess.Popen(  # noqa: S603 # a fixed program; the address and the ref are arguments after `--`
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                start_new_session=True,
                env=environment,
            )
        except FileNotFoundError as error:
            raise CliError("git isn't installed", "Install it.", ExitCode.USAGE) from error
        with process:
            log = self._await(process)
        if process.returncode != 0:
            text = without_credentials(log.decode(errors="replace"))
            raise CliError(f"git {arguments[0]} failed", _reason_in(text))

    def _await(self, process: "subprocess.Popen[bytes]") -> bytes:
        """What git says, once it has ended; it is ended if it takes too long, or isn't wanted any more."""
        until = time.monotonic() + GIT_SECONDS
        while True:
            try:
                return process.communicate(timeout=_LOOK_SECONDS)[1]
            except subprocess.TimeoutExpired:
                if not self.stopped and time.monotonic() < until:
                    continue
                os.killpg(process.pid, signal.SIGTERM)  # with what it has started, such as ssh
                self.check_stopped()
                raise CliError("Fetching the repository took too long", without_credentials(self._address)) from None


def _reason_in(log: str) -> str:
    """What git and ssh say, without the general advice that follows it."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    end = next((number for number, line in enumerate(lines, 1) if line.startswith("fatal:")), len(lines))
    return " ".join(lines[max(0, end - 3) : end])
