"""All decoders of input from outside, by name."""

from tests.fuzz.targets_agents import AGENT_TARGETS
from tests.fuzz.targets_controller import CONTROLLER_TARGETS
from tests.fuzz.targets_local import LOCAL_TARGETS
from tests.fuzz.targets_user import USER_TARGETS
from tests.fuzz.targets_why import WHY_TARGETS

TARGETS = {
    target.name: target
    for target in (
        *CONTROLLER_TARGETS,
        *AGENT_TARGETS,
        *USER_TARGETS,
        *WHY_TARGETS,
        *LOCAL_TARGETS,
    )
}
