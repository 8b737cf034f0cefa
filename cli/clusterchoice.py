"""The cluster that a user chose; separate from the options, which lower modules do not import."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ClusterChoice:
    """The cluster that a command talks to, as its options name it."""

    kubeconfig: str | None = None
    """Path of a file; None for $KUBECONFIG, ~/.kube/config, the Pod's own or a local cluster."""
    context: str | None = None
    """Context of the kubeconfig; None for its current context."""
    namespace: str | None = None
    """None for the namespace of the file or of the context."""
