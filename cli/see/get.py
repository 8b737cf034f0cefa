"""``framework get``: Frameworks as a table, or in another format, and their changes.

The server computes the table, so its columns are those of ``kubectl get frameworks``.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from cli.clusterchoice import ClusterChoice
from cli.exitcodes import CliError, ExitCode
from cli.frameworks import Found, Selection, drop_kind, find_frameworks
from cli.objects import ObjectKey, read_key
from cli.printing.forms import Form, OutputFormat
from cli.printing.jsonpath import Path
from cli.printing.jsonpath_parser import TemplateError
from cli.printing.output import Printer
from cli.see.tables import TablePrinter
from cli.see.watching import watch_frameworks
from cli.session import explained, find_cluster, open_client, run_printing
from cli.terminal import print_document, print_error
from framework.kube.config import KubeConfig
from framework.kube.resources import TABLE, Object
from framework.kube.transport import JSON


@dataclass(frozen=True, slots=True)
class GetOptions:
    """Options of ``framework get``."""

    names: tuple[str, ...]
    """Frameworks to print; empty for all."""
    cluster: ClusterChoice
    """Cluster and namespace."""
    output: OutputFormat
    """Format."""
    is_everywhere: bool = False
    """All namespaces."""
    labels: str | None = None
    """Label selector."""
    fields: str | None = None
    """Field selector."""
    watches: bool = False
    """Print each change, until Ctrl-C."""
    has_header: bool = True
    """Begin a table with the names of the columns."""
    sort_by: Path | None = None
    """The value by which the Frameworks are sorted; None for the order of the server."""

    def select(self, config: KubeConfig) -> Selection:
        """Build the selection on a cluster."""
        namespace = None if self.is_everywhere else config.namespace
        return Selection(self.names, namespace, self.labels, self.fields)


def get_frameworks(options: GetOptions) -> ExitCode:
    """Run ``framework get``.

    Raises:
        CliError: there is no cluster, or it refuses.
    """
    return run_printing(_get(options, find_cluster(options.cluster)))


async def _get(options: GetOptions, config: KubeConfig) -> ExitCode:
    accept = TABLE if options.output.is_table else JSON
    async with open_client(config, accept=accept) as client:
        with explained(config):
            names = await drop_kind(client, config.namespace, options.names)
            options = replace(options, names=names)
            selection = options.select(config)
            found = await find_frameworks(client, selection)
            items = found.items
            if options.sort_by is not None:
                keys = await _read_sort_keys(options.sort_by, selection, config)
                if items and not any(map(_is_sortable, keys.values())):
                    print_error(
                        "warning: --sort-by: no Framework has a text or a number there, so they "
                        "are not sorted; a path begins with a field: .metadata.name"
                    )
                items = _sort(items, keys)
            show = _Writer(options, found, selection.namespace)
            if items or not found.faults:
                show(items, is_list=len(options.names) != 1)
            for fault in found.faults:
                print_error(f"error: {fault}")
            if found.faults or not options.watches:
                return ExitCode.FAILED if found.faults else ExitCode.SUCCEEDED
            await watch_frameworks(client, selection, items, lambda item: show([item]))
    return ExitCode.SUCCEEDED


class _Writer:
    """Prints Frameworks or rows."""

    def __init__(self, options: GetOptions, found: Found, namespace: str | None) -> None:
        self._output = options.output
        self._where = "" if namespace is None else f" in {namespace} namespace."
        self._watches = options.watches
        self._printer = Printer(options.output, has_header=options.has_header)
        self._table = TablePrinter(
            found.whole,
            is_wide=options.output.form is Form.WIDE,
            has_namespace=options.is_everywhere,
            has_header=options.has_header,
        )

    def __call__(self, items: Sequence[Object], *, is_list: bool = False) -> None:
        if not items and self._output.form in {Form.TABLE, Form.WIDE, Form.NAME}:
            print_error(f"No resources found{self._where}")
        elif self._output.is_table:
            print_document("".join(f"{line}\n" for line in self._table.render(items)))
        elif items or is_list:
            is_whole = is_list and not self._watches
            parts = [items] if is_whole else [[item] for item in items]
            for part in parts:
                print_document(self._printer.render(part, is_list=is_whole), keep="\n\t")


async def _read_sort_keys(
    path: Path, selection: Selection, config: KubeConfig
) -> dict[ObjectKey, Any]:
    """Read the values by which Frameworks are sorted: a Table has the metadata only."""
    async with open_client(config) as client:
        found = await find_frameworks(client, selection)
    try:
        return {read_key(item): next(iter(path.find(item)), None) for item in found.items}
    except TemplateError as e:
        raise CliError(ExitCode.USAGE, f"--sort-by: {e}") from e


def _is_sortable(value: Any) -> bool:
    return isinstance(value, bool | int | float | str)


def _sort(items: list[Object], keys: dict[ObjectKey, Any]) -> list[Object]:
    """Sort by value; Frameworks without one come first, as with kubectl."""

    def rank(item: Object) -> tuple[int, Any]:
        value = keys.get(read_key(item))
        if isinstance(value, bool | int | float):
            return 1, value
        return (2, value) if isinstance(value, str) else (0, 0)

    return sorted(items, key=rank)
