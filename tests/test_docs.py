"""Words are tested: pages show what commands print, tell to run what runs, and name what exists."""

import importlib
import importlib.util
import json
import re
import socket
import sys
import tomllib
from functools import reduce
from pathlib import Path

import pytest
from markdown_it import MarkdownIt
from tests.site_search import find

from tacit.core.protocol.diagrams import TABLES

ROOT = Path(__file__).resolve().parent.parent


def load(path):
    spec = importlib.util.spec_from_file_location(f"docs_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


make = load(ROOT / "docs/make.py")
PAGES = [path.relative_to(ROOT).as_posix() for path in (*make.pages(), ROOT / "CHANGELOG.md")]
RUN = [page for page in PAGES if make.pieces((ROOT / page).read_text())]

SHOWN = {"text", "math"}
"""Nothing to run: words and formulas."""

NO_MAKE = "make() { :; }\n"  # it would run these tests; that its verbs exist is tested below
ON_OTHER_MACHINES = """
tacit() {  # what stays in its terminal stays in the background, until the session is judged
  case $1 in
    coordinate | join | peer) command tacit "$@" & ;;
    verify) wait; command tacit "$@" ;;
    *) command tacit "$@" ;;
  esac
}
"""
A_MEMBER_TO_WATCH = """
tacit keys authority --out authority; mkdir certificates
for name in coordinator alice bob; do
  tacit keys new $name --out $name
  tacit keys sign $name/request.pem --authority authority --listen --out certificates/$name.crt
  tacit keys install certificates/$name.crt --keys $name
done
tacit session new --roster certificates --loss 1 --range 0:1 --anyway
mkfifo said
at=wss://localhost:7447
tacit coordinate session.toml --keys coordinator --listen $at --ledger ledger --status 9464 2> said &
exec 3< said
grep -m 1 '"event": "status"' <&3
tacit() {
  case "$*" in
    *--watch*) timeout --signal INT 2 tacit "$@" || test $? = 124 ;;
    *) command tacit "$@" ;;
  esac
}
"""
A_FLEET = """
tacit() {  # what stays in its terminal stays in the background; agents come when the hub listens
  case "$1 ${2-}" in
    "hub serve" | "agent "*)
      command tacit "$@" &
      until (exec 3<> /dev/tcp/127.0.0.1/7447) 2> /dev/null; do sleep 0.1; done ;;
    *) command tacit "$@" ;;
  esac
}
"""
A_HUB_WITH_SESSIONS = """
tacit hub new hub --address wss://127.0.0.1:7447 > /dev/null
tacit hub serve hub 2> /dev/null &
until (exec 3<> /dev/tcp/127.0.0.1/7447) 2> /dev/null; do sleep 0.1; done
umask 077
for name in alice bob; do
  tacit invite $name --hub hub > $name.invitation
  tacit enroll $name.invitation --range -10:40 --cap 20 > /dev/null
done
sed -i '/^low/i file = "reading.txt"' bob.toml
printf 20 > reading.txt
tacit agent bob.toml 2> /dev/null &
tacit hub run hub --every 500ms --loss 1 --range -10:40 --law one-shot --name load --anyway
"""
AN_INSTALLER = r"""
pip() {  # what installing the page's package leaves behind, in this folder instead of the environment
  mkdir harmonic_noise-1.0.dist-info
  printf 'Metadata-Version: 2.1\nName: harmonic-noise\nVersion: 1.0\n' > harmonic_noise-1.0.dist-info/METADATA
  printf '[tacit.laws]\nharmonic = harmonic_noise:Harmonic\n' > harmonic_noise-1.0.dist-info/entry_points.txt
  export PYTHONPATH="$PWD"
}
"""
SETTINGS = {
    "docs/how-to/extend.md": AN_INSTALLER,
    "docs/how-to/run-a-fleet.md": A_FLEET,
    "docs/how-to/embed.md": A_HUB_WITH_SESSIONS,
    "docs/how-to/run-a-session.md": ON_OTHER_MACHINES,
    "docs/how-to/operate.md": f"{{ {A_MEMBER_TO_WATCH} }} > /dev/null",
}
"""What a page takes for granted, as shell commands."""


@pytest.fixture
def recorded(played, tmp_path):
    """Write the transcripts that pages speak of: a server's and its agents', peers', and folders of them."""
    from tacit.core.protocol.roster import COORDINATOR
    from tacit.live import write_session
    from tacit.live.runtime.transcript import TranscriptWriter

    def write(path, game, by):
        path.parent.mkdir(exist_ok=True)
        with TranscriptWriter(path, game.session, by, durable=False, sign=game.keys[by].sign) as writer:
            writer.take(game.kept[by])

    server, ring = played(), played(edges=((0, 1), (1, 2), (2, 3), (0, 3)))
    write_session(server.session, tmp_path / "session.toml")
    for name in ("transcript", "coordinator", "folder/one"):
        write(tmp_path / f"{name}.jsonl", server, COORDINATOR)
    for i in range(4):
        write(tmp_path / f"agent-{i}.jsonl", server, i)
        write(tmp_path / f"peer-{i}.jsonl", ring, i)


def elsewhere(text):
    """Give a page free ports, loopback addresses, and private values that nothing prints by chance."""
    for port in set(re.findall(r"\b(?:7447|8786|9100|9464)\b", text)):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            text = text.replace(port, str(free.getsockname()[1]))
    text = text.replace("192.0.2.", "127.0.0.")
    return re.sub(r"echo (\d+\.\d+) >", r"echo \g<1>437351948 >", text)


REPEATED = {
    "docs/explanation/audit.md",
    "docs/how-to/embed.md",
    "docs/how-to/extend.md",
    "docs/how-to/read-results.md",
    "docs/how-to/run-a-fleet.md",
    "docs/how-to/run-a-series.md",
    "docs/how-to/run-a-session.md",
    "docs/how-to/use-keepers.md",
    "docs/how-to/operate.md",
}
"""Pages of which tests/simulation, runtime and cli show everything, besides those of tests/examples."""


def slow(page):
    return page in REPEATED or page.startswith("docs/examples/")


@pytest.mark.parametrize("page", [pytest.param(p, marks=[pytest.mark.long] * slow(p)) for p in RUN])
def test_everything_on_a_page_runs(page, tmp_path, request):
    if page == "docs/how-to/verify.md":
        request.getfixturevalue("recorded")
    text = elsewhere(f"{SETTINGS.get(page, '')}\0{(ROOT / page).read_text()}")
    setting, _, text = text.partition("\0")
    played = make.play(text, tmp_path, NO_MAKE + setting)
    for piece in played:
        assert piece.current, f"{page}: {piece.code}\nprinted, exit code {piece.status}:\n{piece.printed}"
        assert "437351948" not in piece.printed


def fences(page):
    """Return the kinds and texts of a page's code blocks, as a Markdown parser sees them."""
    tokens = MarkdownIt("gfm-like", {"linkify": False}).parse((ROOT / page).read_text())
    return [(token.info.strip() if token.type == "fence" else "indented", token.content)
            for token in tokens if token.type in ("fence", "code_block")]  # fmt: skip


@pytest.mark.parametrize("page", PAGES)
def test_a_block_that_writes_a_value_closes_it_to_others(page):
    """Each block is for one person at one machine, who may not have typed the blocks before it."""
    for _, text in fences(page):
        if re.search(r"> *\S*(reading|value)\S*$", text, re.M):
            assert re.search(r"umask 0?77|chmod 600|install -m 600", text), text


@pytest.mark.parametrize("page", PAGES)
def test_every_block_is_run_or_read(page):
    found, run = fences(page), make.pieces((ROOT / page).read_text())
    code = "".join(piece.code for piece in run)
    for kind, text in found:
        if kind == "toml":
            tomllib.loads(text)
        elif kind == "json":
            assert [json.loads(line) for line in text.splitlines()]
        elif kind == "console":
            assert text.startswith("$ ")
        elif kind in ("sh", "python"):
            assert text in code  # seen by the parser and by what runs it
        else:
            assert kind in SHOWN or kind.startswith("{"), f"{page} has a block of unknown kind {kind!r}"


def test_what_pages_make_exists():
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.M))
    named = {
        verb
        for page in PAGES
        for kind, text in fences(page)
        if kind in ("sh", "console", "text")
        for verb in re.findall(r"^(?:\$ )?make ([\w-]+)", text, re.M)
    }
    assert "run" in named
    assert named <= targets


def test_pages_that_show_too_much_or_nothing_are_noticed(tmp_path):
    page = "```console\n$ echo 4 agents\n5 agents\n```\n"
    assert not make.play(page, tmp_path)[0].current
    assert make.play(f"<!-- real noise -->\n\n{page}", tmp_path)[0].current
    assert not make.play("<!-- real noise -->\n```console\n$ echo 4\nagents\n```\n", tmp_path)[0].current
    (broken, after) = make.play("```sh\nfalse\ntrue\n```\n```python\nprint(1)\n```\n", tmp_path)
    assert not broken.current
    assert not after.current
    (program,) = make.play("```python\nimport warnings\nwarnings.warn('x')\n```\n", tmp_path)
    assert not program.current


def test_the_site(tmp_path):
    """Build it once, and look at it in every way: it has every page and name, and loads nothing."""
    site = tmp_path / "html"
    assert make.site(site, plain=True) == 0, "sphinx warns: see above"
    for page in PAGES:
        if page.startswith("docs/"):
            assert (site / page.removeprefix("docs/")).with_suffix(".html").exists(), page
    assert (site / "explanation/protocol.html").read_text().count('<svg class="states"') == len(TABLES)
    assert not list(foreign(site))
    assert not undescribed(site)
    assert not untold(site)
    for query, page in FOUND_FIRST.items():
        found = find(site, query)
        assert found[0] == page, f"searching for {query!r} leads to {found[:3]}"


FOUND_FIRST = {
    "install": "how-to/install",
    "networkx": "reference/api/graph",
    "custom mechanism": "how-to/extend",
}
"""What people search for, and the page that they want first."""


def foreign(site):
    """Yield what a browser would load from elsewhere."""
    tags = re.compile(
        r"""<(?:script|img|iframe|source)\b[^>]*\bsrc=["']?(?:https?:)?//"""
        r"""|<link\b[^>]*href=["']?(?:https?:)?//"""
    )
    styles = re.compile(r"""(?:@import|url\()\s*["']?(?:https?:)?//""")
    for page in site.rglob("*.html"):
        text = page.read_text()
        yield from tags.findall(text)
        for style in re.findall(r"<style\b.*?</style>|\bstyle=\"[^\"]*\"", text, re.DOTALL):
            yield from styles.findall(style)  # elsewhere on a page it is words: code that is shown
    for file in site.rglob("*.css"):
        yield from styles.findall(file.read_text())


@pytest.mark.parametrize(
    "text",
    [
        '<script async src="https://cdn.example/x.js"></script>',
        "<img alt='' src=//cdn.example/x.png>",
        '<link rel="stylesheet" href="https://cdn.example/x.css">',
        "<style>@import 'https://cdn.example/x.css'; </style>",
        "<style>a { background: url(https://cdn.example/x.png) }</style>",
    ],
)
def test_what_would_be_loaded_from_elsewhere_is_noticed(text, tmp_path):
    (tmp_path / "page.html").write_text(text)
    assert list(foreign(tmp_path))
    (tmp_path / "page.html").write_text('<a href="https://example.org">a link is not loaded</a>')
    assert not list(foreign(tmp_path))


def undescribed(site):
    """Return names that a package exports and no page names, or that a page names and does not describe."""
    from sphinx.util.inventory import InventoryFile

    inventory = InventoryFile.loads((site / "objects.inv").read_bytes(), uri="").data
    described = {name for kind, names in inventory.items() if kind.startswith("py:") for name in names}
    described |= {name.rpartition(".")[2] for name in described if name.startswith("tacit.")}
    names = [name for _, names in api_marks() for name in names]
    assert len(names) > 200
    return set(names) - described - {name for name in names if name.rpartition(".")[2] in described}


def untold(site):
    """Return commands and metrics that have no place on their pages."""
    from tacit.cli import VERBS
    from tacit.cli.figure import command as figures
    from tacit.live.status.metrics import GAUGES, counters

    commands = {f"tacit {verb}" for verb in [*VERBS, *(f"figure {name}" for name in figures.commands)]}
    served = {f"tacit_{gauge.name}" for gauges in GAUGES.values() for gauge in gauges}
    served |= {f"tacit_{counted.name}_total" for kind in GAUGES for counted in counters(kind)}
    headings = re.findall(r"<h2>([^<]+)", (site / "reference/cli.html").read_text())
    cells = re.findall(r"<td>.*?(tacit_\w+)", (site / "reference/metrics.html").read_text())
    return (commands - set(headings)) | (served - set(cells))


def api_marks():
    """Return what the pages of the API describe, as packages and names."""
    api = load(ROOT / "docs/_ext/api.py")
    pages = (ROOT / "docs/reference/api").glob("*.md")
    return [mark for page in pages for mark in api.marks(page.read_text())]


def test_every_public_name_has_one_place_in_the_api_reference():
    api = load(ROOT / "docs/_ext/api.py")
    rooms = {room for floor in ("core", "lab") for room in api.public_modules(f"tacit.{floor}")}
    packages = rooms | {"tacit.base.errors", "tacit.base.report", "tacit.live"}
    told = [f"{package}.{name}" for package, names in api_marks() for name in names]
    assert packages <= {package for package, _ in api_marks()}
    assert len(told) == len(set(told))
    first = {id(getattr(importlib.import_module("tacit"), name)) for name in api.exported("tacit")}
    errors = {f"tacit.{name}" for name in api.own("tacit.base.errors")}
    assert {f"tacit.{name}" for name in api.exported("tacit")} <= set(told) | errors
    for package in packages:
        for name in api.exported(package):
            deeper = id(getattr(importlib.import_module(package), name)) not in first
            assert deeper == (f"{package}.{name}" in told), f"{package}.{name}"


FOLDERS = ("tutorial", "how-to", "explanation", "proofs", "examples", "paper", "reference", "notebooks")
STARTS = ("docs/benchmarks.md", *(f"docs/{folder}/" for folder in FOLDERS))
FOR_WHOM = [page for page in PAGES if page.startswith(STARTS)]


@pytest.mark.parametrize("page", FOR_WHOM)
def test_a_page_begins_with_whom_it_is_for(page):
    title, _, first, *_ = (ROOT / page).read_text().splitlines()
    assert title.startswith("# ")
    assert first.startswith("For "), first


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page):
    text = (ROOT / page).read_text()
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", text):
        assert ((ROOT / page).parent / target).exists(), f"{page} links to {target}"


def test_the_session_file_and_the_policy_shown_can_be_read(tmp_path):
    from tacit.live import read_session
    from tacit.live.fleet.policy import read_policy

    policy, session = [text for kind, text in fences("docs/reference/files.md") if kind == "toml"]
    (tmp_path / "session.toml").write_text(session)
    assert read_session(tmp_path / "session.toml").name == "feeder"
    (tmp_path / "policy.toml").write_text(policy)
    assert read_policy(tmp_path / "policy.toml").cap == 20.0


def test_both_citations_say_the_same():
    told, shown = (ROOT / "CITATION.cff").read_text(), (ROOT / "docs/cite.md").read_text()
    for name in ("version", "date-released", "license"):
        (value,) = re.findall(rf"^{name}: (.+)$", told, re.M)
        assert f"= {{{value}}}" in shown, name
    for title in re.findall(r'^ *title: "(.+)"$', told, re.M):
        assert f"{{{title}}}" in shown
    families, given = (re.findall(rf"{name}-names: (.+)$", told, re.M) for name in ("family", "given"))
    assert " and ".join(f"{a}, {b}" for a, b in zip(families, given, strict=True)) in shown


def resolve(name):
    parts = name.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            module = importlib.import_module(".".join(parts[:cut]))
        except ModuleNotFoundError:
            continue
        return reduce(getattr, parts[cut:], module)
    raise AssertionError(f"{name} is no module")


def test_the_map_names_what_exists():
    text = (ROOT / "docs/paper/map.md").read_text()
    names, tests = re.findall(r"`(tacit\.[\w.]+)`", text), re.findall(r"`(tests/[\w/]+\.py)`", text)
    assert len(names) > 20
    for name in names:
        resolve(name)
    for test in tests:
        assert (ROOT / test).exists(), test


def test_the_errata_name_tests_that_exist():
    sources = "\n".join(path.read_text() for path in (ROOT / "tests/paper").glob("*.py"))
    named = re.findall(r"`(test_\w+)`", (ROOT / "docs/paper/errata.md").read_text())
    assert len(named) > 5
    for name in named:
        assert f"def {name}(" in sources, name


def test_every_public_name_is_documented():
    import tacit

    for name in tacit.__all__:
        if name != "__version__":
            assert getattr(tacit, name).__doc__, name


def test_doctests():
    import doctest
    import pkgutil

    import tacit

    failed, attempted = 0, 0
    for info in pkgutil.walk_packages(tacit.__path__, "tacit."):
        if ".cli" in info.name or "__main__" in info.name:
            continue
        if ">>>" not in Path(info.module_finder.find_spec(info.name).origin).read_text():
            continue  # to look for examples takes longer than to run them
        result = doctest.testmod(importlib.import_module(info.name))
        failed, attempted = failed + result.failed, attempted + result.attempted
    assert attempted > 10
    assert failed == 0


@pytest.mark.parametrize(
    ("words", "made"),
    [
        (["--help"], []),
        (["--pictures", "no.svg"], []),
        (["--pages", "no.md"], []),
        (["--reference"], ["refer"]),
        (["--site"], ["site"]),
        (["--pictures", "tail.svg"], ["draw"]),
        (["--pictures"], ["draw", "picture_the_studio"]),
        (["--pages", "README.md"], ["refresh"]),
        ([], ["draw", "picture_the_studio", "refer", "run_notebooks", "refresh", "site"]),
    ],
    ids=" ".join,
)
def test_only_what_is_asked_of_the_docs_is_made(words, made, monkeypatch):
    done = []
    for name in ("draw", "picture_the_studio", "refer", "run_notebooks", "refresh", "site"):
        monkeypatch.setattr(make, name, lambda *_, name=name: done.append(name))
    monkeypatch.setattr(make, "show_output", lambda: [ROOT / "README.md"])
    monkeypatch.chdir(ROOT)
    if made:
        make.main(words)
    else:
        with pytest.raises(SystemExit):
            make.main(words)
    assert done == made
