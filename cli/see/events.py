"""``framework events``: the Events of a Framework, its Pods and its ConfigMap."""

from collections.abc import Sequence
from dataclasses import dataclass

from cli.clusterchoice import ClusterChoice
from cli.exitcodes import ExitCode
from cli.frameworks import Selection, get_framework
from cli.printing.columns import Aligner
from cli.printing.forms import OutputFormat
from cli.printing.output import Printer
from cli.see.eventlog import EVENT_HEADER, MAX_EVENTS, EventLog, EventRecord
from cli.see.reading import read_events
from cli.see.watching import Changes, watch_resource
from cli.session import explained, find_cluster, open_client, run_printing
from cli.terminal import print_document, print_error
from framework.clock import SystemClock
from framework.kube.config import KubeConfig
from framework.kube.resources import EVENTS

_EXPIRY = "a cluster keeps them for an hour, if it is not configured otherwise"


@dataclass(frozen=True, slots=True)
class EventsOptions:
    """Options of ``framework events``."""

    name: str
    """The Framework."""
    cluster: ClusterChoice
    """Cluster and namespace."""
    output: OutputFormat
    """Format."""
    types: tuple[str, ...] = ()
    """Types of Events; empty for all."""
    watches: bool = False
    """Print each new Event, until Ctrl-C."""
    has_header: bool = True
    """Begin the table with the names of the columns."""


def print_events(options: EventsOptions) -> ExitCode:
    """Run ``framework events``.

    Raises:
        CliError: there is no cluster, or no such Framework.
    """
    return run_printing(_print(options, find_cluster(options.cluster)))


async def _print(options: EventsOptions, config: KubeConfig) -> ExitCode:
    event_type = options.types[0] if len(options.types) == 1 else None
    async with open_client(config) as client:
        with explained(config):
            framework = await get_framework(client, config.namespace, options.name)
            log = await read_events(client, framework, event_type)
            writer = _Writer(options)
            writer.show_all(log)
            if options.watches:
                fields = None if event_type is None else f"type={event_type}"
                selection = Selection(namespace=config.namespace, fields=fields)
                known = [record.body for record in log.list_records()]
                changes = Changes(known, lambda body: writer.show_new(log.read(body)))
                await watch_resource(client, EVENTS, changes, selection, trim=log.trim)
    return ExitCode.SUCCEEDED


class _Writer:
    """Prints Events."""

    def __init__(self, options: EventsOptions) -> None:
        self._options = options
        self._printer = Printer(options.output, has_header=options.has_header)
        self._aligner = Aligner()
        self._has_header = options.has_header
        self._clock = SystemClock()

    def show_all(self, log: EventLog) -> None:
        """Print the Events so far."""
        records = log.list_records()
        if log.left_out:
            print_error(f"note: only the newest {MAX_EVENTS} Events are shown, of {log.total}")
        if not records and self._options.output.is_table:
            print_error(f"No Events found for Framework {self._options.name}: {_EXPIRY}.")
        self._show(records, is_list=not self._options.watches)

    def show_new(self, record: EventRecord | None) -> None:
        """Print an Event that is new, or happened again."""
        if record is not None:
            self._show([record], is_list=False)

    def _show(self, records: Sequence[EventRecord], *, is_list: bool) -> None:
        types = self._options.types
        shown = [record for record in records if not types or record.type in types]
        if self._options.output.is_table:
            self._show_table(shown)
            return
        bodies = [record.body for record in shown]
        for part in [bodies] if is_list else [[body] for body in bodies]:
            print_document(self._printer.render(part, is_list=is_list), keep="\n\t")

    def _show_table(self, records: Sequence[EventRecord]) -> None:
        now = self._clock.now()
        rows = [record.build_row(now) for record in records]
        if self._has_header and rows:
            rows.insert(0, list(EVENT_HEADER))
            self._has_header = False
        print_document("".join(f"{line}\n" for line in self._aligner.align(rows)))
