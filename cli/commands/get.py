"""``framework get``."""

import click

from cli.arguments import framework_argument
from cli.clusterchoice import ClusterChoice
from cli.options import cluster_options
from cli.printing.forms import OBJECT_FORMS, Form, OutputFormat
from cli.printing.options import output_option
from cli.texts.kindwords import is_kind_word


@click.command()
@framework_argument("names", nargs=-1, metavar="[NAME...]")
@cluster_options
@click.option("-A", "--all-namespaces", is_flag=True, help="Frameworks of all namespaces.")
@click.option("-l", "--selector", metavar="SELECTOR", help="Only with these labels: app=x,tier!=y.")
@click.option(
    "--field-selector", metavar="SELECTOR", help="Only with these fields: metadata.name=gang."
)
@output_option(Form.WIDE, *OBJECT_FORMS)
@click.option("-w", "--watch", is_flag=True, help="Then print each change, until Ctrl-C.")
@click.option("--no-headers", is_flag=True, help="Print no names of columns.")
@click.option("--sort-by", metavar="PATH", help="Sort by this value: .metadata.name.")
def get(  # noqa: PLR0913 one argument for each option
    names: tuple[str, ...],
    *,
    cluster: ClusterChoice,
    all_namespaces: bool,
    selector: str | None,
    field_selector: str | None,
    output: OutputFormat,
    watch: bool,
    no_headers: bool,
    sort_by: str | None,
) -> None:
    """Print the Frameworks of the namespace, or those with a NAME, as `kubectl get` does."""
    from cli.printing.jsonpath import Path
    from cli.printing.jsonpath_parser import TemplateError
    from cli.see.get import GetOptions, get_frameworks

    if names and is_kind_word(names[0]) and (all_namespaces or selector or field_selector):
        # The word cannot be a name here.
        names = names[1:]
    if names and (all_namespaces or selector or field_selector):
        raise click.UsageError("NAME cannot be combined with -A, -l and --field-selector")
    if watch and len(names) - is_kind_word(next(iter(names), "")) > 1:
        raise click.UsageError("--watch takes one NAME: leave out the others, or select with -l")
    try:
        path = None if sort_by is None else Path(sort_by)
    except TemplateError as e:
        raise click.UsageError(f"--sort-by: {e}") from e
    options = GetOptions(
        names=names,
        cluster=cluster,
        output=output,
        is_everywhere=all_namespaces,
        labels=selector,
        fields=field_selector,
        watches=watch,
        has_header=not no_headers,
        sort_by=path,
    )
    raise SystemExit(int(get_frameworks(options)))
