"""The training stacks for which ``framework init`` writes a gang, each with its example. Pure."""

from dataclasses import dataclass, field

WORKER = "worker"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stack:
    """An example of this project, and what changes in it for another gang."""

    title: str
    """Words for the first line of the file."""
    example: str
    """File below examples/; packaged as a template."""
    needs: str
    """Programs with their versions that must be on the PATH, here or in the image."""
    image: str
    """Image of the training containers in the example."""
    secret: str | None = None
    """Name of the Secret with the ssh key in the example; None if the gang uses no ssh."""
    is_image_known: bool = True
    """Whether the image can be pulled; else the user must name one."""
    uses_gpus: bool = True
    """Whether the script of the example computes on GPUs if there are any."""
    cpu_variables: frozenset[str] = field(default_factory=frozenset)
    """Variables of the example that hide GPUs."""
    has_slots: bool = False
    """Whether there is one process for each GPU (FB_SLOTS), not one for each Pod."""

    @property
    def name(self) -> str:
        """Return the name of the Framework in the example."""
        return self.example.rpartition("/")[2].removesuffix(".yaml")


PLAIN = Stack(
    title="plain Python: one parameter server and its workers",
    example="gang.yaml",
    needs="python3",
    image="python:3.12-slim",
    uses_gpus=False,
)
STACKS = {
    "torch": Stack(
        title="PyTorch DistributedDataParallel under torchrun",
        example="stacks/torchrun-ddp.yaml",
        needs="torchrun of PyTorch 2 or newer",
        image="pytorch/pytorch:latest",
        has_slots=True,
    ),
    "tf": Stack(
        title="TensorFlow MultiWorkerMirroredStrategy",
        example="stacks/tensorflow-multi-worker.yaml",
        needs="python3 with TensorFlow 2.4 or newer",
        image="tensorflow/tensorflow:2.21.0",
        cpu_variables=frozenset({"CUDA_VISIBLE_DEVICES"}),
    ),
    "horovod": Stack(
        title="elastic Horovod: a launcher and its workers",
        example="stacks/horovod-elastic.yaml",
        needs="horovodrun of Horovod 0.20 or newer with torch, sshd",
        image="your/horovod-with-sshd:1",
        secret="horovod-ssh",
        is_image_known=False,
        uses_gpus=False,
        has_slots=True,
    ),
    "mpi": Stack(
        title="Open MPI: a launcher and its workers",
        example="stacks/mpi-openmpi.yaml",
        needs="mpirun of Open MPI 4 or 5, sshd, python3 with mpi4py and numpy",
        image="your/openmpi-with-sshd:1",
        secret="mpi-ssh",
        is_image_known=False,
        uses_gpus=False,
        has_slots=True,
    ),
    "jax": Stack(
        title="JAX, with gradients averaged over all processes",
        example="stacks/jax-data-parallel.yaml",
        needs="python3 with JAX 0.6.1 or newer",
        image="your/jax:1",
        is_image_known=False,
        cpu_variables=frozenset({"JAX_PLATFORMS"}),
    ),
    "deepspeed": Stack(
        title="DeepSpeed's launcher in every Pod, with ZeRO",
        example="stacks/deepspeed-launcher.yaml",
        needs="deepspeed 0.14.5 or newer",
        image="deepspeed/deepspeed:latest",
        cpu_variables=frozenset({"DS_ACCELERATOR"}),
        has_slots=True,
    ),
}
