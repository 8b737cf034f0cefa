"""The story of docs/sessions.md: what a user types, and what happens on the node meanwhile."""

import asyncio

from framework.api.constants import READY_TASKS_FIELD
from tests.kube.sessions.stage import Stage
from tests.kube.sessions.terminal import Terminal
from tests.support.servers.remedies import list_remedies

INTRODUCTION = """\
# Recorded sessions

What each command of [the command line](cli.md) prints, in one story: a gang is written, started,
repaired, changed and ended.

The sessions are recorded by a program, and a test repeats them: `make sessions` writes this page.
They ran on a real API server, with the controller of this project, kubectl and bash. No node is
behind it: a program of the tests answers as a kubelet does, changes the states of Pods as the story
needs it, and has the texts of the logs. The output is that of a pipe. On a terminal, `run` updates
its rows in place, and `run` and `logs` have [colours](cli.md#colours). The commands do not print
`[exit code 1]`."""

TRAIN = """\
apiVersion: frameworkcontroller.microsoft.com/v1
kind: Framework
metadata:
  name: train
spec:
  executionType: Create
  taskRoles:
  - name: worker
    taskNumber: 3
    frameworkAttemptCompletionPolicy: {minFailedTaskCount: 1, minSucceededTaskCount: -1}
    task:
      retryPolicy: {maxRetryCount: 1}
      pod:
        spec:
          containers:
          - name: train
            image: registry.example/train:2
            command: [sh, -c, '. /mnt/frameworkbarrier/injector.sh && exec python3 train.py']
"""

TFJOB = """\
apiVersion: mlkube.io/v1beta1
kind: TfJob
metadata:
  name: mnist
spec:
  replicaSpecs:
  - tfReplicaType: MASTER
    template:
      spec:
        restartPolicy: OnFailure
        containers:
        - name: tensorflow
          image: registry.example/mnist:1
          command: [python3, /app/mnist.py]
"""

PROGRESS = "train: "
WORKERS = [f"train-worker-{index}" for index in range(3)]


async def tell(terminal: Terminal, stage: Stage) -> None:
    """Type the whole story."""
    terminal.say(INTRODUCTION)
    await run_first_gang(terminal, stage)
    await start_own_gang(terminal, stage)
    await look_at_gang(terminal, stage)
    await repair_gang(terminal, stage)
    await look_into_pods(terminal)
    await change_size(terminal, stage)
    await repeat(terminal, stage)
    await type_less(terminal)
    await end_gang(terminal, stage)
    await convert(terminal)
    await use_this_machine(terminal)


async def run_first_gang(terminal: Terminal, stage: Stage) -> None:
    """`init`, `lint`, `run`."""
    terminal.say("## A first gang: init, lint, run")
    await terminal.type(
        "framework init digits --stack torch --workers 2", "framework lint digits.yaml"
    )
    names = ["digits-worker-0", "digits-worker-1"]
    stage.pause_controller()
    async with terminal.open("framework run digits.yaml") as run:
        await run.see("digits  New")
        stage.resume_controller()
        await run.see(*(f"worker/{index}  Waiting: Pod waits" for index in range(2)))
        pods = []
        for index, name in enumerate(names):
            pods.append(await stage.bind(name))
            await run.see(f"worker/{index}  Waiting: Pod is Pending")
        for index, pod in enumerate(pods):
            await pod.initialize()
            await run.see(f"worker/{index}  Waiting: its containers")
        for index, pod in enumerate(pods):
            await pod.start()
            await run.see(f"worker/{index}  Running")
        for index, pod in enumerate(pods):
            await pod.finish()
            await run.see(f"worker/{index}  Ending")
            stage.remove(pod.name)
            await run.see(f"worker/{index}  Succeeded")


async def start_own_gang(terminal: Terminal, stage: Stage) -> None:
    """`inject`, `get`, `start`."""
    terminal.say(
        "## A file of your own: inject, get, start",
        "`train.yaml` has a Framework that waits to be started, and no agents:",
    )
    terminal.show("train.yaml", TRAIN)
    terminal.say("`inject` adds them; its output is a file for kubectl or `framework run`:")
    await terminal.type(
        "framework inject train.yaml -o injected.yaml", "kubectl apply -f injected.yaml"
    )
    await stage.wait_for_state("train", "AttemptCreationPending")
    await terminal.type("framework get", "framework start train")


async def look_at_gang(terminal: Terminal, stage: Stage) -> None:
    """`get`, `describe`, `tree`, `events`."""
    terminal.say("## State and history: get, describe, tree, events")
    await stage.refuse_image(*WORKERS)
    await terminal.type("framework get train")
    await terminal.type("framework describe train")
    await terminal.type("framework tree train")
    await terminal.type("framework events train --types Normal")


async def repair_gang(terminal: Terminal, stage: Stage) -> None:
    """`why`, and its remedy."""
    terminal.say("## A gang that does not start: why")
    answer = await terminal.type("framework why train", code=1)
    ((_, commands), *_) = list_remedies(answer)
    terminal.say("Version 1 of the image exists:")
    await terminal.type(*(line.replace("IMAGE", "registry.example/train:1") for line in commands))
    await stage.restart(*WORKERS)
    await stage.wait_for_state("train", "3/3", READY_TASKS_FIELD)
    await terminal.type("framework wait train --for=condition=Running", "framework why train")


async def look_into_pods(terminal: Terminal) -> None:
    """`logs`, `exec`, `port-forward`."""
    terminal.say("## Logs and programs of a Task: logs, exec, port-forward")
    await terminal.type("framework logs train --tail 2")
    await terminal.type("framework logs train worker/1")
    await terminal.type("framework exec train worker/1 -- hostname")
    await terminal.type("framework exec train worker/1 -- ls /checkpoints", code=2)
    terminal.say("A browser opens the address that `port-forward` prints, then Ctrl-C ends it:")
    async with terminal.open("framework port-forward train worker/0 :6006") as forward:
        output = await forward.see(r"Forwarding from 127\.0\.0\.1:\d+ -> 6006\n")
        await open_page(int(output.partition("127.0.0.1:")[2].partition(" ")[0]))
        await forward.see("Handling connection for .*\n")
        forward.interrupt()


async def open_page(port: int) -> None:
    """Be a browser."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET / HTTP/1.0\r\n\r\n")
    assert (await reader.read()).endswith(b"TensorBoard\n")
    writer.close()
    await writer.wait_closed()


async def change_size(terminal: Terminal, stage: Stage) -> None:
    """`scale`, `remove`."""
    terminal.say("## Change the size: scale, remove")
    async with terminal.open("framework scale train worker=4 --wait", PROGRESS):
        await stage.start("train-worker-3")
    terminal.say("A single Task leaves, and a new one takes its index:")
    async with terminal.open("framework remove train worker/1 --wait", PROGRESS):
        stage.remove("train-worker-1")
    async with terminal.open("framework remove train worker/1 --undo --wait", PROGRESS):
        await stage.start("train-worker-1")


async def repeat(terminal: Terminal, stage: Stage) -> None:
    """`retry`, `suspend`, `resume`, `wait`."""
    terminal.say("## Start again: retry, suspend, resume, wait")
    async with terminal.open("framework retry train worker/0 --wait", PROGRESS):
        stage.remove("train-worker-0")
        await stage.start("train-worker-0")
    terminal.say("`suspend` deletes the Pods, and `resume` begins the next attempt:")
    names = [*WORKERS, "train-worker-3"]
    async with terminal.open("framework suspend train --wait", PROGRESS):
        stage.remove(*names)
    await terminal.type("framework get train -o wide", "framework resume train")
    async with terminal.open("framework wait train --for=condition=Running", PROGRESS):
        await stage.start(*names)
    await stage.wait_for_state("train", "4/4", READY_TASKS_FIELD)


async def type_less(terminal: Terminal) -> None:
    """`completion`, and the plugin of kubectl."""
    terminal.say(
        "## Type less: completion, and the plugin of kubectl",
        "With `source <(framework completion bash)` in `~/.bashrc`, the Tab key completes "
        "commands, options and names. zsh and fish have scripts of their own:",
    )
    await terminal.complete("framework de", "framework logs ", "framework logs train worker/")
    await terminal.type("framework completion zsh | head -n 1")
    terminal.say("kubectl finds the same program as its plugin:")
    await terminal.type("kubectl plugin list", "kubectl framework get train")


async def end_gang(terminal: Terminal, stage: Stage) -> None:
    """`stop`, `wait`, `delete`."""
    terminal.say("## End: stop, wait, delete")
    async with terminal.open("framework stop train --wait", PROGRESS):
        stage.remove(*WORKERS, "train-worker-3")
    await terminal.type("framework wait train", code=1)
    progress = ("train: ", "digits: ")
    await terminal.type("framework delete train digits", "framework get", progress=progress)


async def convert(terminal: Terminal) -> None:
    """`convert`."""
    terminal.say("## Jobs of other kinds: convert", "`tfjob.yaml` has a [TfJob](tfjob.md):")
    terminal.show("tfjob.yaml", TFJOB)
    await terminal.type("framework convert tfjob.yaml -o mnist.yaml", "framework lint mnist.yaml")


async def use_this_machine(terminal: Terminal) -> None:
    """`local`, `version`."""
    terminal.say("## This machine: local, version")
    await terminal.type("framework version", "framework local status", code=1)
