"""The bytes of a request: those of the Pod template, the only part of a body that may be large."""

from controller.core.actions import Action, CreatePod
from framework.api.templatefacts import TemplateWithFacts

# A request starts while fewer bytes are in flight, so a single one of any size may be sent. The API
# server needs more CPU time for such a request than the controller. The limit of all namespaces
# bounds the memory.
MAX_NAMESPACE_BODY_BYTES = 1024 * 1024
MAX_BODY_BYTES = 16 * MAX_NAMESPACE_BODY_BYTES


def measure_body(action: Action) -> int:
    """Measure the template of the Pod that an action creates; 0 for another action."""
    if not isinstance(action, CreatePod):
        return 0
    role = action.framework.spec.find_role(action.task.role)
    template = role.task.pod if role is not None else None
    return template.json_bytes if isinstance(template, TemplateWithFacts) else 0
