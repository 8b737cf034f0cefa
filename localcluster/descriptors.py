"""The limit of open file descriptors of the process of a local cluster.

The process holds a descriptor for each Pod that has a network namespace, and a few for each
container that starts: at the usual soft limit of 1,024 it could not start some hundreds at once. So
it raises its own soft limit. Its containers get the limit that the user has, because programs that
use ``select`` fail with larger descriptors.
"""

import contextlib
import logging
import resource
from collections.abc import Iterator

logger = logging.getLogger(__name__)

INITIAL_SOFT_LIMIT, _HARD_LIMIT = resource.getrlimit(resource.RLIMIT_NOFILE)
# Enough for the Pods of the largest address block; more would only cost kernel memory.
_WANTED = 262_144


@contextlib.contextmanager
def raised_limit() -> Iterator[None]:
    """Raise the soft limit of this process, as far as the hard limit allows."""
    hard = _WANTED if _HARD_LIMIT == resource.RLIM_INFINITY else min(_WANTED, _HARD_LIMIT)
    raised = max(INITIAL_SOFT_LIMIT, hard)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (raised, _HARD_LIMIT))
    except (OSError, ValueError) as e:
        logger.warning("the limit of open files stays", extra={"error": str(e)})
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (INITIAL_SOFT_LIMIT, _HARD_LIMIT))
