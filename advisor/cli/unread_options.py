"""Options that nothing would read: said, not passed over."""

from __future__ import annotations

import click
from click.core import ParameterSource

from profiles.errors import InputError


def refuse_unread(read: bool, when: str, *names: str) -> None:
    """InputError where one of these options of the running command is given and nothing reads it.

    Args:
        read: whether something does.
        when: what it takes for that, such as "with --trial".
        names: of the command's parameters.
    """
    if read:
        return
    context = click.get_current_context()
    for parameter in context.command.get_params(context):
        if parameter.name in names and context.get_parameter_source(parameter.name) is ParameterSource.COMMANDLINE:
            option = max(parameter.opts, key=len)
            raise InputError(f"{option} is read {when} only: leave it out, or run {when}")
