"""What is installed is what is needed: the wheel in an environment that has the base packages and no more.

The quick version makes an empty environment and copies the installed base packages into its sight by name: a
package that is not among the wheel's own requirements cannot be imported there. The long one installs from
the package index.
"""

import importlib.metadata
import os
import re
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parent.parent


def called(*words, code=0, **more):
    """Run a command to its end; return what it printed."""
    clean = {
        name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))
    }
    done = subprocess.run(
        [str(word) for word in words], capture_output=True, text=True, check=False, env=clean, **more
    )
    assert done.returncode == code, (words, done.stdout[-2000:], done.stderr[-2000:])
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Build the wheel from a copy of what it is made of."""
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    source.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md"):
        if (ROOT / name).exists():
            (source / name).write_bytes((ROOT / name).read_bytes())
    subprocess.run(["cp", "-r", ROOT / "src", source / "src"], check=True)
    for stale in [*source.rglob("__pycache__"), *source.rglob("*.egg-info")]:
        subprocess.run(["rm", "-r", stale], check=True)
    called(
        sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "-q", "-w", folder, source
    )
    (made,) = folder.glob("*.whl")
    return made


def requirements(wheel):
    """Return the wheel's requirements: of the base, and the names of its extras."""
    with zipfile.ZipFile(wheel) as file:
        (name,) = [name for name in file.namelist() if name.endswith("METADATA")]
        text = file.read(name).decode()
    required = re.findall(r"^Requires-Dist: (.*)$", text, re.M)
    return [one for one in required if "extra ==" not in one], set(
        re.findall(r"^Provides-Extra: (.*)$", text, re.M)
    )


def with_all_below(names):
    """Return installed packages by name, with all that they need themselves."""
    found, todo = set(), [re.match(r"[\w.-]+", name)[0] for name in names]
    while todo:
        name = todo.pop().lower().replace("_", "-")
        if name not in found:
            found.add(name)
            needed = map(Requirement, importlib.metadata.requires(name) or ())
            todo += [one.name for one in needed if one.marker is None or one.marker.evaluate({"extra": ""})]
    return found


def installed_there(environment, wheel, packages):
    """Put the wheel and links to installed packages into an empty environment."""
    (site,) = environment.glob("lib/python*/site-packages")
    with zipfile.ZipFile(wheel) as file:
        file.extractall(site)
    for name in packages:
        files = importlib.metadata.distribution(name).files
        tops = {file.parts[0] for file in files if file.parts[0] not in ("..", "__pycache__")}
        base = Path(importlib.metadata.distribution(name).locate_file(""))
        for top in tops:
            if not (site / top).exists():
                (site / top).symlink_to(base / top)


@pytest.fixture(scope="module")
def python(wheel, tmp_path_factory):
    """Return the interpreter of an environment with the base install."""
    environment = tmp_path_factory.mktemp("environment") / "venv"
    venv.create(environment, with_pip=False, symlinks=True)
    base, _ = requirements(wheel)
    installed_there(environment, wheel, with_all_below(base))
    return environment / "bin" / "python"


def what_members_need(python, folder):
    """Run what an agent, a keeper and a hub need, as commands of that environment."""
    tacit = [python, "-m", "tacit"]
    assert "Usage: " in called(*tacit, "--help", cwd=folder)
    assert "INVITATION" in called(*tacit, "enroll", "--help", cwd=folder)
    assert "authority" in called(
        *tacit, "hub", "new", "hub", "--address", "wss://hub.example.org:7447", cwd=folder
    )
    assert "tacit-invitation-1-" in called(*tacit, "invite", "alice", "--hub", "hub", cwd=folder)
    imports = "import tacit.live.fleet.follower, tacit.live.fleet.hub, tacit.live.runtime.keeper"
    draw = "from tacit.core.noise.safe import SafeNoise; print(len(SafeNoise().draw(100.0, 16)))"
    assert called(python, "-c", f"{imports}; {draw}", cwd=folder) == "16\n"
    said = called(*tacit, "figure", "radius", code=2, cwd=folder)
    assert said.count("\n") == 1
    assert "'.[plots]'" in said


def test_the_base_install_has_what_members_need(python, tmp_path):
    names = ["scipy", "networkx", "numba", "xarray", "matplotlib", "nicegui"]
    find = f"from importlib.util import find_spec; print([n for n in {names} if find_spec(n)])"
    assert called(python, "-c", find) == "[]\n"  # else this test would show nothing
    where = called(python, "-c", "import tacit; print(tacit.__file__)", cwd=tmp_path)
    assert str(ROOT) not in where
    what_members_need(python, tmp_path)


def test_the_first_command_of_the_readme_runs_where_its_extra_is_installed(
    wheel, tmp_path_factory, monkeypatch
):
    """In an empty environment with the base and what `design` needs, it prints what the README shows."""
    monkeypatch.setenv("COLUMNS", "110")  # as wide as the README's console
    environment = tmp_path_factory.mktemp("designing") / "venv"
    venv.create(environment, with_pip=False, symlinks=True)
    with zipfile.ZipFile(wheel) as file:
        (name,) = [name for name in file.namelist() if name.endswith("METADATA")]
        required = re.findall(
            r"^Requires-Dist: ([^;\n]*)(?:;.*extra == .(\w+).)?", file.read(name).decode(), re.M
        )
    needed = [one for one, extra in required if extra in ("", "theory")]
    installed_there(environment, wheel, with_all_below(needed))
    shown = re.search(
        r"^```console\n\$ tacit (.*?) \| .*?\n(.*?)```", (ROOT / "README.md").read_text(), re.M | re.S
    )
    said = called(environment / "bin" / "python", "-m", "tacit", *shown[1].split(), cwd=environment)
    assert shown[2] in said


def test_the_wheel_says_what_it_is(wheel):
    base, extras = requirements(wheel)
    assert {"theory", "simulation", "plots", "cluster", "studio", "all"} <= extras
    assert not any(re.match("scipy|numba|matplotlib|xarray|networkx|nicegui", one) for one in base)
    with zipfile.ZipFile(wheel) as file:
        names = file.namelist()
        (points,) = [name for name in names if name.endswith("entry_points.txt")]
        assert "tacit" in file.read(points).decode()
    assert "tacit/py.typed" in names
    assert not any(name.startswith(("tests/", "docs/", "benchmarks/")) for name in names)


@pytest.mark.long
def test_installed_from_the_index(tmp_path):
    """Build wheel and sdist, install them into empty environments, the base and everything."""
    made = tmp_path / "made"
    called(sys.executable, "-m", "pip", "install", "-q", "build")
    called(sys.executable, "-m", "build", "-q", "--outdir", made, ROOT)
    (wheel,), (sdist,) = made.glob("*.whl"), made.glob("*.tar.gz")
    with tarfile.open(sdist) as file:
        assert any(name.endswith("pyproject.toml") for name in file.getnames())
    for what, source in (("", wheel), ("", sdist), ("[all]", wheel)):
        environment = tmp_path / f"venv-{source.suffix[1:]}-{len(what)}"
        venv.create(environment, with_pip=True)
        python = environment / "bin" / "python"
        called(python, "-m", "pip", "install", "-q", "-c", ROOT / "constraints.txt", f"{source}{what}")
        folder = tmp_path / f"work-{source.suffix[1:]}-{len(what)}"
        folder.mkdir()
        if what:
            law = ["--mixing", "0.8", "--noise", "10", "--decay", "0.6"]
            called(environment / "bin" / "tacit", "simulate", "--agents", "5", *law, cwd=folder)
        else:
            assert "Usage: " in called(environment / "bin" / "tacit", "--help")
            what_members_need(python, folder)
