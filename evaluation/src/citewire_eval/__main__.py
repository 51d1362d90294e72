"""`python -m citewire_eval`: the same as `citewire eval`."""

import typer

from citewire_eval.command import eval_command

if __name__ == "__main__":
    typer.run(eval_command)
