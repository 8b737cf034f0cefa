"""Reads Frameworks by name or as a list, and explains which do not exist."""

from collections.abc import Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass

from cli.exitcodes import CliError, ExitCode
from cli.objects import read_key
from cli.texts.jobstates import describe_job, list_named_jobs
from cli.texts.kindwords import is_kind_word, is_other_kind
from cli.texts.missing import explain_framework
from framework.kube.client import DEFAULT_TIMEOUT_SECONDS, PAGE_SIZE, KubeClient
from framework.kube.errors import BadRequestError, KubeError, NotFoundError
from framework.kube.resources import FRAMEWORKS, Object

# The most words of a command that are looked up as jobs of other kinds.
_MAX_JOBS = 5
_JOB_SECONDS = 5.0
_OTHER_CLUSTER = "name another cluster with --context or --kubeconfig"


@dataclass(frozen=True, slots=True)
class Selection:
    """The Frameworks that a command asks for."""

    names: tuple[str, ...] = ()
    """In this order; empty for all Frameworks that the selectors match."""
    namespace: str | None = None
    """None for all namespaces."""
    labels: str | None = None
    """Label selector."""
    fields: str | None = None
    """Field selector."""


@dataclass(frozen=True, slots=True)
class Found:
    """The result of a selection."""

    whole: Object
    """A list, or one Framework in the place of a list; with Tables, a Table."""
    items: list[Object]
    """Frameworks, or rows."""
    faults: tuple[str, ...] = ()
    """A line for each name that is not there."""


async def find_frameworks(client: KubeClient, selection: Selection) -> Found:
    """Read the selected Frameworks.

    Raises:
        CliError: the cluster has no Frameworks at all, or cannot read a selector.
        KubeError: the server does not answer, or refuses.
    """
    if selection.names:
        return await _get_each(client, selection)
    try:
        whole = await client.list(
            FRAMEWORKS,
            selection.namespace,
            label_selector=selection.labels,
            field_selector=selection.fields,
            limit=PAGE_SIZE,
        )
    except NotFoundError as e:
        raise _explain_unserved() from e
    except BadRequestError as e:
        fault = _explain_selectors(selection)
        if not fault:
            raise
        raise CliError(ExitCode.USAGE, fault) from e
    return Found(whole, [add_kind(item) for item in whole["items"]])


def _explain_selectors(selection: Selection) -> str:
    """Explain which selector the server cannot read: its own message hides the values."""
    faults = []
    if selection.labels:
        faults.append(
            f"-l {selection.labels!r}: is not valid; write labels as app=x,tier!=y or "
            "'app in (x, y)'"
        )
    if selection.fields:
        faults.append(
            f"--field-selector {selection.fields!r}: is not valid; Frameworks have the fields "
            "metadata.name and metadata.namespace: metadata.name=gang"
        )
    return "; or ".join(faults)


async def drop_kind(client: KubeClient, namespace: str, names: Sequence[str]) -> tuple[str, ...]:
    """Leave out the kind in front of names, as in ``kubectl get framework NAME``.

    A Framework that has the first word as its name keeps it.

    Args:
        client: of the cluster.
        namespace: of the Frameworks.
        names: as the user wrote them.

    Raises:
        CliError: the first word is another kind, or the cluster has no CRD of Frameworks.
        KubeError: the server does not answer, or refuses.
    """
    if names and is_other_kind(names[0]):
        # Then the other words are not names of Frameworks, and must not be changed.
        await get_framework(client, namespace, names[0], others=names[1:])
    if names and is_kind_word(names[0]):
        try:
            await client.get(FRAMEWORKS, namespace, names[0])
        except NotFoundError as e:
            check_served(e)
            return tuple(names[1:])
    return tuple(names)


async def get_framework(
    client: KubeClient,
    namespace: str,
    name: str,
    *,
    timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS,
    others: Sequence[str] = (),
) -> Object:
    """Read one Framework.

    Args:
        client: of the cluster.
        namespace: of the Framework.
        name: of the Framework.
        timeout_seconds: of a request.
        others: the words of the user after ``name``, for the error: names of jobs if ``name`` is
            their kind.

    Raises:
        CliError: it does not exist; lists those that do, and describes a job of this name. Or the
            cluster has no CRD of Frameworks.
        KubeError: the server does not answer, or refuses.
    """
    try:
        return await client.get(FRAMEWORKS, namespace, name, timeout_seconds=timeout_seconds)
    except NotFoundError as e:
        check_served(e)
        known = await _list_names(client, namespace)
        fault = explain_framework(name, _name_place(namespace), known, others)
        words = [f"{name}/{each}" for each in others[:_MAX_JOBS]] or [name]
        raise CliError(
            ExitCode.FAILED, "; ".join([fault, *await _describe_jobs(client, namespace, words)])
        ) from e


def check_served(error: NotFoundError, otherwise: str = _OTHER_CLUSTER) -> None:
    """Raise if the server does not know the kind: then its answer has no details.

    Args:
        error: the answer to a request for one Framework.
        otherwise: what the user can do instead of installing the CRD.

    Raises:
        CliError: the cluster has no CRD of Frameworks.
    """
    details = (error.body or {}).get("details") or {}
    if error.body is None or not details.get("name"):
        raise _explain_unserved(otherwise) from error


def add_kind(body: Object) -> Object:
    """Add kind and apiVersion, which items of some lists do not have, to a Framework."""
    if "cells" in body or "kind" in body:
        return body
    return {"apiVersion": FRAMEWORKS.api_version, "kind": FRAMEWORKS.kind, **body}


async def _get_each(client: KubeClient, selection: Selection) -> Found:
    namespace = str(selection.namespace)
    whole: Object = {}
    items: list[Object] = []
    missing: list[str] = []
    for name in dict.fromkeys(selection.names):
        try:
            answer = await client.get(FRAMEWORKS, namespace, name)
        except NotFoundError as e:
            check_served(e)
            missing.append(name)
            continue
        whole = whole or answer
        items += answer["rows"] if answer.get("kind") == "Table" else [answer]
    known = await _list_names(client, namespace) if missing else []
    faults = []
    for number, name in enumerate(missing):
        words = [name] if number < _MAX_JOBS else []
        jobs = await _describe_jobs(client, namespace, words)
        faults.append("; ".join([explain_framework(name, _name_place(namespace), known), *jobs]))
    return Found(whole, items, tuple(faults))


def _explain_unserved(otherwise: str = _OTHER_CLUSTER) -> CliError:
    return CliError(
        ExitCode.USAGE,
        "this cluster does not know Frameworks: install the CRD (deploy/base/crd.yaml) and the "
        f"controller, or {otherwise}",
    )


def _name_place(namespace: str) -> str:
    return f"in namespace {namespace}"


async def _describe_jobs(client: KubeClient, namespace: str, words: Sequence[str]) -> list[str]:
    """Describe the jobs of other kinds that words name; [] if the user may not read them."""
    jobs = []
    for resource, name in (job for word in words for job in list_named_jobs(word)):
        # The state of a job is only a hint in an error message.
        with suppress(KubeError):
            body = await client.get(resource, namespace, name, timeout_seconds=_JOB_SECONDS)
            jobs.append(describe_job(resource, body))
    return jobs


async def _list_names(client: KubeClient, namespace: str) -> list[str]:
    """List the Frameworks of a namespace; [] if the user may not."""
    names: list[str] = []
    # The names are only a hint in an error message.
    with suppress(KubeError):
        pages = client.list_pages(FRAMEWORKS, namespace, limit=PAGE_SIZE)
        async with aclosing(pages):
            async for page, is_restart in pages:
                names = [] if is_restart else names
                names += [read_key(item)[1] for item in page["items"]]
    return names
