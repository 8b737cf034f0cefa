"""The hosts and resolv.conf of a Pod, as a kubelet writes them.

They are mounted over the files of the machine in each container's private root.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from framework.kube.resources import Object
from localcluster.network.cluster_names import CLUSTER_DOMAIN

HOSTS = "/etc/hosts"
RESOLV_CONF = "/etc/resolv.conf"
NSSWITCH_CONF = "/etc/nsswitch.conf"
_HOSTS_LINE = re.compile(r"^hosts:.*$", re.MULTILINE)
_MAX_NAMESERVERS = 3
_HEAD = "# Written by the local cluster's kubelet."


@dataclass(slots=True)
class ResolverSettings:
    """The settings of a ``resolv.conf``."""

    nameservers: list[str] = field(default_factory=list)
    searches: list[str] = field(default_factory=list)
    options: dict[str, str] = field(default_factory=dict)


def list_name_files(
    pod: Object, hostname: str, addresses: Sequence[str], resolver: str | None
) -> dict[str, str]:
    """Return the Pod's files by their paths; ``resolver`` is the cluster's name server, if any."""
    files = {HOSTS: render_hosts(pod, hostname, addresses)}
    if resolver is not None:
        host = parse_resolv_conf(_read(RESOLV_CONF))
        files[RESOLV_CONF] = render_resolv_conf(pod, resolver, host)
        switch = _read(NSSWITCH_CONF)
        if switch:
            # A name service of this machine knows no name of the cluster, and may end the search.
            files[NSSWITCH_CONF] = _HOSTS_LINE.sub("hosts: files dns", switch)
    return files


def _read(path: str) -> str:
    try:
        return Path(path).read_text("utf-8", "replace")
    except OSError:
        return ""


def render_hosts(pod: Object, hostname: str, addresses: Sequence[str]) -> str:
    """Write the Pod's ``/etc/hosts``."""
    spec, namespace = pod["spec"], pod["metadata"]["namespace"]
    names = hostname
    if spec.get("subdomain"):
        domain = f"{spec['subdomain']}.{namespace}.svc.{CLUSTER_DOMAIN}"
        names = f"{hostname}.{domain}\t{hostname}"
    lines = [_HEAD, "127.0.0.1\tlocalhost", "::1\tlocalhost ip6-localhost ip6-loopback"]
    lines += [f"{address}\t{names}" for address in addresses]
    for alias in spec.get("hostAliases") or ():
        lines.append("\t".join([alias["ip"], *(alias.get("hostnames") or ())]))
    return "\n".join(lines) + "\n"


def parse_resolv_conf(text: str) -> ResolverSettings:
    """Read a ``resolv.conf``; the last search list counts."""
    settings = ResolverSettings()
    for line in text.splitlines():
        keyword, *words = line.split() or [""]
        if keyword == "nameserver" and words:
            settings.nameservers.append(words[0])
        elif keyword in {"search", "domain"}:
            settings.searches = words
        elif keyword == "options":
            for word in words:
                name, _, value = word.partition(":")
                settings.options[name] = value
    return settings


def render_resolv_conf(pod: Object, resolver: str, host: ResolverSettings) -> str:
    """Write the Pod's ``/etc/resolv.conf`` by its ``dnsPolicy`` and ``dnsConfig``.

    It has the name server of the cluster, which asks those of the host: Pods cannot reach them.
    """
    spec = pod["spec"]
    policy = spec.get("dnsPolicy") or "ClusterFirst"
    settings = ResolverSettings()
    if policy == "Default":
        settings = ResolverSettings([resolver], list(host.searches), dict(host.options))
    elif policy != "None":
        below = f"svc.{CLUSTER_DOMAIN}"
        searches = [f"{pod['metadata']['namespace']}.{below}", below, CLUSTER_DOMAIN]
        settings = ResolverSettings([resolver], searches + host.searches, {"ndots": "5"})
    _add_config(settings, spec.get("dnsConfig") or {})
    lines = [_HEAD, *(f"nameserver {server}" for server in settings.nameservers)]
    if settings.searches:
        lines.append("search " + " ".join(settings.searches))
    if settings.options:
        options = [f"{n}:{v}" if v else n for n, v in settings.options.items()]
        lines.append("options " + " ".join(options))
    return "\n".join(lines) + "\n"


def _add_config(settings: ResolverSettings, config: Object) -> None:
    servers = [*settings.nameservers, *(config.get("nameservers") or ())]
    settings.nameservers = list(dict.fromkeys(servers))[:_MAX_NAMESERVERS]
    searches = [*settings.searches, *(config.get("searches") or ())]
    settings.searches = list(dict.fromkeys(searches))
    for option in config.get("options") or ():
        settings.options[option["name"]] = option.get("value") or ""
