"""The rules: one function for each kind of cause, from an Observation to causes. Pure.

``ranking`` orders what they find by the depth of its kind, so their order here does not matter.
"""

from collections.abc import Callable, Iterator

from cli.why.cause import Cause
from cli.why.causes.barriers import find_api_server, find_incomplete_gang, find_requirement
from cli.why.causes.creation import find_refused, find_taken_name
from cli.why.causes.ends import find_ends, find_lost_configmap, find_repeated_ends
from cli.why.causes.epochs import find_epochs, find_start
from cli.why.causes.gang import (
    find_deletion,
    find_limit,
    find_missing_controller,
    find_no_tasks,
    find_unreachable_policy,
    find_unreadable,
    find_user_decision,
)
from cli.why.causes.leaving import find_drain, find_leaving
from cli.why.causes.nodes import find_lost_node, find_stuck_pod
from cli.why.causes.progress import find_silent_training
from cli.why.causes.running import find_restarts, find_unready
from cli.why.causes.schedulers import find_silent_scheduler
from cli.why.causes.scheduling import find_held, find_unschedulable
from cli.why.causes.starting import (
    find_configuration,
    find_image,
    find_start_faults,
    find_volume_faults,
)
from cli.why.observation import Observation

Rule = Callable[[Observation], Iterator[Cause]]

RULES: tuple[Rule, ...] = (
    find_unreadable,
    find_missing_controller,
    find_deletion,
    find_user_decision,
    find_limit,
    find_no_tasks,
    find_taken_name,
    find_refused,
    find_lost_node,
    find_unschedulable,
    find_held,
    find_silent_scheduler,
    find_volume_faults,
    find_image,
    find_configuration,
    find_start_faults,
    find_ends,
    find_repeated_ends,
    find_lost_configmap,
    find_restarts,
    find_epochs,
    find_start,
    find_api_server,
    find_requirement,
    find_unready,
    find_leaving,
    find_drain,
    find_stuck_pod,
    find_unreachable_policy,
    find_incomplete_gang,
    find_silent_training,
)
