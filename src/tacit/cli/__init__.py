"""The command line: one file per verb, loaded when it is called.

A user's mistake ends in one sentence, never in a traceback.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click

from tacit import __version__
from tacit.cli import failures
from tacit.cli.late import LateGroup

__all__ = ["VERBS", "main"]

VERBS = {
    "analyze": "What given parameters promise: privacy, accuracy, agreement.",
    "design": "Find parameters for a promise; compare with one-shot noise.",
    "simulate": "Run the mechanism many times and compare with the promise.",
    "compare": "Compare with other methods, on the same graph.",
    "sweep": "Simulate a grid of parameters; a stopped sweep can resume.",
    "graph": "Shape, degrees, spectrum and target weights of a graph.",
    "figure": "Draw the paper's figure and others, or print their numbers.",
    "audit": "Try to break the promise: loss, noise and low bits.",
    "keys": "Keys and certificates of agents and of their authority.",
    "session": "Write a session file for a promise, or explain or cancel one.",
    "hub": "A permanent coordinator: enrols members, schedules sessions.",
    "invite": "One line of text that lets one agent enrol at a hub.",
    "enroll": "Use an invitation: get keys, a certificate and a policy.",
    "agent": "Join a hub's sessions, as the owner's policy allows.",
    "ledger": "Privacy loss and cap of each value in an agent's ledger.",
    "coordinate": "Run the coordinator of a session.",
    "keep": "Run a keeper of a session: hold masks and add noise.",
    "join": "Take part in a session with a private value.",
    "verify": "Check a session from its public transcripts.",
    "verify-dynamics": "Compute the loss of agents in a file again, exactly.",
    "status": "Progress of a hub, coordinator, agent, keeper or peer.",
    "studio": "Plan, watch and compare in a browser; follow a session.",
    "demo": "Keys, a session and real agents over TLS, killed and resumed.",
}

EPILOG = """\b
Examples:
  tacit analyze --agents 500 --mixing 0.8 --noise 10 --decay 0.6
  tacit design --agents 500 --epsilon 0.15 --mixing 0.8
  tacit demo
"""


def __dir__() -> list[str]:
    return __all__


class Verbs(LateGroup):
    """The group of all verbs: every exception becomes one sentence."""

    @contextmanager
    def _explained(self, ctx: click.Context) -> Iterator[None]:
        try:
            yield
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except BaseException as error:
            failures.explain(ctx, error)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find and load the verb; Ctrl-C may arrive while it loads."""
        with self._explained(ctx):
            return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the verb; an exception becomes one sentence and an exit code."""
        failures.tolerant_streams()
        with self._explained(ctx), failures.strict_numbers():
            return super().invoke(ctx)


@click.group(cls=Verbs, late=VERBS, epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="tacit %(version)s")
def main() -> None:
    """Agree on the average of private numbers, with differential privacy.

    Exit codes: 0 done, 1 a check failed, 2 the input cannot be used, 3 no parameters meet the request
    or the cap would be exceeded, 4 the ledger failed, 5 the session ended early or timed out, 6 the
    session was already over, 7 messages are missing, so it cannot be verified, 130 stopped with Ctrl-C.
    """
