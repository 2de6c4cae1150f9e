"""Results for people, as text, HTML and LaTeX.

Rows are made once, and rendered in each form. Every result makes its own rows (`Shown.summary`), with each
number rounded to the safe side. Programs read the exact numbers from ``as_dict``, printed by `json_text`.
"""

from tacit.base.report.numbers import counted, down, each, near, some_rounds, typed, up
from tacit.base.report.rendering import Shown, dataframe, html, json_text, jsonable, latex, text
from tacit.base.report.rows import Grid, Row, Summary, component_rows, result_row

__all__ = [
    "Grid",
    "Row",
    "Shown",
    "Summary",
    "component_rows",
    "counted",
    "dataframe",
    "down",
    "each",
    "html",
    "json_text",
    "jsonable",
    "latex",
    "near",
    "result_row",
    "some_rounds",
    "text",
    "typed",
    "up",
]
