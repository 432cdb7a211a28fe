"""Options as msprof takes them: ``--name=value`` before the program."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ascend_sim.cli.errors import CommandError

JSON = "json"  # the one option without a value; no option of msprof itself


def split(
    arguments: list[str], defaults: Mapping[str, str], expected: Callable[[str, str], str] = lambda name, value: ""
) -> tuple[dict[str, str], list[str]]:
    """Options (with `JSON` ``on`` or ``off``) and what follows them: the program and its arguments.

    ``expected`` says what an option's value should have been, "" when it is right. Raises `CommandError`.
    """
    options = {JSON: "off"} | dict(defaults)
    for at, word in enumerate(arguments):
        if not word.startswith("--"):
            return options, arguments[at:]
        name, eq, value = word[2:].partition("=")
        if word == f"--{JSON}":
            options[JSON] = "on"
            continue
        if name not in defaults:
            raise CommandError(f"{word}: no such option; expected one of " + ", ".join(f"--{n}=" for n in defaults))
        if not eq:
            raise CommandError(f"{word}: expected --{name}=VALUE")
        if wanted := expected(name, value):
            raise CommandError(f"{word}: expected {wanted}")
        options[name] = value
    return options, []
