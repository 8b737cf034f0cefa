"""The commands that need a local cluster, and the only modules that import ``localcluster``.

It is a distribution of its own, ``frameworkbarrier-local``. The modules of this package are
therefore imported when a command needs them, and within ``requires_local_cluster``.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from cli.exitcodes import CliError, ExitCode


@contextmanager
def requires_local_cluster() -> Iterator[None]:
    """Turn a failed import in this block into a message that says what to install.

    Raises:
        CliError: the local cluster, or a package that it needs, is not installed.
    """
    try:
        yield
    except ModuleNotFoundError as e:
        raise CliError(
            ExitCode.USAGE,
            f"the local cluster is not installed ({e.msg}): install it with "
            "`pip install 'frameworkbarrier[local]'`",
        ) from e
