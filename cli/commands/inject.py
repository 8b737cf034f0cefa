"""``framework inject``."""

import click


@click.command()
@click.argument("file", metavar="FILE", type=click.Path())
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    type=click.Path(),
    help="File to write; default: standard output.",
)
@click.option(
    "--rendezvous",
    type=click.Choice(["none", "init", "sidecar", "wrapper"]),
    default="sidecar",
    show_default=True,
    help="Agent for peer files: none, written once, kept up to date, or PID 1 of your container.",
)
@click.option("--dns", is_flag=True, help="Add a headless Service and name the Pods.")
@click.option(
    "--restricted",
    is_flag=True,
    help="Add the fields that the level restricted of Pod Security requires.",
)
@click.option(
    "--registry",
    metavar="PREFIX",
    help="Registry of the agents' images; default: frameworkbarrier.",
)
def inject(
    file: str,
    *,
    output: str | None,
    rendezvous: str,
    dns: bool,
    restricted: bool,
    registry: str | None,
) -> None:
    """Add the agents to the Frameworks of FILE (- for standard input); print all that to apply.

    Added are barrier and rendezvous, their volume, a token that only they see, and a ServiceAccount
    that may read this gang's roster. What you wrote stays as it is; comments are lost.
    """
    from cli.authoring.commands import inject_file
    from cli.authoring.injection import InjectionOptions, Rendezvous
    from framework.api.images import REGISTRY

    options = InjectionOptions(
        rendezvous=Rendezvous(rendezvous),
        registry=registry or REGISTRY,
        dns=dns,
        restricted=restricted,
    )
    raise SystemExit(int(inject_file(file, options, output)))
