"""Entry point of the `citewire` command."""

from citewire_cli.app import app


def main() -> None:
    """Runs the command; exits with one of `citewire_cli.errors.ExitCode`."""
    app()


if __name__ == "__main__":
    main()
