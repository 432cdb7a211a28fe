"""How a subcommand reports a user's mistake."""


class CommandError(Exception):
    """Shown as one line on stderr; the command ends with exit code 2."""
