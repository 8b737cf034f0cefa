"""``framework convert``."""

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
def convert(file: str, *, output: str | None) -> None:
    """Print what the TfJobs and TrainingJobs of FILE (- for standard input) become, to apply.

    Each becomes a Framework and the objects that it needs. Other objects of the file stay as they
    are; comments are lost. Warnings say what is translated.
    """
    from cli.authoring.conversion import convert_file

    raise SystemExit(int(convert_file(file, output)))
