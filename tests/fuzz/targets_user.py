"""What the command line decodes: YAML, manifests, and jobs of other kinds."""

from typing import Any

from cli.authoring.rules import LintOptions, lint
from cli.exitcodes import CliError
from cli.files.manifests import load_manifests, read_objects
from framework.api.fielderrors import FieldErrors
from framework.kinds.tfjob.compile import compile_tfjob
from framework.kinds.trainingjob.compile import compile_trainingjob
from framework.strictyaml import YamlError, load_documents
from tests.framework.kinds.jobs import build_tfjob, build_trainingjob
from tests.fuzz.budget import YAML_BUDGET, Budget, Target
from tests.fuzz.forms import read_object, to_bytes, to_text, write_file
from tests.fuzz.targets_controller import FRAMEWORK

YAML = b"""# comment
a: &anchor {b: [1, 0x1f, 0o17, 1.5, .inf, yes, ~], "c": 'd'}
<<: *anchor
text: |
  line
list:
- *anchor
---
second: >-
  folded
"""


_VARIABLE = {"name": "LR", "value": "0.1"}
_MOUNT = {"name": "site", "mountPath": "/mnt/frameworkbarrier"}
_BARRIER = {"name": "barrier", "image": "frameworkbarrier/framework-barrier:0.1", "env": []}
_SIDECAR = {
    "name": "rendezvous",
    "image": "frameworkbarrier/framework-rendezvous:0.1",
    "restartPolicy": "Always",
    "volumeMounts": [_MOUNT],
    "env": [{"name": "FB_FORMATS", "value": "pytorch"}],
}
_TRAINING = {
    "name": "main",
    "image": "registry.team/train:1",
    "command": ["sh", "-c", "torchrun --rdzv_id=1 train.py --ps $FB_PS_ADDRESSES"],
    "env": [_VARIABLE],
    "volumeMounts": [_MOUNT],
    "resources": {"limits": {"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": 1}},
}
TEMPLATE = {
    "metadata": {"annotations": {"frameworkbarrier.io/drain-sec": "3"}, "labels": {"FC_X": "y"}},
    "spec": {
        "restartPolicy": "Never",
        "serviceAccountName": "frameworkbarrier",
        "nodeSelector": {"accelerator": "a100"},
        "initContainers": [_BARRIER, _SIDECAR],
        "containers": [_TRAINING],
        "volumes": [{"name": "site", "emptyDir": {}}],
    },
}
MISSPELT = {
    "spec": {
        "restartpolicy": "never",
        "nodeSelector": {"a": True},
        "container": [],
        "volumes": [{"name": "data"}],
        "containers": [
            {
                "names": "main",
                "imag": "x",
                "volumeMounts": [{"name": "dta", "mountpath": "/data"}],
                "env": [{"name": 1, "value": 2}],
                "args": [8080],
                "resources": {"limit": {}, "requests": {"cpu": "1 core"}},
            }
        ],
    }
}
# Each word of a command may have a fault, with a text of its own.
_TEMPLATE_BUDGET = Budget(seconds_per_mib=20.0, mib_per_mib=400.0)
# A short text may ask for 10,000 Services.
_KIND_BUDGET = Budget(base_seconds=1.0, base_mib=64.0)


def _load_yaml(text: str) -> object:
    return load_documents(text, "file.yaml")


def _load_manifests(path: str) -> object:
    return load_manifests([path], namespace=None, default_namespace="default", is_local=True)


def _lint(path: str) -> object:
    return [lint(document, LintOptions()) for _, document in read_objects([path])[path]]


def _lint_template(template: dict[str, Any]) -> object:
    role, _ = FRAMEWORK["spec"]["taskRoles"]
    body = {**role, "task": {**role["task"], "pod": template}}
    framework = {**FRAMEWORK, "spec": {**FRAMEWORK["spec"], "taskRoles": [body]}}
    return lint(framework, LintOptions(for_original=True, quota=("cpu", "memory")))


USER_TARGETS = (
    Target(
        "yaml",
        _load_yaml,
        (YAML,),
        to_text,
        (YamlError,),
        max_bytes=262144,
        budget=YAML_BUDGET,
        fixed_inputs=1000,
    ),
    Target(
        "manifests",
        _load_manifests,
        (to_bytes(FRAMEWORK), YAML),
        write_file,
        (CliError,),
        max_bytes=262144,
        budget=YAML_BUDGET,
        fixed_inputs=1000,
    ),
    Target(
        "lint",
        _lint,
        (to_bytes(FRAMEWORK),),
        write_file,
        (CliError,),
        max_bytes=262144,
        budget=YAML_BUDGET,
        fixed_inputs=1000,
    ),
    Target(
        "pod-template",
        _lint_template,
        (to_bytes(TEMPLATE), to_bytes(MISSPELT)),
        read_object,
        (FieldErrors,),
        budget=_TEMPLATE_BUDGET,
        fixed_inputs=2000,
    ),
    Target(
        "tfjob",
        compile_tfjob,
        (to_bytes(build_tfjob(tensorboard={"logDir": "/logs"})),),
        read_object,
        (FieldErrors,),
        budget=_KIND_BUDGET,
        fixed_inputs=2000,
    ),
    Target(
        "trainingjob",
        compile_trainingjob,
        (to_bytes(build_trainingjob()),),
        read_object,
        (FieldErrors,),
        budget=_KIND_BUDGET,
        fixed_inputs=2000,
    ),
)
