"""Python source as a tree, for tests that read the code."""

import ast


def parsed(text):
    """Parse Python; again if another thread, or what garbage collection runs, parsed meanwhile.

    Until 3.11.8, CPython counts the depth of all trees under way in one place, and raises `SystemError` if
    another one changed it (its issue 106905). Printing a traceback parses, too.
    """
    for _ in range(9):
        try:
            return ast.parse(text)
        except SystemError:
            continue
    return ast.parse(text)
