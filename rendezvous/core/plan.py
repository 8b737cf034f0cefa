"""The types of the agent's decision: observation, memory, actions and plan. Pure.

``decision`` computes a plan, and ``rendezvous.agent`` executes it.
"""

from typing import FrozenSet, List, Mapping, NamedTuple, NoReturn, Optional, Tuple, Union

from framework.agent.gang import Assessment, Identity, SelectedRoster
from framework.agent.probes import Probe
from framework.api.roster import Roster
from rendezvous.core.notifying.departures import Departures
from rendezvous.core.notifying.failures import MemberFailure
from rendezvous.core.notifying.notification import Notified, Notify
from rendezvous.core.selection import Generation, NoRoster
from rendezvous.settings.options import Options


class Context(NamedTuple):
    """The facts that do not change while an agent runs."""

    identity: Identity
    options: Options = Options()
    named_roles: Mapping[str, List[str]] = {}
    """The roles that each setting names."""


class Observation(NamedTuple):
    """The gang, and the volume, which other agents of the Pod may write."""

    candidate: Union[SelectedRoster, NoRoster]
    last_number: int
    """The number of the current generation, also if another program wrote it; 0: none."""
    in_volume: Optional[Generation]
    """The current generation, if an agent wrote it for this attempt."""
    reached: FrozenSet[Probe] = frozenset()


class Situation(NamedTuple):
    """The facts of a decision about a roster, apart from the memory."""

    selected: SelectedRoster
    """The roster, and its source."""
    assessment: Assessment
    """The gang of the roster, from the view of this Pod."""
    observation: Observation
    """The observation that has the roster."""
    context: Context
    """The facts that do not change."""
    now: float
    """Monotonic seconds."""

    @property
    def roster(self) -> Roster:
        """The roster."""
        return self.selected.roster


class GenerationMemory(NamedTuple):
    """The memory of generations."""

    current: Optional[Generation] = None
    """The current generation, as far as this agent knows."""
    is_applied: bool = False
    """Whether this agent has shown ``current``; false for an agent that has just started."""
    next_show_at: float = 0.0
    """Before this time no generation is shown: the debounce."""
    waiting_since: Optional[float] = None
    """When the agent began to wait for new members to answer."""
    is_waiting: bool = False
    """Whether the generation waits for them now."""
    left_generation: int = 0
    """The newest generation without this Pod that was acknowledged and not shown."""


class NotificationMemory(NamedTuple):
    """The memory of notifications."""

    last: Notified = Notified()
    """The last notifications."""
    roster: Optional[Roster] = None
    """The roster of ``last.generation``: the gang that processes know."""
    departures: Departures = Departures()
    """The Pods that leave, as they were written into the volume."""
    has_completed: bool = False
    """Whether the end of the attempt was handled."""


class Memory(NamedTuple):
    """The memory of an agent from one turn to the next. All times are monotonic seconds."""

    generations: GenerationMemory = GenerationMemory()
    notifications: NotificationMemory = NotificationMemory()
    last_wait: str = ""
    """The reason of the last wait."""
    next_wait_line_at: float = 0.0
    """Before this time the same reason is not logged again."""


class RecordNotified(NamedTuple):
    """Write the last notifications into the volume."""

    notified: Notified


class RecordFailures(NamedTuple):
    """Write the failures into the volume, where training code reads them."""

    instance_uid: str
    failures: Tuple[MemberFailure, ...]


class RecordDepartures(NamedTuple):
    """Write the Pods that leave into the volume, where training code reads them."""

    instance_uid: str
    departures: Departures


class Acknowledge(NamedTuple):
    """Let the controller know that a published generation was applied."""

    generation: int


class EndCommand(NamedTuple):
    """End the training command, because the attempt completes."""


class Log(NamedTuple):
    """Write a line of the log."""

    text: str


class Warn(NamedTuple):
    """Write a warning, once."""

    text: str


Action = Union[
    Notify,
    RecordNotified,
    RecordFailures,
    RecordDepartures,
    Acknowledge,
    EndCommand,
    Log,
    Warn,
]


class Steps(NamedTuple):
    """Actions in their order, and the memory after them."""

    actions: Tuple[Action, ...]
    memory: Memory

    def followed_by(self, after: "Steps") -> "Steps":
        """Return these steps and those after them, which were decided with this memory."""
        return Steps(self.actions + after.actions, after.memory)


class ShowGeneration(NamedTuple):
    """Make a generation current; it is written only if it ``is_new``."""

    generation: Generation
    is_new: bool


class Plan(NamedTuple):
    """First ``show``. Then ``then`` if that worked or there is nothing to show, or ``otherwise``.

    With ``probes``, try them and decide again.
    """

    then: Steps
    otherwise: Steps
    show: Optional[ShowGeneration] = None
    probes: Tuple[Probe, ...] = ()


def assert_never(value: NoReturn) -> NoReturn:
    """Have the type checker prove that all kinds of actions are handled."""
    raise AssertionError(f"unhandled: {value!r}")
