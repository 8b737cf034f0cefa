"""The package for training code: its peers, and how they change.

It is independent of the other packages: ``install`` copies it into the volume's site folder, which
is on the PYTHONPATH of the training process. It needs Python 3.7 and its standard library only. Its
modules import one another relatively, so they work in both places::

    import peers

    gang = peers.wait(min=2)                 # a Roster with at least two that compute
    print(gang.rank, gang.size, gang.addresses)
    peers.on_change(lambda change: print(change.removed))
    peers.barrier("epoch-3")                 # until one process of every such Pod has come here
    peers.progress(done, total=10_000)       # after each step: a gang that hangs is found

All facts come from the files of the current generation, so the package works with each way to run
the agent, and the process needs no access to the cluster. Only ``barrier`` connects to other Pods:
by TCP, to the process of rank 0, on $FB_BARRIER_PORT (29600). If the gang key is mounted, both ends
of such a connection prove that they have it before they read anything else.
"""

from .barriers.client import barrier, pass_barrier
from .barriers.hub import list_missing
from .changes import Change, Subscription, compute_change, on_change
from .failures import Failure
from .gang_key import GangKeyError, compute_proof, draw_nonce, is_proof, read_gang_key
from .generations import Peer, Roster, roster, wait
from .jax_world import initialize_jax
from .leaving import Leaving, leaving
from .logs import warn_once
from .reporting.callbacks import KerasProgress, LightningProgress, TrainerProgress
from .reporting.steps import pause, progress

__all__ = [
    "Change",
    "Failure",
    "GangKeyError",
    "KerasProgress",
    "Leaving",
    "LightningProgress",
    "Peer",
    "Roster",
    "Subscription",
    "TrainerProgress",
    "barrier",
    "compute_change",
    "compute_proof",
    "draw_nonce",
    "initialize_jax",
    "is_proof",
    "leaving",
    "list_missing",
    "on_change",
    "pass_barrier",
    "pause",
    "progress",
    "read_gang_key",
    "roster",
    "wait",
    "warn_once",
]
