"""Docstrings name parameters as `name: meaning` lines; this makes the list of them that mkdocstrings shows."""

import re
from textwrap import indent

from griffe import Class, Extension, Function, Object


class Parameters(Extension):
    """Puts `Args:` above the parameters that a docstring describes."""

    def on_function(self, *, func: Function, **_: object) -> None:
        describe(func, {parameter.name for parameter in func.parameters})

    def on_class(self, *, cls: Class, **_: object) -> None:
        describe(cls, {name for name, member in cls.members.items() if member.is_attribute or member.is_function})


def describe(owner: Object, names: set[str]) -> None:
    """Set a paragraph off as a list if each of its lines begins with one of `names`, or goes on with the one above."""
    if owner.docstring is None:
        return
    paragraphs = owner.docstring.value.split("\n\n")
    owner.docstring.value = "\n\n".join(as_arguments(text, names) for text in paragraphs)


def as_arguments(text: str, names: set[str]) -> str:
    """`text` under `Args:`, if it is a list of `names`."""
    described = re.findall(r"^`?(\w+)`?: ", text, flags=re.MULTILINE)
    first_lines = [line for line in text.splitlines() if not line.startswith(" ")]
    if not described or len(described) != len(first_lines) or not set(described) <= names:
        return text
    return "Args:\n" + indent(text, "    ")
