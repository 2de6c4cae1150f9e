"""What is in deploy/: files that parse, commands that exist, metrics that are served."""

import json
import re
from pathlib import Path

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
