"""What is in deploy/: files that parse, commands that exist, metrics that are served."""

import json
import re
import shlex
from pathlib import Path

import click
import pytest
import yaml

from tacit.cli import main

ROOT = Path(__file__).parent.parent
DEPLOY = ROOT / "deploy"


def test_the_dashboard_shows_metrics_that_are_served():
    """`tests/test_docs.py` compares the page of metrics with what is served."""
    told = set(re.findall(r"^\| `(tacit_\w+)`", (ROOT / "docs/reference/metrics.md").read_text(), re.M))
    dashboard = json.loads((DEPLOY / "grafana.json").read_text())
    shown = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    queries = [str(one["query"]) for one in dashboard["templating"]["list"]]
    used = set(re.findall(r"\btacit_\w+", " ".join(shown + queries)))
    assert len(used) > 15
    assert used <= told
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])
    assert all(re.search(r'session=~"\$session", member=~"\$member"', one) for one in shown)


def commands():
    """Return every command line of tacit in deploy/, as words."""
    for path in (*DEPLOY.glob("systemd/*"), *DEPLOY.glob("compose/*.sh"), *DEPLOY.glob("*.yaml")):
        for line in path.read_text().splitlines():
            before = r"ExecStart=/opt/tacit/bin/|\s*(?:exec )?|#.* exec \S+ (?:-- )?|.*\|\| "
            found = re.match(rf"^(?:{before})(tacit [^>|#]*)", line)
            if found:
                yield path.name, shlex.split(found[1])[1:]


@pytest.mark.parametrize(("where", "words"), [pytest.param(*one, id=" ".join(one[1])) for one in commands()])
def test_every_command_and_option_exists(where, words):
    command = main
    while isinstance(command, click.Group):
        command = command.get_command(click.Context(command), words.pop(0))
        assert command is not None, where
    known = {name for parameter in command.params for name in parameter.opts}
    assert {word for word in words if word.startswith("--")} <= known


def test_there_are_commands_to_look_at():
    assert len(list(commands())) >= 16
    assert {"compose.yaml", "kubernetes.yaml"} <= {where for where, _ in commands()}


def test_the_pods_are_closed():
    parts = list(yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text()))
    pods = [part["spec"]["template"]["spec"] for part in parts if part["kind"] == "StatefulSet"]
    assert len(pods) == 2
    for pod in pods:
        assert pod["securityContext"]["runAsNonRoot"]
        assert pod["securityContext"]["fsGroupChangePolicy"] == "OnRootMismatch"
        (container,) = pod["containers"]
        assert container["securityContext"]["readOnlyRootFilesystem"]
        assert container["livenessProbe"]["httpGet"]["path"] == "/healthz"
