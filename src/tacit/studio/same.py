"""The command and the Python lines that give the same answer."""

from __future__ import annotations

import shlex

from tacit.core.theory.plan import Plan
from tacit.studio.words import typed


def command(question: Plan) -> str:
    """Return the `tacit design` command that gives the same answer."""
    words, said = ["tacit", "design"], question.given()
    low, high = said.pop("low", None), said.pop("high", None)
    for name, value in said.items():
        words.append("--ask" if name == "question" else f"--{name.replace('_', '-')}")
        if value is not True:
            words.append(typed(value))
    if low is not None and high is not None:
        words += ["--range", f"{typed(low)}:{typed(high)}"]
    return shlex.join(words)


def python(question: Plan) -> str:
    """Return the Python lines that give the same answer."""
    asked = {name: repr(value) if value is True else typed(value) for name, value in question.given().items()}
    lines = ["from tacit import design"]
    if question.graph is not None:
        asked["graph"] = repr(question.graph)
    if question.question is not None:
        asked["question"] = repr(typed(question.question))
    arguments = "".join(f"    {name}={value},\n" for name, value in asked.items())
    lines += ["", f"answer = design(\n{arguments})"]
    lines.append("print(answer.mechanism.law)")
    radius = "radius" if question.question is None else "answer"
    lines.append(f"print(answer.promise.loss, answer.promise.{radius})")
    return "\n".join(lines)
