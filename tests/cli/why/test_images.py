"""Images that cannot be pulled: Tasks of a role are one cause, although not each Pod says why."""

import pytest

from cli.why.cause import Kind
from cli.why.ranking import find_causes
from tests.cli.why.builders import event, observe, pending, wait

MISSING = 'Failed to pull image "r/x:1": rpc error: code = NotFound desc = r/x:1: not found'
BACK_OFF = 'Back-off pulling image "r/x:1"'


@pytest.mark.parametrize("explained", range(3))
def test_tasks_are_one_cause_whichever_of_their_pods_has_an_event(explained: int) -> None:
    pods = [pending(index, wait("ImagePullBackOff", BACK_OFF)) for index in range(3)]
    observed = observe(pods, number=3, events={explained: [event("Failed", MISSING)]})
    (cause,) = find_causes(observed)
    assert cause.kind is Kind.IMAGE
    assert [key.index for key in cause.tasks] == [0, 1, 2]
    assert cause.text.endswith(": the registry has no such image")
    assert cause.quote == MISSING
    pods_in_command = "pod/gang-worker-0 pod/gang-worker-1 pod/gang-worker-2 main=IMAGE"
    assert pods_in_command in cause.remedies[0].commands[1]


@pytest.mark.parametrize("explained", range(2))
def test_tasks_are_one_cause_whichever_of_their_pods_is_in_back_off(explained: int) -> None:
    states = [wait("ErrImagePull", MISSING), wait("ImagePullBackOff", BACK_OFF)]
    pods = [pending(index, states[index ^ explained]) for index in range(2)]
    (cause,) = find_causes(observe(pods))
    assert [key.index for key in cause.tasks] == [0, 1]
    assert cause.text.endswith(": the registry has no such image")
    assert cause.quote == MISSING


def test_image_of_which_nothing_is_said_has_no_reason() -> None:
    (cause,) = find_causes(observe([pending(0, wait("ImagePullBackOff", BACK_OFF))]))
    assert cause.text.endswith("of its container main")
    assert cause.quote == BACK_OFF
