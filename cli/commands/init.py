"""``framework init``."""

import click

from cli.catalog import STACK_NAMES


@click.command()
@click.argument("name")
@click.option(
    "--stack",
    type=click.Choice(STACK_NAMES),
    help="Training stack of the script; else plain Python.",
)
@click.option(
    "--workers",
    type=click.IntRange(1, 10000),
    metavar="N",
    help="Number of workers; else that of the example.",
)
@click.option(
    "--gpus", type=click.IntRange(0, 64), default=0, metavar="N", help="GPUs of each worker."
)
@click.option("--image", metavar="IMAGE", help="Image of the training containers.")
@click.option(
    "--output",
    type=click.Path(file_okay=False),
    default=".",
    metavar="DIR",
    help="Where to write; else the current directory.",
)
@click.option("--force", is_flag=True, help="Write over files that exist.")
def init(
    name: str,
    *,
    stack: str | None,
    workers: int | None,
    gpus: int,
    image: str | None,
    output: str,
    force: bool,
) -> None:
    """Write a gang that trains into NAME.yaml: script, Framework, and the rights of its agents.

    It trains a small model with the stack, on this machine and on a cluster, and is the start for
    your own script.
    """
    from cli.start.gangfile import GangOptions
    from cli.start.init import InitOptions, write_gang

    gang = GangOptions(name=name, workers=workers, gpus=gpus, image=image)
    options = InitOptions(gang=gang, stack=stack, output=output, force=force)
    raise SystemExit(int(write_gang(options)))
