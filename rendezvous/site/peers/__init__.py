"""What training code imports: its peers, and how they change.

Stands alone: ``install`` copies this package into the volume's site folder, onto the training
process's PYTHONPATH. Python 3.7, standard library, nothing else of ours; its modules import one
another relatively, so it is the same in both places::

    import peers

    gang = peers.wait(min=2)                 # a Roster with at least two that compute
    print(gang.rank, gang.size, gang.addresses)
    peers.on_change(lambda change: print(change.removed))
    peers.barrier("epoch-3")                 # until one process of every such Pod has come here
    peers.progress(done, total=10_000)       # after each step: a gang that hangs is found

Everything comes from the files of the current generation, so it works with every way in which the
agent runs, and the process needs no access to the cluster. Only ``barrier`` talks to other Pods: by
TCP, to the process of rank 0, on $FB_BARRIER_PORT (29600). Where the gang key is mounted, both ends
of such a connection prove that they have it before anything else is read.
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
