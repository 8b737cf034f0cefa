"""Eight DDP ranks (gloo) restart in their Pods after one of them is killed: examples/recovery.yaml.

All ranks begin again at the step of the checkpoint, and no Pod is created.
"""

import re
from pathlib import Path

import yaml

from framework.kube.resources import Object
from tests.consumers.examples import CHECKOUT, Example, start_files

RANKS, STEPS = 8, 12
KILLED_RANK, KILLED_STEP = 3, 4
TRAINING = f"""
import os, pathlib, signal

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

torch.set_num_threads(1)
dist.init_process_group("gloo")
rank, epoch = dist.get_rank(), os.environ["FB_EPOCH"]
path = pathlib.Path("/checkpoint/state.pt")
model, first = torch.nn.Linear(4, 1, bias=False), 0
if path.exists():
    state = torch.load(path)
    first = state["step"]
    model.load_state_dict(state["model"])
model = DistributedDataParallel(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
print(f"epoch {{epoch}}: rank {{rank}} begins at step {{first}}", flush=True)
x = torch.rand(256, 4)
y = x @ torch.tensor([2.0, -3.0, 0.5, 1.5])
for step in range(first, {STEPS}):
    optimizer.zero_grad()
    ((model(x).squeeze(1) - y) ** 2).mean().backward()
    optimizer.step()
    new = path.with_suffix(".new")
    torch.save({{"step": step + 1, "model": model.module.state_dict()}}, new)
    new.replace(path)
    dist.barrier()  # all have the same checkpoint
    if (step, rank, epoch) == ({KILLED_STEP}, {KILLED_RANK}, "0"):
        os.kill(os.getpid(), signal.SIGKILL)
print(f"epoch {{epoch}}: rank {{rank}} has trained all steps", flush=True)
os._exit(0)  # native threads that go on abort the interpreter's own end now and then
"""


def build(directory: Path) -> Path:
    """Write examples/recovery.yaml with eight ranks of PyTorch."""
    framework: Object = yaml.safe_load((CHECKOUT / "examples" / "recovery.yaml").read_text())
    role = framework["spec"]["taskRoles"][0]
    role["taskNumber"] = RANKS
    container = role["task"]["pod"]["spec"]["containers"][0]
    container["args"] = ["python3", "-u", "-c", TRAINING]
    container["env"].append({"name": "OMP_NUM_THREADS", "value": "1"})
    path = directory / "recovery.yaml"
    path.write_text(yaml.safe_dump(framework))
    return path


def read_begins(example: Example, rank: int) -> list[tuple[int, int]]:
    """Epochs and first steps of a rank."""
    begins = re.findall(
        r"^epoch (\d+): rank \d+ begins at step (\d+)$",
        example.read_log(f"worker/{rank}"),
        re.MULTILINE,
    )
    return [(int(epoch), int(step)) for epoch, step in begins]


def test_killed_rank_of_eight_continues_with_all_from_the_checkpoint(tmp_path: Path) -> None:
    with start_files([build(tmp_path)], "torch", tmp_path) as example:
        code = example.finish()
        assert code == 0, example.explain(f"exit code {code}")
    for rank in range(RANKS):
        begins = read_begins(example, rank)
        assert begins[0] == (0, 0), example.explain("another begin")
        assert begins[-1][1] == KILLED_STEP + 1, example.explain("not from the checkpoint")
        assert "has trained all steps" in example.read_log(f"worker/{rank}")
    pods = {path.name for path in (example.directory / "logs").glob("*_recovery-worker-*")}
    assert len(pods) == RANKS, f"Pods were created: {pods}"
