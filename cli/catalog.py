"""The commands of ``framework``, in the order and under the titles of its help.

Each is an attribute of the same name in the module of the same name in ``cli.commands``. A command
that is not called is not imported, so its line of help is here.
"""

PROGRAM = "framework"
COMPLETE_VARIABLE = "_FRAMEWORK_COMPLETE"
"""A variable by which the script of a shell asks for candidates (``cli.shells``)."""
SHELLS = ("bash", "zsh", "fish")
"""Shells with completion."""
STACK_NAMES = ("torch", "tf", "horovod", "mpi", "jax", "deepspeed")
"""Training stacks of `framework init` (``cli.start.stacks``)."""
SECTIONS: dict[str, dict[str, str]] = {
    "Run": {
        "run": "Apply Frameworks and follow them to their end.",
    },
    "See": {
        "get": "Print Frameworks, as a table or in another format.",
        "describe": "Print the state of a Framework, and what needs attention.",
        "tree": "Print a Framework's roles, Tasks and Pods.",
        "events": "Print the Events of a Framework, its Pods and its ConfigMap.",
        "logs": "Print the logs of a Framework's Tasks.",
        "exec": "Run a program in the Pod of a Task.",
        "port-forward": "Connect ports of this machine to those of a Task.",
        "why": "Say what holds a Framework or made it fail, and what helps.",
    },
    "Change": {
        "start": "Start Frameworks that wait to be started.",
        "stop": "End Frameworks and delete their Pods.",
        "suspend": "Delete the Pods of Frameworks until they are resumed.",
        "resume": "Let suspended Frameworks run again.",
        "scale": "Change the number of Tasks of roles.",
        "remove": "Remove single Tasks, or bring them back.",
        "retry": "End attempts of Tasks, so that the next ones begin.",
        "delete": "Delete Frameworks with their Pods.",
        "wait": "Wait for a condition of Frameworks.",
    },
    "Write and check": {
        "init": "Write the first file of a gang.",
        "inject": "Add the agents to the Frameworks of a file.",
        "convert": "Print the Frameworks that TfJobs and TrainingJobs become.",
        "lint": "Find errors that the API server does not report.",
    },
    "This machine": {
        "local": "Start and stop a local cluster.",
        "completion": "Print the script that completes commands and names in a shell.",
        "version": "Print the version.",
    },
}
_APPLY = (
    "`framework run FILE` applies the Frameworks of a file and follows them; "
    "`kubectl apply -f FILE` only applies them"
)
MEANT: dict[str, str] = {
    "apply": _APPLY,
    "create": _APPLY,
    "replace": "`framework run --replace FILE` replaces the Frameworks of a file",
    "edit": "write `kubectl edit framework NAME`",
    "patch": "write `kubectl patch framework NAME`",
    "label": "write `kubectl label framework NAME`",
    "annotate": "write `kubectl annotate framework NAME`",
    "cp": "write `kubectl cp`; `framework tree NAME -o json` has the names of the Pods",
    "top": "write `kubectl top pods -l FC_FRAMEWORK_NAME=NAME`",
    "explain": "write `kubectl explain framework.spec`",
    "restart": "`framework retry` is for Tasks, `framework run --replace FILE` for a Framework",
    "list": "write `framework get`",
    "ls": "write `framework get`",
    "ps": "write `framework get`, or `framework tree NAME` for Tasks and Pods",
    "status": "write `framework describe NAME`, or `framework local status` for the local cluster",
    "up": "write `framework local up`",
    "down": "write `framework local down`",
    "help": "write `framework --help`, or `framework COMMAND --help`",
}
"""Words of kubectl and other programs that are no commands here, and what to write instead."""
