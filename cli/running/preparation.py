"""Reads and checks the files of ``framework run`` before anything is applied."""

from collections.abc import Iterator

from cli.authoring.findings import Finding
from cli.authoring.podfields import find_misspelt_fields
from cli.authoring.rules import find_refused_templates, find_unreachable_ends
from cli.dryrun import CLIENT
from cli.exitcodes import CliError, ExitCode
from cli.files.manifests import Manifest, Manifests, load_manifests
from cli.invocation import build_command
from cli.local import requires_local_cluster
from cli.running.options import RunOptions
from cli.session import find_cluster
from framework.api.constants import GPU_RESOURCE
from framework.kube.config import KubeConfig

_MAKE_CLUSTER = f"without a cluster, `{build_command('run', '--local', 'FILE')}` makes one"


def prepare(options: RunOptions) -> tuple[KubeConfig | None, Manifests]:
    """Find the cluster and read the files.

    Returns:
        The cluster, None without one; and the objects of the files.

    Raises:
        CliError: the files have faults, which are reported before those of the cluster.
    """
    config, fault = None, None
    if not options.is_local:
        try:
            config = find_cluster(options.cluster, otherwise=_MAKE_CLUSTER)
        except CliError as e:
            fault = e
    manifests = load_manifests(
        options.files,
        namespace=options.cluster.namespace,
        default_namespace="default" if config is None else config.namespace,
        is_local=options.is_local,
    )
    # --dry-run=client needs no cluster.
    if fault is not None and options.dry_run != CLIENT:
        raise fault
    _refuse_unstartable_templates(options, manifests)
    return config, manifests


def _refuse_unstartable_templates(options: RunOptions, manifests: Manifests) -> None:
    """Refuse Pod templates with which no Pod can ever start.

    Raises:
        CliError: with all of their faults.
    """
    faults = [
        (manifest, fault)
        for manifest in manifests.frameworks
        for fault in find_refused_templates(manifest.body)
    ]
    if options.is_local:
        with requires_local_cluster():
            from cli.local.rules import count_gpus, find_local_faults
        extended = {GPU_RESOURCE: options.gpus}
        together = sum(count_gpus(manifest.body) for manifest in manifests.frameworks)
        for manifest in manifests.frameworks:
            found = find_local_faults(manifest.body, extended, together)
            faults += [(manifest, fault) for fault in found]
    if faults:
        raise CliError(ExitCode.USAGE, *(_describe(m, fault) for m, fault in faults))


def _describe(manifest: Manifest, fault: Finding) -> str:
    place, path = manifest.place, fault.path
    return f"{place.locate(path)}: {place.name_field(path)}: {fault.message}; {fault.fix}"


def _warn_of_few_gpus(options: RunOptions, manifests: Manifests) -> str | None:
    from cli.local.rules import count_gpus, warn_of_few_gpus

    together = sum(count_gpus(manifest.body) for manifest in manifests.frameworks)
    return warn_of_few_gpus(options.gpus, together)


def list_warnings(options: RunOptions, manifests: Manifests) -> Iterator[str]:
    """List the warnings about the files."""
    yield from manifests.warnings
    for manifest in manifests.frameworks:
        body = manifest.body
        for fault in (*find_misspelt_fields(body), *find_unreachable_ends(body)):
            yield _describe(manifest, fault)
    if options.is_local and (shortage := _warn_of_few_gpus(options, manifests)):
        yield shortage
