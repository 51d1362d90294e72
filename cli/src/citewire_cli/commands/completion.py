"""`citewire completion`: shell completion scripts.

Typer's own scripts call `citewire` by name; these call it as typed, so that a clone's `.venv/bin/citewire` is completed
as well.
"""

import sys
from typing import Annotated, Literal

import typer
from typer.completion import completion_init  # pyright: ignore[reportPrivateImportUsage] # there is no public way

completion_init()  # what Typer(add_completion=True) does, without its options: their scripts need a place on the PATH

_BASH = """\
_citewire_completion() {
    local IFS=$'\\n'
    COMPREPLY=( $(env COMP_WORDS="${COMP_WORDS[*]}" COMP_CWORD="$COMP_CWORD" _CITEWIRE_COMPLETE=complete_bash "$1") )
}
complete -o default -F _citewire_completion citewire
"""
_ZSH = """\
#compdef citewire
_citewire_completion() {
    eval "$(env _TYPER_COMPLETE_ARGS="${words[1,$CURRENT]}" _CITEWIRE_COMPLETE=complete_zsh "${words[1]}")"
}
(( $+functions[compdef] )) || { autoload -Uz compinit && compinit }
compdef _citewire_completion citewire
"""
_FISH = """\
function __citewire_complete
    set -l typed (commandline -opc)
    env _CITEWIRE_COMPLETE=complete_fish _TYPER_COMPLETE_FISH_ACTION=$argv[1] \\
        _TYPER_COMPLETE_ARGS=(commandline -cp) $typed[1]
end
complete --command citewire --no-files --arguments '(__citewire_complete get-args)' \\
    --condition '__citewire_complete is-args'
"""
_SCRIPTS = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}


def completion(
    shell: Annotated[Literal["bash", "zsh", "fish"], typer.Argument(help="Your shell.", show_default=False)],
) -> None:
    """Print a completion script for your shell.

    bash, in ~/.bashrc: eval "$(citewire completion bash)"

    zsh, in ~/.zshrc: eval "$(citewire completion zsh)"

    fish: citewire completion fish > ~/.config/fish/completions/citewire.fish
    """
    sys.stdout.write(_SCRIPTS[shell])
