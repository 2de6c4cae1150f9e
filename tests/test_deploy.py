"""What is in deploy/: files that parse, commands that exist, metrics that are served."""

import asyncio
import json
import re
import shlex
import subprocess
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

import click
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families
from tests.doubles import known_session
from tests.runtime.fleets import Fleet, finished, following

from tacit.cli import main
from tacit.core.protocol.roster import COORDINATOR, Member
from tacit.core.protocol.standing import Standing
from tacit.live.fleet.fleet_status import AgentPages, HubPages
from tacit.live.identity.identity import provision
from tacit.live.runtime.agent import Agent
from tacit.live.runtime.coordinator import Coordinator
from tacit.live.status.status import Status
from tacit.live.transport.memory import MemoryNetwork

ROOT = Path(__file__).parent.parent
DEPLOY = ROOT / "deploy"


DASHBOARD = json.loads((DEPLOY / "grafana.json").read_text())
ADDED_BY_PROMETHEUS = {"instance", "job"}


def queries():
    """Return every query of the dashboard, with the labels that it and its legend name."""
    for panel in DASHBOARD["panels"]:
        for target in panel.get("targets", ()):
            yield target["expr"], set(re.findall(r"{{(\w+)}}", target["legendFormat"]))
    for one in DASHBOARD["templating"]["list"]:
        if one["type"] == "query":
            yield one["query"]["query"], set(re.findall(r", (\w+)\)$", one["query"]["query"]))


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """Return the labels of each metric that a running hub, agent, keeper and coordinator export."""

    async def fleet_metrics(folder):
        fleet = Fleet(folder)
        async with fleet.serving() as hub:
            for name in ("alice", "bob", "mute", "north", "south"):
                await fleet.enrol(name)
            for name in ("alice", "bob"):
                fleet.policy(name, trust=("north",), windows=[{"time": "1d", "cap": 50.0}])
            fleet.policy("mute", cap=0.1, trust=("north",))
            for name in ("north", "south"):
                fleet.policy(name, role="keeper")
            async with following(fleet, "alice", "bob", "mute", "north", "south") as members:
                await fleet.run(least=2, keepers=("north", "south"), anyway=True)
                await fleet.until(lambda: finished(members[0]))
                series = Standing(name="load", series=True, phase="running", feedback=[4.5], deviation=0.1)
                hub.standings = lambda: {"1": series}  # none runs here
                return [HubPages(hub).metrics(), *(AgentPages(member).metrics() for member in members)]

    async def session_metrics(folder):
        """A coordinator and an agent of one session, as `tacit coordinate` and `tacit join` run them."""
        names = ("coordinator", "a", "b")
        keys = provision(folder, names, listening=["coordinator"])
        roster = tuple(Member(name, keys[name].public_key) for name in names[1:])
        session = replace(known_session(agents=2), roster=roster, coordinator=keys["coordinator"].public_key)
        network, watched = MemoryNetwork(session), {}
        async with AsyncExitStack() as stack:
            members = []
            for who, name in enumerate(names, start=COORDINATOR):
                status = watched[name] = Status(session, who)
                about = {
                    "ledger": folder / f"{name}.ledger",
                    "identity": keys[name],
                    "transport": network.transport(who),
                    "watch": status.notice,
                    "takers": [status],
                }
                made = (
                    Coordinator(session, **about) if who == COORDINATOR
                    else Agent(session, 1.0, cap=100.0, **about)
                )  # fmt: skip
                members.append(await stack.enter_async_context(made))
                expires = keys[name].expires
                status.watch_network(
                    lambda made=made, at=expires: replace(made.network(), expires=at, heard=1.0)
                )
            await asyncio.gather(*(member.result() for member in members))
            return [status.metrics() for status in watched.values()]

    async def both():
        fleet, one = (tmp_path_factory.mktemp(name) for name in ("fleet", "session"))
        return await asyncio.gather(fleet_metrics(fleet), session_metrics(one))

    labels = {}
    for page in (page for pages in asyncio.run(both()) for page in pages):
        for family in text_string_to_metric_families(page.decode()):
            for sample in family.samples:
                labels.setdefault(sample.name, set()).update(sample.labels)
    return labels


def test_the_dashboard_asks_for_metrics_that_are_exported(exported):
    asked = set()
    for query, legend in queries():
        names = set(re.findall(r"\btacit_\w+", query))
        assert names, query
        assert names <= set(exported), query
        known = set().union(*(exported[name] for name in names)) | ADDED_BY_PROMETHEUS
        by = {
            word for found in re.findall(r"(?:by|ignoring) \(([^)]*)\)", query) for word in found.split(", ")
        }
        compared = set(re.findall(r"[{ ,](\w+)=~?\"", query))
        assert legend | by | compared <= known, query
        asked |= names
    hub = {name for name in exported if name.startswith(("tacit_hub_", "tacit_agent_"))}
    assert hub <= asked  # what a hub and its members export is all shown


def test_alerts_are_about_metrics_that_are_exported(exported):
    [group] = yaml.safe_load((DEPLOY / "alerts.yaml").read_text())["groups"]
    names = [rule["alert"] for rule in group["rules"]]
    assert len(set(names)) == len(names) > 10
    for rule in group["rules"]:
        assert rule["annotations"]["summary"]
        if (pattern := re.search(r'__name__=~"(.*?)"', rule["expr"])) is not None:
            assert any(re.fullmatch(pattern[1], name) for name in exported), rule["expr"]
            continue
        asked = set(re.findall(r"\btacit_\w+", rule["expr"]))
        assert asked or rule["expr"].startswith("up{"), rule["expr"]
        assert asked <= set(exported), rule["expr"]
        labels = set(re.findall(r"[{ ,](\w+)=~?\"", rule["expr"]))
        assert labels <= set().union(ADDED_BY_PROMETHEUS, *(exported[name] for name in asked)), rule["expr"]


def test_the_dashboard_chooses_by_variables_that_it_has():
    variables = {one["name"] for one in DASHBOARD["templating"]["list"]} | {"__rate_interval"}
    for query, _ in queries():
        assert set(re.findall(r"\$(\w+)", query)) <= variables
    panels = DASHBOARD["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    places = [(p["gridPos"]["y"], p["gridPos"]["x"]) for p in panels]
    assert places == sorted(set(places))


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
    command, words = main, list(words)
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
        assert "/healthz" in json.dumps(container["livenessProbe"])
        assert "/readyz" in json.dumps(container["readinessProbe"])


def test_no_network_can_read_the_loss_of_an_agent():
    """The status of an agent shows its cap and its loss; that of a hub only what is public."""
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    members = [one["environment"] for name, one in compose["services"].items() if name != "hub"]
    assert len(members) == 7
    assert {one["TACIT_STATUS"] for one in members} == {"127.0.0.1:9464"}
    for path, words in commands():
        if words[0] == "agent":
            (where,) = [words[i + 1] for i, word in enumerate(words) if word == "--status"] or ["9464"]
            assert where in ("9464", "$TACIT_STATUS"), path


def test_the_image_is_built_with_a_pinned_backend():
    lines = (DEPLOY / "Dockerfile").read_text().splitlines()
    installs = [line for line in lines if re.match(r"RUN .*pip .*\b(install|wheel)\b", line)]
    assert len(installs) == 3
    for line in installs:
        assert "--constraint constraints.txt" in line or "--no-deps --no-build-isolation" in line, line
    assert not any(line.endswith(" .") and "--no-build-isolation" not in line for line in installs)
    assert re.search(r"^hatchling==", (ROOT / "constraints.txt").read_text(), re.MULTILINE)


@pytest.mark.parametrize("script", sorted(DEPLOY.rglob("*.sh")), ids=lambda path: path.name)
def test_a_script_can_be_read_by_a_plain_shell(script):
    subprocess.run(["sh", "-n", str(script)], check=True)
