"""What is kept of a Framework that was stopped: why it had not started."""

from cli.ending import keep_waits
from cli.progress import GangView


def test_keep_waits_of_a_framework_without_tasks_says_that_it_has_none() -> None:
    before = GangView("gang", "Waiting", 0, "", ())
    after = GangView("gang", "Stopped", 0, "stopped on request", (), is_completed=True)

    assert keep_waits(before, after, "Ctrl-C").note == (
        "stopped by Ctrl-C; the gang never started: it has no Tasks"
    )
