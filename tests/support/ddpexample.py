"""Changes examples/stacks/recovery-ddp.yaml so that its ranks note their steps and their deaths.

The tests of the node and ``benchmarks.recovery_torch`` read the notes. All ranks write them into
one file, beside their checkpoints, in a volume that outlives the Pods.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from tests.support.machine.processends import ProcessEnds

RANKS, SCRIPT = 8, "/app/train.py"
PYTHON, TORCHRUN = "python3, -u", "python3, -m, torch.distributed.run"
# The arguments of a rank, started by `run` or by torchrun.
RANK_ARGUMENTS = ("-u", SCRIPT)
# torchrun alone: it starts its workers again when one of them fails.
_PLAIN = f"{TORCHRUN}, --standalone, --nproc-per-node={RANKS}"
# Else a worker that torchrun has started again may read addresses of the workers before it.
_OWN_STORE = '            - {name: TORCH_DISABLE_SHARE_RDZV_TCP_STORE, value: "1"}\n'
_RUN = "[python3, /mnt/frameworkbarrier/agent/rendezvous.pyz, run, --]"
# Each line: time, epoch, rank, UID of the Pod, event and its step.
_NOTE = """\
    def note(event):
        fields = time.time(), os.environ["EPOCH"], os.environ["RANK"], os.environ["POD_UID"]
        with open("/checkpoint/notes", "a") as notes:
            notes.write(" ".join(map(str, fields)) + f" {event}\\n")
"""
_EPOCH = """\
        count = os.environ.get("TORCHELASTIC_RESTART_COUNT")
        os.environ["EPOCH"] = os.environ.get("FB_EPOCH") or count
"""
_ENV = """\
            - {{name: FB_SLOTS, value: "{slots}"}}
            - name: POD_UID
              valueFrom: {{fieldRef: {{fieldPath: metadata.uid}}}}
"""


class Death(NamedTuple):
    """A rank kills itself after a step; the checkpoint is of the next one."""

    step: int
    rank: int
    epoch: int


class Note(NamedTuple):
    """An event of a rank."""

    at: float
    """Wall time in seconds."""
    epoch: int
    """Restarts before."""
    rank: int
    """Rank of the process."""
    pod: str
    """UID of its Pod."""
    event: str
    """begin, step or dies."""
    step: int
    """The first step, or the step that is done."""


class Recovered(NamedTuple):
    """Seconds from the death of a rank."""

    ended: float
    """Until all other ranks had ended."""
    trained: float
    """Until all ranks have ended a step again."""


def replace_all(text: str, *pairs: tuple[str, str]) -> str:
    """Replace texts, each of which must be there."""
    for before, after in pairs:
        if before not in text:
            raise ValueError(f"the example has no {before!r}")
        text = text.replace(before, after)
    return text


def add_notes(text: str, deaths: Sequence[Death]) -> str:
    """Let the ranks note what they do, die as wanted, and share a volume."""
    listed = ", ".join(f'({step}, {rank}, "{epoch}")' for step, rank, epoch in deaths)
    steps = max(death.step for death in deaths) + 4
    return replace_all(
        text,
        ("    import signal\n", "    import signal\n    import time\n"),
        ("STEPS, POINTS = 12,", f"STEPS, POINTS = {steps},"),
        ("    def save(", f"{_NOTE}\n\n    def save("),
        ("    def main():\n", f"    def main():\n{_EPOCH}"),
        ('os.environ["FB_EPOCH"]', 'os.environ["EPOCH"]'),
        ("        x = torch.rand(", '        note(f"begin {first}")\n        x = torch.rand('),
        (
            "            dist.barrier()  # all have the same checkpoint\n",
            '            dist.barrier()\n            note(f"step {step}")\n',
        ),
        ('== (4, 1, "0"):\n', f'in [{listed}]:\n                note(f"dies {{step}}")\n'),
        ('"/checkpoint/state.pt"', "f\"/checkpoint/state-{os.environ['RANK']}.pt\""),
    )


def change_gang(text: str, pods: int, program: str, restarts: int, retries: int) -> str:
    """Run the ranks in this many Pods, by ``PYTHON`` or ``TORCHRUN``, with this budget."""
    return replace_all(
        text,
        ("taskNumber: 3", f"taskNumber: {pods}"),
        ("maxRestarts: 3", f"maxRestarts: {restarts}"),
        (
            "fancyRetryPolicy: false, maxRetryCount: 0",
            f"fancyRetryPolicy: false, maxRetryCount: {retries}",
        ),
        ("args: [python3, -u, /app/train.py]", f"args: [{program}, {SCRIPT}]"),
        ("            env:\n", "            env:\n" + _ENV.format(slots=RANKS // pods)),
    )


def make_plain(text: str, restarts: int) -> str:
    """Run all ranks in one Pod without our agents: torchrun restarts them."""
    return replace_all(
        change_gang(text, 1, PYTHON, restarts, 0),
        ('annotations: {frameworkbarrier.io/wrapper: "true"}', "annotations: {}"),
        (
            f"    recovery:\n      inPlace: {{maxRestarts: {restarts}, withinSeconds: 3600}}\n",
            "",
        ),
        (f"command: {_RUN}", f"command: [{_PLAIN}, --max-restarts={restarts}, {SCRIPT}]"),
        (f"            args: [{PYTHON}, {SCRIPT}]\n", ""),
        ("            env:\n", "            env:\n" + _OWN_STORE),
    )


def mount_checkpoints(text: str, source: str) -> str:
    """Take the volume of the checkpoints from this source, in YAML."""
    before = "          - name: checkpoint\n            emptyDir: {}\n"
    return replace_all(text, (before, f"          - name: checkpoint\n            {source}\n"))


def read_notes(folder: Path) -> list[Note]:
    """Read what the ranks have noted so far."""
    notes = []
    for line in (folder / "notes").read_text(encoding="ascii").splitlines():
        at, epoch, rank, pod, event, step = line.split()
        notes.append(Note(float(at), int(epoch), int(rank), pod, event, int(step)))
    return notes


def measure(notes: Sequence[Note], ends: ProcessEnds, epoch: int) -> Recovered:
    """Measure the recovery from the death in this epoch."""
    (died,) = (note.at for note in notes if (note.epoch, note.event) == (epoch, "dies"))
    steps: dict[int, float] = {}
    for note in notes:
        if (note.epoch, note.event) == (epoch + 1, "step"):
            steps.setdefault(note.rank, note.at)
    return Recovered(max(ends.list_ends(died)) - died, max(steps.values()) - died)
