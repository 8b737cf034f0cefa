"""The cluster that a user chose: rooms below the options need it, so it is apart from them."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ClusterChoice:
    """The cluster that a command talks to, as its options name it."""

    kubeconfig: str | None = None
    """Path of a file; None for $KUBECONFIG, ~/.kube/config, the Pod's own or a local cluster."""
    context: str | None = None
    """Of the kubeconfig; None for its current one."""
    namespace: str | None = None
    """None for that of the file or of the context."""
