"""The TensorFlow examples train: gradients are exchanged, and a rescaled gang continues."""

import re
from pathlib import Path

from tests.consumers.examples import run_example, start_example, wait_for_rescale

STEP = re.compile(r"^(step .*)$", re.MULTILINE)
START = re.compile(r"^world of (\d+), worker (\d+): on from step (\d+)$", re.MULTILINE)


def test_multi_worker_mirrored_strategy_averages_gradients(tmp_path: Path) -> None:
    example = run_example("tensorflow-multi-worker.yaml", "tensorflow", tmp_path)
    logs = [example.read_log(f"worker/{rank}") for rank in range(3)]
    for rank, log in enumerate(logs):
        assert f"worker {rank} of 3" in log, example.explain("another world")
        end = "weights [2.0, -3.0, 0.5, 1.5], off by 0.0004"
        assert end in log, example.explain("another end")
    # The points of the workers differ, the mean loss does not: it went through all of them.
    losses = [STEP.findall(log) for log in logs]
    assert len(losses[0]) == 7
    assert losses[0] == losses[1] == losses[2]


def test_parameter_server_holds_the_weights_and_ends_with_the_chief(tmp_path: Path) -> None:
    example = run_example("tensorflow-parameter-server.yaml", "tensorflow", tmp_path)
    chief = example.read_log("chief/0")
    assert "the weights are on /job:ps/replica:0/task:0/device:CPU:0" in chief
    assert re.search(r"off by 0\.0[0-4]", chief), example.explain("another end")
    for index in (0, 1):
        # Sparse: a worker sees itself only, under its own index.
        worker = re.search(r"'worker': (\S+ ?\S+)[,}]", example.read_log(f"worker/{index}"))
        assert worker is not None, example.explain("no cluster")
        assert worker[1].count("127.") + worker[1].count("10.") == 1
    for task in ("ps/0", "worker/0", "worker/1"):
        assert re.search(rf"^{task} +Stopped ", example.output, re.MULTILINE), example.output


def test_keras_continues_from_its_step_with_another_number_of_workers(tmp_path: Path) -> None:
    def change(text: str) -> str:
        assert "/tmp/framework-checkpoints" in text
        text = wait_for_rescale(text, "0.1", step="step", size="size", first="first")
        return text.replace("/tmp/framework-checkpoints", str(tmp_path / "checkpoints"))

    file = "tensorflow-keras-rescale.yaml"
    with start_example(file, "tensorflow", tmp_path, change) as example:
        example.wait_for_log("worker/0", r"^step 20 of world 2")
        example.scale("worker", 3)
        example.wait_for_log("worker/2", r"^step \d+ of world 3")
        example.scale("worker", 2)
        example.wait_for_log("worker/0", r"^world of 2, worker 0: on from step [1-9]")
        code = example.finish()
        assert code == 0, example.explain(f"exit code {code}")
    survivors = [example.read_log("worker/0"), example.read_log("worker/1")]
    starts = [START.findall(log) for log in survivors]
    worlds = [[(size, step) for size, _, step in start] for start in starts]
    assert worlds[0] == worlds[1], example.explain("not the same checkpoint")
    assert [size for size, _ in worlds[0]] == ["2", "3", "2"], example.explain("other worlds")
    steps = [int(step) for _, step in worlds[0]]
    assert steps[0] == 0
    assert 20 <= steps[1] < steps[2]
    assert [step for _, _, step in START.findall(example.read_log("worker/2"))] == [str(steps[1])]
    for log in survivors:
        numbers = [int(number) for number in re.findall(r"^step (\d+) of", log, re.MULTILINE)]
        # None twice, none left out.
        assert numbers == list(range(10, 301, 10)), example.explain("other steps")
        assert "off by 0.0" in log
