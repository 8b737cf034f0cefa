import pytest

from localcluster.kubelet.container.restarts import BackoffBounds, CrashBackoff, RestartPolicy


@pytest.mark.parametrize(
    ("policy", "exit_code", "expected"),
    [
        (RestartPolicy.ALWAYS, 0, True),
        (RestartPolicy.ALWAYS, 1, True),
        (RestartPolicy.ON_FAILURE, 0, False),
        (RestartPolicy.ON_FAILURE, 1, True),
        (RestartPolicy.NEVER, 0, False),
        (RestartPolicy.NEVER, 1, False),
    ],
)
def test_restart_policy_exit_code_decides(
    policy: RestartPolicy, exit_code: int, *, expected: bool
) -> None:
    assert policy.should_restart(exit_code) is expected


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (RestartPolicy.ALWAYS, RestartPolicy.ON_FAILURE),
        (RestartPolicy.ON_FAILURE, RestartPolicy.ON_FAILURE),
        (RestartPolicy.NEVER, RestartPolicy.NEVER),
    ],
)
def test_restart_policy_init_container_is_over_once_it_succeeded(
    policy: RestartPolicy, expected: RestartPolicy
) -> None:
    assert policy.of_init_containers is expected


def test_crash_backoff_quick_crashes_double_up_to_the_maximum() -> None:
    backoff = CrashBackoff(BackoffBounds())

    waits = [backoff.next_wait_seconds(1) for _ in range(8)]

    assert waits == [0, 10, 20, 40, 80, 160, 300, 300]


def test_crash_backoff_long_run_starts_afresh() -> None:
    backoff = CrashBackoff(BackoffBounds())
    for _ in range(5):
        backoff.next_wait_seconds(1)

    assert [backoff.next_wait_seconds(600), backoff.next_wait_seconds(1)] == [0, 10]
