"""The options of ``framework run``."""

from dataclasses import dataclass, field

from cli.clusterchoice import ClusterChoice
from cli.coloring import AUTO
from cli.dryrun import NO_DRY_RUN


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """Options and arguments of the command."""

    files: tuple[str, ...]
    """Paths of the files; ``-`` is standard input."""
    is_local: bool = False
    """Whether the Frameworks run on a new local cluster, which ends with the command."""
    cluster: ClusterChoice = field(default_factory=ClusterChoice)
    """Cluster and namespace."""
    timeout_seconds: float | None = None
    """Limit from the time when the Frameworks were applied; None for no limit."""
    replaces: bool = False
    """Whether existing Frameworks of the same names are deleted first."""
    dry_run: str = NO_DRY_RUN
    """``none``, ``client`` or ``server``."""
    directory: str | None = None
    """State and logs of a local cluster; None for a new temporary directory."""
    isolation: str = "auto"
    """Volumes of a local cluster: ``auto``, ``root`` or ``paths``."""
    network: str = "auto"
    """Addresses of a local cluster: ``auto``, ``namespace`` or ``loopback``."""
    gpus: int = 0
    """GPUs that a local cluster offers."""
    shows_logs: bool = False
    """Whether the output of the containers is printed, too."""
    color: str = AUTO
    """Value of ``--color``."""
    shows_all: bool = False
    """Whether each Task has lines of its own, also if Tasks are equal."""
