"""What an agent keeps of its state is written in one file, `tacit.core.motion.mixing`."""

import ast
from pathlib import Path

import pytest
from tests.source import parsed

import tacit

SOURCE = Path(tacit.__file__).parent
HOME = SOURCE / "core" / "motion" / "mixing.py"
NAMES = {"sigma", "mixing", "_sigma", "_mixing", "pull"}


def is_mixing(node):
    """Whether it is σ: a name, an attribute, an entry, or one of these in a call."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name) if name in NAMES:
            return True
        case ast.Attribute(value=inner) | ast.Subscript(value=inner) | ast.UnaryOp(operand=inner):
            return is_mixing(inner)
        case ast.Call(func=func, args=args):
            return any(map(is_mixing, [func, *args]))
    return False


def offences(text):
    """Return lines with 1 − σ, q + σ − 1 or log(1 − σ)."""
    found = []
    for node in ast.walk(parsed(text)):
        match node:
            case ast.BinOp(left=ast.Constant(value=1), op=ast.Sub(), right=what) if is_mixing(what):
                found.append(node.lineno)
            case ast.BinOp(
                left=ast.BinOp(op=ast.Add(), right=what), op=ast.Sub(), right=ast.Constant(value=1)
            ):
                found += [node.lineno] * is_mixing(what)
            case ast.Call(func=ast.Attribute(attr="log1p"), args=[ast.UnaryOp(operand=what)]):
                found += [node.lineno] * is_mixing(what)
    return found


@pytest.mark.parametrize(
    "text",
    [
        "1 - sigma",
        "1.0 - law.sigma",
        "(1 - np.asarray(mechanism.law.sigma)) ** rounds",
        "1 - sigma[0]",
        "1 - mixing(mechanism)",
        "q + sigma - 1",
        "np.log1p(-sigma)",
        "math.log1p(-float(sigma.min()))",
    ],
)
def test_the_search_finds_what_it_is_for(text):
    assert offences(text)


def test_what_an_agent_keeps_is_written_in_one_file():
    found = [
        f"{path.relative_to(SOURCE)}:{line}"
        for path in sorted(SOURCE.rglob("*.py"))
        if path != HOME
        for line in offences(path.read_text(encoding="utf-8"))
    ]
    assert found == []
    assert offences(HOME.read_text(encoding="utf-8"))
