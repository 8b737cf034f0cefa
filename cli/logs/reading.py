"""``framework logs``: the output of the containers of a Framework's Tasks.

Reads through the API server. A real cluster deletes the log with its Pod; a local cluster keeps the
logs in files (``cli.local.keptlogs``).
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from cli.exitcodes import CliError, ExitCode
from cli.files.templates import map_task_indices
from cli.frameworks import Selection, find_frameworks, get_framework
from cli.invocation import build_command
from cli.local import requires_local_cluster
from cli.loglines.output import LogOptions, LogPrinter, print_in_order
from cli.loglines.query import list_containers
from cli.logs.following import follow_tasks
from cli.objects import read_key
from cli.session import (
    NoClusterError,
    explained,
    find_cluster,
    find_local_directory,
    open_client,
    run_printing,
)
from cli.terminal import print_error
from cli.texts.missing import explain_container, explain_task
from cli.texts.reasons import explain_pod
from framework.api import constants
from framework.api.naming import is_framework_name
from framework.kube.client import KubeClient
from framework.kube.config import KubeConfig
from framework.kube.errors import BadRequestError, KubeError, NotFoundError
from framework.kube.resources import EVENTS, PODS, Object

# Their names are in a label selector, and so in the URL of a request.
_MAX_SELECTED = 100
_SHOWN = 10


def print_logs(options: LogOptions) -> ExitCode:
    """Run ``framework logs``.

    Raises:
        CliError: there is no cluster, or it has no such log.
    """
    if options.selector is not None:
        return run_printing(_print_selected(options, find_cluster(options.cluster)))
    labels = options.build_labels()
    if options.directory is not None:
        with requires_local_cluster():
            from cli.local.keptlogs import print_kept
        return run_printing(print_kept(options, labels, Path(options.directory)))
    config = None
    try:
        config = find_cluster(options.cluster)
        return run_printing(_print_live(options, labels, config))
    except CliError as e:
        is_unreachable = config is not None and e.exit_code is ExitCode.UNREACHABLE
        if not is_unreachable and not isinstance(e, NoClusterError):
            raise
        directory = _find_kept_directory(options)
        if config is None and directory is not None:
            return _print_last_run(options, labels, directory)
        raise CliError(e.exit_code, *e.lines, _explain_kept(options)) from e


def _explain_kept(options: LogOptions) -> str:
    """Explain how to read the logs of a local cluster that has ended."""
    directory = _find_kept_directory(options)
    target = [options.name] if options.task is None else [options.name, options.task]
    namespace = ["-n", options.cluster.namespace] if options.cluster.namespace else []
    command = build_command("logs", *target, *namespace, "--directory", str(directory or "DIR"))
    how = f"logs of a local cluster stay after its end; to read them: `{command}`"
    return how if directory else how + _name_last_run(options)


def _name_last_run(options: LogOptions) -> str:
    """Name the Frameworks of which the newest ``run --local`` left logs; "" if it left none."""
    try:
        with requires_local_cluster():
            from cli.local.keptlogs import list_kept
            from cli.local.state import find_last_run
    except CliError:
        return ""
    last = find_last_run()
    kept = list_kept(last, options.cluster.namespace or "default", {}) if last else []
    names = ", ".join(sorted({log.labels.get(constants.FRAMEWORK_NAME, "") for log in kept}))
    return f"; the newest `run --local` left the logs of {names} in {last}" if names else ""


def _print_last_run(options: LogOptions, labels: dict[str, str], directory: Path) -> ExitCode:
    from cli.local.keptlogs import print_kept

    print_error(f"note: no cluster is configured; printing the logs kept in {directory}")
    return run_printing(print_kept(options, labels, directory))


def _find_kept_directory(options: LogOptions) -> Path | None:
    """Find logs of the Framework that local clusters have kept.

    Returns:
        The directory of the newest ``run --local`` or that of ``local up``; None if neither has
        any.
    """
    try:
        with requires_local_cluster():
            from cli.local.keptlogs import list_kept
            from cli.local.state import list_kept_directories
    except CliError:
        return None
    namespace = options.cluster.namespace or "default"
    labels = {constants.FRAMEWORK_NAME: options.name}
    return next((p for p in list_kept_directories() if list_kept(p, namespace, labels)), None)


async def _print_live(options: LogOptions, labels: dict[str, str], config: KubeConfig) -> ExitCode:
    namespace = config.namespace
    async with open_client(config) as client:
        with explained(config):
            if not is_framework_name(options.name):
                # Such a name cannot be a label value. No Framework has it, so this call raises the
                # error.
                await get_framework(client, namespace, options.name)
            pods = await _list_pods(client, namespace, options)
            if pods and options.follow and not options.query.previous:
                return await follow_tasks(client, pods, options, namespace)
            if pods:
                return await _print_pods(client, pods, options)
            directory = find_local_directory(config)
            if directory is not None:
                from cli.local.keptlogs import list_kept, print_kept

                if list_kept(directory, namespace, labels):
                    return await print_kept(options, labels, directory)
            raise await _explain_missing(client, options, namespace, directory)


async def _print_selected(options: LogOptions, config: KubeConfig) -> ExitCode:
    """Print the logs of all Frameworks with certain labels."""
    namespace = config.namespace
    async with open_client(config) as client:
        with explained(config):
            found = await find_frameworks(client, Selection((), namespace, options.selector))
            names = tuple(sorted(read_key(item)[1] for item in found.items))
            _check_selected(options, names, namespace)
            options = replace(options, names=names)
            pods = await _list_pods(client, namespace, options)
            if pods and options.follow and not options.query.previous:
                return await follow_tasks(client, pods, options, namespace)
            if pods:
                return await _print_pods(client, pods, options)
    raise CliError(
        ExitCode.FAILED,
        f"-l: the Frameworks {_list_some(names)} have no Pod now: Pods of Tasks that are over are "
        "deleted, and their logs with them",
    )


def _check_selected(options: LogOptions, names: Sequence[str], namespace: str) -> None:
    if not names:
        raise CliError(
            ExitCode.FAILED,
            f"-l: no Framework in namespace {namespace} has the labels {options.selector}; "
            "`kubectl get frameworks --show-labels` shows what they have",
        )
    if len(names) > _MAX_SELECTED:
        raise CliError(
            ExitCode.USAGE,
            f"-l: selects {len(names)} Frameworks, more than {_MAX_SELECTED}: select fewer",
        )


def _list_some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"{', '.join(names[:_SHOWN])}{more}"


async def _print_pods(client: KubeClient, pods: Sequence[Object], options: LogOptions) -> ExitCode:
    chosen = [(pod, name) for pod in pods for name in options.query.choose_containers(pod)]
    logs = [(pod, name) for pod, name in chosen if name in list_containers(pod)]
    for pod, name in chosen:
        if (pod, name) not in logs:
            print_error(
                f"error: {explain_container(options.name_pod(pod), name, list_containers(pod))}"
            )
    merges = 1 < len(logs) <= options.max_requests
    named = [
        (
            f"{options.name_pod(pod)} {name}"
            if options.query.all_containers
            else options.name_pod(pod),
            client.stream_raw(options.query.build_path(pod, name, stamped=merges)),
        )
        for pod, name in logs
    ]
    printer = LogPrinter(options, has_prefix=len(chosen) > 1)
    errors = await print_in_order(printer, named, options.max_requests)
    for (pod, _), (title, _), error in zip(logs, named, errors, strict=True):
        if error is not None:
            # A local cluster answers 404 if the Pod has no node yet.
            is_waiting = isinstance(error, BadRequestError | NotFoundError)
            reason = await _explain_waiting(client, pod) if is_waiting else ""
            printer.complain(title, error, reason)
    is_complete = len(logs) == len(chosen) and not any(errors)
    return ExitCode.SUCCEEDED if is_complete else ExitCode.FAILED


async def _list_pods(client: KubeClient, namespace: str, options: LogOptions) -> Sequence[Object]:
    listed = await client.list(PODS, namespace, label_selector=options.build_pod_selector())
    return sorted(listed["items"], key=_sort_key)


async def _explain_missing(
    client: KubeClient, options: LogOptions, namespace: str, directory: Path | None
) -> CliError:
    """Build the error that says why there is nothing to print.

    Args:
        client: of the cluster.
        options: of the command.
        namespace: of the Framework.
        directory: of the local cluster, which keeps logs; None on another cluster.
    """
    role, index = options.split_task()
    framework = await get_framework(client, namespace, options.name)
    known = map_task_indices(framework)
    absence = None if role is None else explain_task(options.name, role, index, known)
    reason = (
        "now: Pods of Tasks that are over are deleted, and their logs with them"
        if directory is None
        else "now, and none of its containers has started: "
        f"`kubectl get events -n {namespace}` shows why"
    )
    return CliError(
        ExitCode.FAILED,
        absence or f"{options.name} has no Pod {f'of {options.task} ' if role else ''}{reason}",
    )


async def _explain_waiting(client: KubeClient, pod: Object) -> str:
    """Explain why the containers of a Pod do not run yet, as far as the user may see it."""
    metadata = pod["metadata"]
    fields = f"involvedObject.uid={metadata['uid']},type=Warning"
    try:
        listed = await client.list(EVENTS, metadata["namespace"], field_selector=fields)
    except KubeError:
        listed = {"items": []}
    events = sorted(listed["items"], key=lambda event: str(event.get("lastTimestamp") or ""))
    newest = events[-1] if events else {}
    return explain_pod(pod, "", str(newest.get("message") or "") or None)


def _sort_key(pod: Object) -> tuple[str, str, int]:
    labels = pod["metadata"].get("labels") or {}
    index = str(labels.get(constants.TASK_INDEX, ""))
    framework, role = (
        str(labels.get(key)) for key in (constants.FRAMEWORK_NAME, constants.TASKROLE_NAME)
    )
    return framework, role, int(index) if index.isdecimal() else -1
