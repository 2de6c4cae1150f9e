"""Nothing outside `tacit.core.law` tests which law it has."""

import re
from pathlib import Path

import pytest

import tacit
from tacit.core.law import names

SOURCE = Path(tacit.__file__).parent
CLASSES = "Fading|OneShot|Constant"
NAMES = "|".join(map(re.escape, ("fading", "one-shot", "constant")))
QUOTED = rf"[\"\']({NAMES})[\"\']"
FORBIDDEN = {
    "a test of a law's class": rf"isinstance\([^()]*(\([^()]*\)[^()]*)*\b({CLASSES})\b",
    "a comparison with a law's class": rf"\b(is|is not|==|!=) ({CLASSES})\b",
    "a comparison with a law's name": rf"(==|!=)\s*{QUOTED}|{QUOTED}\s*(==|!=|(not )?in\b)",
    "a guess at a law's parameters": r"getattr\([^)]*[\"\'][cq][\"\']|vars\([^)]*(law|parameters)\)",
}


def offences(text):
    return [what for what, pattern in FORBIDDEN.items() if re.search(pattern, text)]


@pytest.mark.parametrize(
    "text",
    [
        "if isinstance(mechanism.law, Fading):",
        "if isinstance(f(x), OneShot | Constant):",
        "if type(law) is OneShot:",
        'if kind == "one-shot":',
        "if 'fading' in kinds:",
        'q = getattr(parameters, "q", 1.0)',
        "own = vars(parameters)",
    ],
)
def test_the_search_finds_what_it_is_for(text):
    assert offences(text)


def test_no_module_outside_law_tests_for_a_law():
    found = []
    for path in SOURCE.rglob("*.py"):
        if path.parent == SOURCE / "core" / "law":
            continue
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            found += [f"{path.relative_to(SOURCE)}:{number}: {what}" for what in offences(line)]
    assert not found, "\n".join(found)


def test_the_laws_of_this_package_are_known_by_name():
    assert names()[:3] == ("fading", "one-shot", "constant")
