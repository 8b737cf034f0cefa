"""``framework inject``."""

import click


@click.command()
@click.argument("file", metavar="FILE", type=click.Path())
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    type=click.Path(),
    help="Where to write; else standard output.",
)
@click.option(
    "--rendezvous",
    type=click.Choice(["none", "init", "sidecar", "wrapper"]),
    default="sidecar",
    show_default=True,
    help="Peer files besides the barrier's: never, once, kept fresh, or by PID 1 of the container.",
)
@click.option("--dns", is_flag=True, help="Add a headless Service and name the Pods.")
@click.option("--restricted", is_flag=True, help="Make all containers fit Pod Security restricted.")
@click.option("--registry", metavar="PREFIX", help="Where our images are; else frameworkbarrier.")
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
