"""``framework events``."""

import click

from cli.arguments import FrameworkCommand, framework_argument
from cli.clusterchoice import ClusterChoice
from cli.options import cluster_options
from cli.printing.forms import OBJECT_FORMS, OutputFormat
from cli.printing.options import output_option


@click.command(cls=FrameworkCommand)
@framework_argument()
@cluster_options
@click.option(
    "--types",
    type=click.Choice(["Normal", "Warning"], case_sensitive=False),
    multiple=True,
    help="Only Events of this type.",
)
@output_option(*OBJECT_FORMS)
@click.option("-w", "--watch", is_flag=True, help="Then print each new Event, until Ctrl-C.")
@click.option("--no-headers", is_flag=True, help="Print no names of columns.")
def events(
    name: str,
    *,
    cluster: ClusterChoice,
    types: tuple[str, ...],
    output: OutputFormat,
    watch: bool,
    no_headers: bool,
) -> None:
    """Print the Events of Framework NAME, its Pods and its ConfigMap, the newest last."""
    from cli.see.events import EventsOptions, print_events

    options = EventsOptions(
        name=name,
        cluster=cluster,
        output=output,
        types=tuple(dict.fromkeys(types)),
        watches=watch,
        has_header=not no_headers,
    )
    raise SystemExit(int(print_events(options)))
