"""Runs the gateway's commands, each in a separate process forked after the imports.

`python command_server.py`: for each input line of JSON, `[arguments, environment, output file, error file]`, it prints
a line with the exit code. As a program it imports only the command's modules.
"""

import json
import os
import sys
import traceback

from citewire_gateway.commands import main


def _run(arguments: list[str], environ: dict[str, str], output: str, errors: str) -> int:
    """Runs in the new process; returns its exit code."""
    for number, path in ((1, output), (2, errors)):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
    os.environ.clear()
    os.environ.update(environ)
    try:
        main(arguments)
    except SystemExit as exit_:
        if exit_.code is None or isinstance(exit_.code, int):
            return exit_.code or 0
        sys.stderr.write(f"{exit_.code}\n")
        return 1
    except BaseException:  # noqa: BLE001 # as the interpreter would
        traceback.print_exc()
        return 1
    return 0


def serve() -> None:
    """Handles requests until the input ends."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    for line in sys.stdin:
        child = os.fork()
        if not child:
            code = _run(*json.loads(line))
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
        answers.write(f"{os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])}\n")


if __name__ == "__main__":
    serve()
