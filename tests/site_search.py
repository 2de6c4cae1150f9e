"""The site's search, as Sphinx's searchtools.js ranks it, without a browser."""

import json
import re
from pathlib import Path

from sphinx.search.en import SearchEnglish

NAME, PART_OF_NAME, TITLE, PART_OF_TITLE, TERM, PART_OF_TERM = 11, 6, 15, 7, 5, 2
"""What a match counts: of an object's name, of a title, of a word in the text."""
PRIORITY = {0: 15, 1: 5, 2: -5}
"""What is added for objects of a priority."""


def find(site: Path, query: str) -> list[str]:
    """Return the pages that the site's search shows for a query, best first."""
    written = (site / "searchindex.js").read_text()
    index = json.loads(written.removeprefix("Search.setIndex(").removesuffix(")"))
    found = [*_titles(index, query.lower()), *_entries(index, query.lower())]
    found += [*_objects(index, query.lower().split()), *_texts(index, query.lower().split())]
    best: dict[str, int] = {}
    for page, score in found:
        best[page] = max(score, best.get(page, score))
    return sorted(
        best, key=lambda page: (-best[page], index["titles"][index["docnames"].index(page)].lower())
    )


def _titles(index, query):
    """Titles and headings that contain the whole query, and are at most twice as long."""
    for title, places in index["alltitles"].items():
        if query in title.lower() and 2 * len(query) >= len(title):
            for page, _ in places:
                boost = index["titles"][page] == title
                yield index["docnames"][page], round(TITLE * len(query) / len(title)) + boost


def _entries(index, query):
    """Entries of the index that contain the whole query; those that are not main ones come last."""
    for entry, places in index["indexentries"].items():
        if query in entry and 2 * len(query) >= len(entry):
            for page, _, main in places:
                yield index["docnames"][page], round(100 * len(query) / len(entry)) if main else -100


def _objects(index, words):
    """Python names that contain one word of the query; the others are in the name, kind or title."""
    for prefix, names in index["objects"].items():
        for page, kind, priority, _, name in names:
            full = f"{prefix}.{name}".strip(".").lower()
            last = full.rpartition(".")[2]
            title = index["titles"][page]
            about = f"{prefix} {name} {index['objnames'][str(kind)][2]} {title}".lower()
            for word in words:
                if word in full and all(other in about for other in words if other != word):
                    score = NAME if word in (full, last) else PART_OF_NAME if word in last else 0
                    yield index["docnames"][page], score + PRIORITY.get(priority, 0)


def _texts(index, words):
    """Pages that have every word of the query in their text or headings."""
    english = SearchEnglish({})
    scores = [_scores(index, english.stem(word)) for word in words if word not in english.stopwords]
    for page in set.intersection(*map(set, scores)):
        yield index["docnames"][page], max(score[page] for score in scores)


def _scores(index, word):
    """Return what a stem counts on each page; parts of words count where no word is the same."""
    found = {}
    kinds = (("terms", TERM, PART_OF_TERM), ("titleterms", TITLE, PART_OF_TITLE))
    exact = [(index[kind].get(word), whole) for kind, whole, _ in kinds]
    partial = [
        (pages, part)
        for kind, _, part in kinds
        if len(word) > 2 and word not in index[kind]
        for term, pages in index[kind].items()
        if re.search(re.escape(word), term)
    ]
    for pages, score in exact + partial:
        for page in [pages] if isinstance(pages, int) else pages or ():
            found[page] = score
    return found
