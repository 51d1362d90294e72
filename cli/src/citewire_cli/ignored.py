"""`.citewireignore`: files that a folder keeps out of the library, in the syntax of `.gitignore`."""

from pathlib import Path

from pathspec import GitIgnoreSpec

from citewire_cli.errors import CliError, ExitCode

IGNORE_FILE = ".citewireignore"


class IgnoreRules:
    """The rules of a folder and its parents; a folder's own rules take precedence."""

    def __init__(self, folder: Path, above: "IgnoreRules | None" = None) -> None:
        """Reads the folder's own rules, if it has any.

        Args:
            folder: where the rules apply; patterns are relative to it.
            above: the rules of the folder above.

        Raises:
            CliError: they can't be read, or one of them isn't a pattern (usage).
        """
        self._folder = folder
        self._above = above
        self._spec = _read(folder / IGNORE_FILE)

    def ignores(self, path: Path, *, is_folder: bool) -> bool:
        """Whether a path below the folder is kept out. It isn't called for content of ignored folders."""
        rules: IgnoreRules | None = self
        while rules is not None:
            if rules._spec is not None:
                name = path.relative_to(rules._folder).as_posix()
                decision = rules._spec.check_file(f"{name}/" if is_folder else name).include
                if decision is not None:
                    return decision
            rules = rules._above
        return False


def _read(file: Path) -> GitIgnoreSpec | None:
    try:
        return GitIgnoreSpec.from_lines(file.read_text(encoding="utf-8-sig").splitlines())
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "a line of it isn't a pattern, or it isn't UTF-8"
        raise CliError(f"{IGNORE_FILE} cannot be read", f"{file}: {why}", ExitCode.USAGE) from None
