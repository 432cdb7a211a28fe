"""``ascend-sim completion``: completion for bash, zsh and fish, made from the parsers themselves."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator

SHELLS = ("bash", "zsh", "fish")
EPILOG = """install:
  bash:  ascend-sim completion bash > ~/.local/share/bash-completion/completions/ascend-sim
  zsh:   eval "$(ascend-sim completion zsh)"       in ~/.zshrc
  fish:  ascend-sim completion fish > ~/.config/fish/completions/ascend-sim.fish"""

BASH = """_ascend_sim() {{
    local current="${{COMP_WORDS[COMP_CWORD]}}" previous="${{COMP_WORDS[COMP_CWORD-1]}}" words=""
    if (( COMP_CWORD == 1 )); then
        words="{commands}"
    else
        case "${{COMP_WORDS[1]}} $previous" in
{values}
        esac
        if [[ -z $words && $current == -* ]]; then
            case "${{COMP_WORDS[1]}}" in
{options}
            esac
        fi
    fi
    if [[ -n $words ]]; then
        COMPREPLY=( $(compgen -W "$words" -- "$current") )
    else
        COMPREPLY=( $(compgen -f -- "$current") )
    fi
}}
complete -o filenames -F _ascend_sim ascend-sim"""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser(
        "completion", help="shell completion", epilog=EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("shell", choices=SHELLS)
    parser.add_argument("--json", action="store_true", help="commands and options instead of a script")
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    from ascend_sim.cli.main import build_parser

    commands = _commands(build_parser())
    if args.json:
        print(json.dumps({name: dict(_options(p)) for name, (p, _) in commands.items()}, indent=1))
    elif args.shell == "fish":
        print("\n".join(_fish(commands)))
    else:
        head = "autoload -U +X bashcompinit && bashcompinit\n" if args.shell == "zsh" else ""
        print(head + _bash(commands))
    return 0


Commands = dict[str, tuple[argparse.ArgumentParser, str]]


def _commands(parser: argparse.ArgumentParser) -> Commands:
    """Subcommands with their parsers and one line of help."""
    (group,) = [a for a in parser._actions if isinstance(a, argparse._SubParsersAction)]
    helps = {action.dest: action.help or "" for action in group._choices_actions}
    return {name: (sub, helps.get(name, "")) for name, sub in group.choices.items()}


def _options(parser: argparse.ArgumentParser) -> Iterator[tuple[str, list[str]]]:
    """Options and the words they take (none: anything)."""
    for action in parser._actions:
        words = [str(c) for c in action.choices or ()]
        if action.dest == "soc":
            from ascend_sim.soc import soc_names

            words = list(soc_names())
        for name in action.option_strings:
            yield name, words


def _bash(commands: Commands) -> str:
    values, options = [], []
    for name, (parser, _) in commands.items():
        for option, words in _options(parser):
            if words:
                values.append(f'            "{name} {option}") words="{" ".join(words)}" ;;')
        options.append(f'                {name}) words="{" ".join(o for o, _ in _options(parser))}" ;;')
    return BASH.format(commands=" ".join(commands), values="\n".join(values), options="\n".join(options))


def _fish(commands: Commands) -> Iterator[str]:
    for name, (parser, text) in commands.items():
        yield f"complete -c ascend-sim -n __fish_use_subcommand -f -a {name} -d {_quoted(text)}"
        for option, words in _options(parser):
            flag = f"-l {option[2:]}" if option.startswith("--") else f"-{'o' if len(option) > 2 else 's'} {option[1:]}"
            takes = f" -x -a {_quoted(' '.join(words))}" if words else ""
            yield f"complete -c ascend-sim -n '__fish_seen_subcommand_from {name}' {flag}{takes}"


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
