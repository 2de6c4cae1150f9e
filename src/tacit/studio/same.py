"""The command line and the Python lines that do what the page does."""

from __future__ import annotations

import shlex
from typing import Any

from tacit.studio.form import Wish


def command(wish: Wish) -> str:
    """Return the `tacit design` command that gives the same answer."""
    words = ["tacit", "design"]
    for name, value in wish.asked().items():
        words.append(f"--{name.replace('_', '-')}")
        if value is not True:
            words.append(_text(value))
    return shlex.join(words)


def python(wish: Wish) -> str:
    """Return the Python lines that give the same answer."""
    asked = {name: repr(value) if value is True else _text(value) for name, value in wish.asked().items()}
    lines = ["from tacit.theory.design import design"]
    if wish.graph is not None:
        lines.insert(0, "from tacit import Graph")
        asked["graph"] = f"Graph.from_name({wish.graph!r})"
    arguments = "".join(f"    {name}={value},\n" for name, value in asked.items())
    lines += ["", f"answer = design(\n{arguments})"]
    lines += ["print(answer.mechanism.parameters)", "print(answer.promise.loss, answer.promise.radius)"]
    return "\n".join(lines)


def _text(value: Any) -> str:
    """Write a number so that it reads back as the same one; whole numbers whole."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    return value if isinstance(value, str) else repr(value)
