"""`tacit graph`: shape, degrees, spectrum and target of a graph."""

from __future__ import annotations

import click

from tacit.cli import options, output

EPILOG = """\b
Examples:
  tacit graph karate
  tacit graph regular:1000:8:seed=1 --mixing 0.9 --json
  tacit graph friends.graphml
"""


class GraphCommand(click.Command):
    """A command whose help lists the graph families."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the families before the examples; only help loads them."""
        from tacit.core.graph.families import FAMILIES

        with formatter.section("Families"):
            formatter.write_dl([(family.form, family.summary) for family in FAMILIES.values()])
        super().format_epilog(ctx, formatter)


@click.command(cls=GraphCommand, epilog=EPILOG)
@click.argument("name_or_file", metavar="NAME_OR_FILE")
@click.option(
    "--mixing",
    type=options.PER_AGENT,
    default=0.5,
    show_default=True,
    help="Mixing for the rate and the target (σ).",
)
@options.asked("weights")
@options.json_option
def command(name_or_file: str, mixing: options.Numbers, weights: str | None, as_json: bool) -> None:
    """Show the shape, degrees, spectrum and target weights of a graph.

    NAME_OR_FILE is a name like ring:100 (the families are below), or a file with an edge list or
    GraphML.
    """
    from tacit.core.theory.graph_facts import graph_facts_of
    from tacit.core.theory.plan import Plan

    graph = options.load_graph(name_or_file)
    rows = Plan(graph=graph, weights=weights).rows
    found = graph_facts_of(graph, mixing, weights=rows, name=name_or_file)
    if as_json:
        output.print_json(found.as_dict())
    else:
        output.print_summary(found.summary(), found.histogram())
