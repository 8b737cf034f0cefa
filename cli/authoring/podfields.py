"""Finds misspelt fields in Pod templates. Pure.

The API server of a CRD passes templates on unchanged, and drops unknown fields when it stores the
Pod, without a message. A field is reported only if it resembles a field of Kubernetes, because a
newer release may have fields that are not listed here.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches

from cli.authoring.findings import Finding, warning
from cli.files.templates import RoleTemplate, list_roles
from framework.kube.resources import Object

_POD_WORDS = """
    activeDeadlineSeconds affinity automountServiceAccountToken containers dnsConfig dnsPolicy
    enableServiceLinks ephemeralContainers hostAliases hostIPC hostNetwork hostPID hostUsers
    hostname hostnameOverride imagePullSecrets initContainers nodeName nodeSelector os overhead
    preemptionPolicy priority priorityClassName readinessGates resourceClaims resources
    restartPolicy runtimeClassName schedulerName schedulingGates securityContext serviceAccount
    serviceAccountName setHostnameAsFQDN shareProcessNamespace subdomain
    terminationGracePeriodSeconds tolerations topologySpreadConstraints volumes workloadRef
"""
_CONTAINER_WORDS = """
    args command env envFrom image imagePullPolicy lifecycle livenessProbe name ports
    readinessProbe resizePolicy resources restartPolicy restartPolicyRules securityContext
    startupProbe stdin stdinOnce terminationMessagePath terminationMessagePolicy tty volumeDevices
    volumeMounts workingDir
"""
_POD_FIELDS = frozenset(_POD_WORDS.split())
_CONTAINER_FIELDS = frozenset(_CONTAINER_WORDS.split())
_WORD = re.compile(r"\w+")
_RESOURCE_FIELDS = frozenset({"limits", "requests", "claims"})


def misspelt_field(role: RoleTemplate, reported: Iterable[Finding] = ()) -> Iterator[Finding]:
    """Find fields of Pods and containers that the API server would drop without a message.

    Args:
        role: whose Pod template is examined.
        reported: faults already found; a field that they name is left out, because they also say
            what it causes.
    """
    named = {word for each in reported for word in _WORD.findall(f"{each.message} {each.fix}")}
    for found in _find_in_role(role):
        key, known = found.path.rpartition(".")[2], found.fix.split("`")[1]
        if not named & {key, known}:
            yield found


def _find_in_role(role: RoleTemplate) -> Iterator[Finding]:
    yield from _find_misspelt(role.pod_spec, role.spec_path, _POD_FIELDS)
    for container in role.list_containers():
        yield from _find_misspelt(container.body, container.path, _CONTAINER_FIELDS)
        resources = container.body.get("resources")
        yield from _find_misspelt(resources, f"{container.path}.resources", _RESOURCE_FIELDS)


def find_misspelt_fields(framework: Object) -> Iterator[Finding]:
    """Find the misspelt fields of all Pod templates of a Framework."""
    for role in list_roles(framework):
        yield from misspelt_field(role)


def _find_misspelt(body: object, path: str, known: frozenset[str]) -> Iterator[Finding]:
    by_folded = {field.casefold(): field for field in known}
    for key in map(str, body if isinstance(body, Mapping) else ()):
        if key in known:
            continue
        close = get_close_matches(key.casefold(), by_folded, n=1, cutoff=0.85)
        if close:
            yield warning(
                "misspelt-field",
                f"{path}.{key}",
                "is no field of Kubernetes: the API server drops it",
                f"write `{by_folded[close[0]]}`",
            )
