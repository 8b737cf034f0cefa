from controller.serve.metrics import Metrics


def test_metrics_render_what_was_observed() -> None:
    metrics = Metrics()
    metrics.set_queue_depth(3)
    metrics.observe_decision(0.002)
    metrics.count_write("frameworks/status", "update", "unreachable", 0.2)
    metrics.count_conflict("frameworks")
    metrics.observe_gang_wait(2.0)
    metrics.observe_release(0.04)
    lines = metrics.render().decode().splitlines()
    for line in (
        "frameworkcontroller_queue_depth 3.0",
        'frameworkcontroller_decision_seconds_bucket{le="0.001"} 0.0',
        'frameworkcontroller_decision_seconds_bucket{le="0.005"} 1.0',
        (
            'frameworkcontroller_writes_total{code="unreachable",resource="frameworks/status",'
            'verb="update"} 1.0'
        ),
        'frameworkcontroller_conflicts_total{resource="frameworks"} 1.0',
        'frameworkcontroller_gang_wait_seconds_bucket{le="5.0"} 1.0',
        'frameworkcontroller_release_seconds_bucket{le="0.05"} 1.0',
    ):
        assert line in lines


def test_metrics_of_two_controllers_are_apart() -> None:
    first, second = Metrics(), Metrics()
    first.set_queue_depth(7)
    assert b"frameworkcontroller_queue_depth 0.0" in second.render()
