"""torchrun's rendezvous by the Framework: ``torchrun --rdzv-backend=framework train.py``.

Python 3.7, torch 2.5 or newer.

The members and their ranks are those of the current generation: a round waits for no other member,
and a member that is scaled down is no failure. Rank 0 serves a store with these values:

    arrived/MEMBER   a member waits for a round: its token, and the gang as it sees it
    assigned/TOKEN   its place in the round it waited for
    members/N        the members of round N; ``rounds`` counts them
    want/N           round N is to end
    stopping/N       how many members of round N know that and stop their workers

The steps of a round:

1. Each member arrives in the store of rank 0, again whenever it sees another gang.
2. When all members of rank 0's own generation have arrived and see the same gang, or 5 s after
   they have arrived, rank 0 starts the round: it serves a store for the workers and writes the
   members, and a place for each.
3. Each member takes its place, and its torchrun starts the workers.
4. A member sees that the round must end: a member of the round is no longer in the gang or has
   failed, or all new members of the gang have arrived. Until the new members have started and
   arrived, the round goes on. The member writes that the round is to end. The agent reports a
   failed Pod before there is a new generation; the next round waits for that generation.
5. The members stop their workers together, when all members that have not failed know it, or after
   3 s: the first member that stops breaks the connections of the others, and their torchrun would
   count that as a failure.

If the gang key is mounted, all values except the counters are signed with it, and with a number
that rank 0 draws for each of its stores, so values of other clients are rejected. The store and the
workers' stores use the protocol of torch, which does not authenticate clients.
"""

import hashlib
import importlib
import logging
import os
import sys
import time
from datetime import timedelta
from typing import Any, Callable, Dict, FrozenSet, NamedTuple, Optional, Tuple, Union

from .failures import Failure, FailureReader
from .gang_key import draw_nonce, read_gang_key
from .generations import Peer, Roster, find_current, roster
from .logs import warn_once
from .torchrun_store import Control, ForgedError, Stores

BACKEND = "framework"
_DEFAULT_PORT = 29400
_LOOK_SECONDS = 0.02
_JOIN_SECONDS = 600
_READ_SECONDS = 60
# How long members that know of a change wait for the others: a lost node never answers.
_STOP_SECONDS = 3
# How long rank 0 waits until all members see one generation: longer than the agent's debounce.
_SETTLE_SECONDS = 5
# Written by torchrun's agents when their workers have succeeded.
_FINISHED_KEY = "torchelastic/agent/terminal_state/num_members"

_log = logging.getLogger(__name__)


class Round(NamedTuple):
    """A round in which this Pod takes part."""

    number: int
    """Its number, which counts up."""
    rank: int
    """The own rank."""
    size: int
    """How many Pods take part."""
    gangs: Tuple[str, ...]
    """The gang as rank 0 saw it at the start, and as this member saw it: neither ends the round."""
    members: FrozenSet[str]
    """The names of its members."""
    address: str
    """Where the workers' store is served."""
    port: int
    """The port of that store."""
    control: Control
    """The store of rank 0."""
    store: Any
    """The part of it that torchrun uses."""


class FrameworkRendezvous:
    """torchrun's rendezvous handler; it is used in one thread."""

    def __init__(
        self,
        run_id: str,
        port: int = _DEFAULT_PORT,
        timeouts: Optional[Dict[str, float]] = None,
        stores: Optional[Stores] = None,
        look: Callable[[], Roster] = roster,
        read_key: Callable[[str], Optional[bytes]] = read_gang_key,
        read_failures: Optional[Callable[[str], Tuple[Failure, ...]]] = None,
    ) -> None:
        """Take part in the gang that ``look`` shows; rank 0 serves its store on ``port``."""
        self._run_id = run_id
        self._port = port
        timeouts = timeouts or {}
        self._join_seconds = timeouts.get("join_timeout", _JOIN_SECONDS)
        self._read_seconds = timeouts.get("read_timeout", _READ_SECONDS)
        self._stop_seconds = timeouts.get("stop_timeout", _STOP_SECONDS)
        self._settle_seconds = timeouts.get("settle_timeout", _SETTLE_SECONDS)
        self._stores = stores or Stores()
        self._look = look
        self._read_key = read_key
        directory = os.path.dirname(find_current())
        self._read_failures = read_failures or FailureReader(directory).read
        self._leader: Optional[Peer] = None
        self._control: Optional[Control] = None
        self._served: Any = None
        self._number = ""
        self._workers_store: Any = None
        self._round: Optional[Round] = None
        self._has_consented = False
        self._has_trained = False
        # The key of its place in the next round; kept until it has the place, also in a new store.
        self._token = ""

    # --- What torchrun calls ----------------------------------------------------------------------

    def get_backend(self) -> str:
        """Name the backend."""
        return BACKEND

    def get_run_id(self) -> str:
        """Name the run."""
        return self._run_id

    @property
    def use_agent_store(self) -> bool:
        """Let the workers use the store that rank 0 serves for them, a new one for each round."""
        return True

    def is_closed(self) -> bool:
        """Return False: the rendezvous ends with the attempt."""
        return False

    def set_closed(self) -> None:
        """Do nothing: the Framework decides when the attempt ends."""

    def num_nodes_waiting(self) -> int:
        """Return whether the workers are to be stopped and started in a new round.

        When they are, this returns in all members of the round at about the same time.
        """
        current = self._round
        if current is None:
            return 0
        try:
            gang = self._look()
        except OSError:
            return 0  # the last good one is current
        if gang.is_completing:
            return 0
        members = {name_member(peer) for peer in gang.ranked}
        is_same = describe_gang(gang) in current.gangs
        failed = self._list_failed(gang) & current.members
        is_broken = bool(failed) or (not is_same and not current.members <= members)
        if self._leader is not None and name_member(self._leader) in failed:
            self._forget_store()  # reads from it would wait
        if self._control is not current.control:
            return int(is_broken)  # the store is lost, so only the gang counts
        try:
            if current.store.check([_FINISHED_KEY]):
                return 0  # the training ends: a new round would wait for members that have ended
            is_wanted = is_broken or _is_wanted(current.control, current.number)
            if not is_wanted and not is_same:
                is_wanted = self._have_arrived(current, gang)
            if not is_wanted:
                return 0
            self._consent(current)
            self._await_consent(current, current.size - len(failed))
        except RuntimeError as e:
            # Rank 0 is gone. While the gang is the same it may only be slow to answer.
            _log.warning("the store of rank 0 is lost: %s", e)
            self._forget_store()
            return int(is_broken)
        return 1

    def next_rendezvous(self) -> Any:
        """Wait for the next round; return torch's RendezvousInfo.

        Raises:
            RendezvousTimeoutError: There was none in time.
            RendezvousClosedError: The others have succeeded, and this member took part.
            SystemExit: This member leaves, or the others have succeeded before it took part.
        """
        if self._round is not None and self._round.control is self._control:
            try:
                self._consent(self._round)
            except RuntimeError:
                self._forget_store()
        self._round, joined = None, None
        deadline = time.monotonic() + self._join_seconds
        while joined is None:
            if time.monotonic() >= deadline:
                raise _import_rendezvous().RendezvousTimeoutError(
                    f"no round in {self._join_seconds} s; is the gang complete?"
                )
            gang = self._find_gang()
            if gang is not None:
                try:
                    joined = self._join(gang, deadline)
                except RuntimeError as e:
                    _log.info("the store of rank 0 does not answer: %s", e)
                    self._forget_store()
            if joined is None:
                time.sleep(_LOOK_SECONDS)
        self._round, self._has_consented, self._has_trained = joined, False, True
        return _build_information(joined)

    def shutdown(self) -> bool:
        """Forget the stores; one that was served here ends with the process."""
        self._round = None
        self._forget_store()
        return True

    # --- Ending a round ---------------------------------------------------------------------------

    def _have_arrived(self, current: Round, gang: Roster) -> bool:
        """Return whether all new members have arrived."""
        names = [name_member(peer) for peer in gang.ranked]
        if names[0] not in current.members:
            return True  # rank 0 is new: members arrive in its store
        added = [f"arrived/{name}" for name in names if name not in current.members]
        return bool(added) and bool(current.control.check(added))

    def _consent(self, current: Round) -> None:
        """Write that this round is to end, and that the workers of this Pod stop."""
        current.control.write(f"want/{current.number}", 1)
        if not self._has_consented:
            self._has_consented = True
            current.control.add(f"stopping/{current.number}", 1)

    def _await_consent(self, current: Round, count: int) -> None:
        deadline = time.monotonic() + self._stop_seconds
        while time.monotonic() < deadline:
            if current.control.add(f"stopping/{current.number}", 0) >= count:
                return
            time.sleep(_LOOK_SECONDS)

    # --- Joining one ------------------------------------------------------------------------------

    def _find_gang(self) -> Optional[Roster]:
        """Find the gang to train with; None while this Pod is not in it."""
        try:
            gang = self._look()
        except OSError:
            return None
        if gang.has_succeeded:
            if self._has_trained:
                # This member took part, but did not succeed: for torchrun, it has failed.
                raise _import_rendezvous().RendezvousClosedError("the others have succeeded")
            _log.warning("the training has ended without this member")
            sys.exit(0)
        if gang.is_leaving:
            _log.warning("this member leaves the gang")
            sys.exit(0)
        if self._list_failed(gang).intersection(map(name_member, gang.ranked)):
            return None  # it never arrives, so wait for the next generation
        return gang if gang.rank >= 0 else None

    def _list_failed(self, gang: Roster) -> FrozenSet[str]:
        """List the names of the Pods of this attempt that the agent knows to have failed."""
        return frozenset(map(name_member, self._read_failures(gang.attempt)))

    def _join(self, gang: Roster, deadline: float) -> Optional[Round]:
        """Arrive and wait; None if rank 0 must be found again."""
        control = self._reach(gang)
        own, leader = gang.ranked[gang.rank], gang.ranked[0]
        if not self._token and not self._has_trained:
            _end_round_of_process_before(control, own)
        self._token = token = self._token or os.urandom(12).hex()
        seen = _arrive(control, own, token, gang)
        settle_until = None
        while time.monotonic() < deadline:
            if gang.rank == 0:
                settle_until = settle_until or self._start_settling(control, gang)
                self._try_to_start(control, gang, settle_until)
            if control.check([f"assigned/{token}"]):
                try:
                    return self._take_place(control, own, seen)
                except ForgedError as e:
                    # The true place may be lost: arrive again, and have its round end.
                    warn_once(f"torchrun: {e}")
                    self._token = ""
                    _end_round_of_process_before(control, own)
                    return None
            time.sleep(_LOOK_SECONDS)
            newer = self._find_gang()
            if newer is None or newer.ranked[0] != leader or newer.ranked[newer.rank] != own:
                return None
            if describe_gang(newer) != seen:
                gang, settle_until = newer, None
                seen = _arrive(control, own, token, gang)
        return None

    def _reach(self, gang: Roster) -> Control:
        """Reach the store of rank 0, which is here if that is this Pod."""
        leader = gang.ranked[0]
        if self._control is None or leader != self._leader:
            self._forget_store()
            if gang.rank == 0:
                if self._served is None:
                    self._served = self._stores.serve(leader.address, self._port)
                    self._number = draw_nonce()
                store = self._served
            else:
                store = self._stores.connect(leader.address, self._port)
            store.set_timeout(timedelta(seconds=self._read_seconds))
            self._control = self._open_control(gang, store)
            self._leader = leader
        return self._control

    def _open_control(self, gang: Roster, store: Any) -> Control:
        key = self._read_key(gang.attempt)
        if key is None:
            warn_once("torchrun: members are not authenticated: no gang key is mounted")
        prefix = f"{BACKEND}/{gang.attempt}/{self._run_id}"
        control = Control(self._stores.prefix(prefix, store), key, gang.attempt, self._run_id)
        if gang.rank == 0:
            control.open(self._number)
        else:
            control.join()
        return control

    def _forget_store(self) -> None:
        self._control = self._leader = None

    def _take_place(self, control: Control, own: Peer, seen: str) -> Round:
        place = control.read(f"assigned/{self._token}")
        number = str(place["round"])
        # A second arrival, while the round started, must not count for the next round.
        control.delete_key(f"arrived/{name_member(own)}")
        self._token = ""
        return Round(
            number=place["round"],
            rank=place["rank"],
            size=place["size"],
            gangs=(place["gang"], seen),
            members=frozenset(control.read("members/" + number)),
            address=place["address"],
            port=place["port"],
            control=control,
            store=self._stores.prefix("torchrun/" + number, control.store),
        )

    # --- Rank 0 -----------------------------------------------------------------------------------

    def _start_settling(self, control: Control, gang: Roster) -> Optional[float]:
        """Return until when to wait for one view of the gang; None while not all have arrived."""
        if not control.check([f"arrived/{name_member(peer)}" for peer in gang.ranked]):
            return None
        return time.monotonic() + self._settle_seconds

    def _try_to_start(self, control: Control, gang: Roster, settle_until: Optional[float]) -> None:
        """Start a round if all members have arrived."""
        if settle_until is None:
            return
        names = [name_member(peer) for peer in gang.ranked]
        try:
            arrivals = [control.read(f"arrived/{name}") for name in names]
        except ForgedError as e:
            warn_once(f"torchrun: {e}")
            return
        described = describe_gang(gang)
        is_agreed = all(arrival["gang"] == described for arrival in arrivals)
        if not is_agreed and time.monotonic() < settle_until:
            return
        address = gang.ranked[0].address
        self._workers_store = self._stores.serve(address, 0)
        number = control.add("rounds", 1)
        place: Dict[str, Any] = {
            "round": number,
            "size": len(names),
            "gang": described,
            "address": address,
            "port": self._workers_store.port,
        }
        control.write(f"members/{number}", names)
        for name in names:
            control.delete_key(f"arrived/{name}")
        for rank, arrival in enumerate(arrivals):
            control.write("assigned/" + arrival["token"], {**place, "rank": rank})


def describe_gang(gang: Roster) -> str:
    """Describe the members: two gangs with the same text train as one."""
    text = "\n".join([gang.attempt, *map(name_member, gang.ranked)])
    return hashlib.sha256(text.encode()).hexdigest()


def name_member(peer: Union[Peer, Failure]) -> str:
    """Name a member; another Pod or address makes it another member."""
    return f"{peer.role}/{peer.index}/{peer.fingerprint}/{peer.address}"


def create_handler(parameters: Any) -> FrameworkRendezvous:
    """Create the handler from torchrun's parameters; only the port of the endpoint counts."""
    port = parameters.endpoint.rpartition(":")[2] if ":" in parameters.endpoint else ""
    timeouts = {}
    for name in ("join_timeout", "read_timeout", "stop_timeout", "settle_timeout"):
        value = parameters.get_as_int(name)
        if value is not None:
            timeouts[name] = float(value)
    return FrameworkRendezvous(
        parameters.run_id, int(port) if port.isdigit() else _DEFAULT_PORT, timeouts
    )


def get_handler() -> Callable[[Any], FrameworkRendezvous]:
    """Return ``create_handler``: torchrun calls this entry point."""
    return create_handler


def _arrive(control: Control, own: Peer, token: str, gang: Roster) -> str:
    described = describe_gang(gang)
    control.write(f"arrived/{name_member(own)}", {"token": token, "gang": described})
    return described


def _end_round_of_process_before(control: Control, own: Peer) -> None:
    """End the round of an earlier torchrun of this Pod: its container was restarted."""
    number = control.add("rounds", 0)
    if not number or not control.check([f"members/{number}"]):
        return
    if name_member(own) in control.read(f"members/{number}"):
        control.write(f"want/{number}", 1)


def _is_wanted(control: Control, number: int) -> bool:
    """Return whether a member wants a round to end."""
    try:
        return bool(control.check([f"want/{number}"])) and control.read(f"want/{number}") == 1
    except ForgedError:
        return False


def _build_information(joined: Round) -> Any:
    rendezvous = _import_rendezvous()
    return rendezvous.RendezvousInfo(
        joined.store,
        joined.rank,
        joined.size,
        rendezvous.RendezvousStoreInfo(joined.address, joined.port),
    )


def _import_rendezvous() -> Any:
    return importlib.import_module("torch.distributed.elastic.rendezvous.api")
