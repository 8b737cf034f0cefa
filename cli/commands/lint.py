"""``framework lint``."""

import click


@click.command()
@click.argument("files", nargs=-1, required=True, metavar="FILE...", type=click.Path())
@click.option(
    "--for-original",
    is_flag=True,
    help="Also report fields that microsoft/frameworkcontroller drops.",
)
@click.option(
    "--quota",
    metavar="NAMES",
    default="",
    help="Resources that a quota of the namespace counts, for example cpu,memory.",
)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list.")
def lint(files: tuple[str, ...], *, for_original: bool, quota: str, as_json: bool) -> None:
    """Find what is valid in the Frameworks of each FILE and would not work; exit code 1 if any."""
    from cli.authoring.commands import lint_files
    from cli.authoring.rules import LintOptions

    names = [name.strip() for name in quota.split(",") if name.strip()]
    options = LintOptions(for_original=for_original, quota=names)
    raise SystemExit(int(lint_files(files, options, as_json=as_json)))
