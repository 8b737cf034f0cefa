import pytest

from localcluster.kubelet.container.restarts import BackoffBounds, CrashBackoff, RestartPolicy


@pytest.mark.parametrize(
    ("policy", "restarts_after_0", "restarts_after_1", "of_init_containers"),
    [
        (RestartPolicy.ALWAYS, True, True, RestartPolicy.ON_FAILURE),
        (RestartPolicy.ON_FAILURE, False, True, RestartPolicy.ON_FAILURE),
        (RestartPolicy.NEVER, False, False, RestartPolicy.NEVER),
    ],
)
def test_restart_policy_decides_by_exit_code_and_ends_init_containers_once_they_succeed(
    policy: RestartPolicy,
    *,
    restarts_after_0: bool,
    restarts_after_1: bool,
    of_init_containers: RestartPolicy,
) -> None:
    assert policy.should_restart(0) is restarts_after_0
    assert policy.should_restart(1) is restarts_after_1
    assert policy.of_init_containers is of_init_containers


def test_crash_backoff_quick_crashes_double_up_to_the_maximum() -> None:
    backoff = CrashBackoff(BackoffBounds())
    waits = [backoff.next_wait_seconds(1) for _ in range(8)]
    assert waits == [0, 10, 20, 40, 80, 160, 300, 300]


def test_crash_backoff_long_run_starts_afresh() -> None:
    backoff = CrashBackoff(BackoffBounds())
    for _ in range(5):
        backoff.next_wait_seconds(1)
    assert [backoff.next_wait_seconds(600), backoff.next_wait_seconds(1)] == [0, 10]
