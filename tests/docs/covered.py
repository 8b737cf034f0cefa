"""How each command of the pages is tested: a new command needs a line here.

Commands of ``framework`` in all blocks and mentions are in addition parsed by ``framework`` itself,
those of ``kubectl`` by kubectl, and targets of ``make`` by make (``test_commands.py``).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tests.docs.commands import Command

KUBE = "run as it is by tests/kube/test_docs.py on a real API server"
LOCAL = "run as it is by tests/docs/test_local_commands.py on a local cluster"
TORCH = "run as it is by tests/consumers/test_readme.py with PyTorch"


@dataclass(frozen=True)
class ByTest:
    """Another test, or `.ci/run`, runs the command, or the same command with other values."""

    by: str


@dataclass(frozen=True)
class Parsed:
    """No test runs the command, for this reason; its program parses it if that is possible."""

    reason: str


How = str | ByTest | Parsed

CI = ByTest(".ci/run")
PASTED = ByTest("tests/docs/test_readme.py::test_pasted_framework_runs_torchrun_in_each_pod")
RELEASE = ByTest("tests/release/test_sign.py")
IMAGES = ByTest("tests/release/conftest.py")
NO_NODES = Parsed("waits for Pods of the controller, and the control plane of tests has no nodes")
PLACEHOLDERS = Parsed("has names that the user replaces")

LEFT_NODE = ByTest(
    "tests/kube/test_kinds_controller.py::"
    "test_job_of_each_kind_runs_with_the_rights_of_the_component"
)
LIFETIME = ByTest("tests/kube/test_lifetime.py")
_SUSPEND = 'kubectl patch framework NAME --type=merge -p \'{"spec":{"suspend":%s}}\''
_ROLLOUT = "kubectl -n frameworkbarrier-system rollout status deployment/framework-controller"
_PATCH_OF_RESCALE = """kubectl patch framework rescale --type=json -p '[
  {"op": "test",    "path": "/spec/taskRoles/0/name", "value": "worker"},
  {"op": "replace", "path": "/spec/taskRoles/0/taskNumber", "value": 2},
  {"op": "replace", "path": "/spec/taskRoles/0/frameworkAttemptCompletionPolicy/minFailedTaskCount", "value": 2}]'"""  # noqa: E501 a line of a document

_WAIT = "kubectl wait --for=jsonpath='{.status.phase}'=%s %s --timeout=10m"
_LOCAL_CLUSTER: Mapping[str, How] = {
    "framework local up --detach --kubeconfig ~/.kube/local-framework": LOCAL,
    "export KUBECONFIG=~/.kube/local-framework": LOCAL,
    "framework local down": LOCAL,
}

COVERED: Mapping[str, Mapping[str, How]] = {
    "README.md": {
        "git clone URL frameworkbarrier": PLACEHOLDERS,
        "cd frameworkbarrier": PLACEHOLDERS,
        "make demo": ByTest("tests/e2e/test_demo.py::test_demo_ends_with_five_succeeded_tasks"),
        "make test": CI,
        ". .venv/bin/activate": Parsed("tests have the programs of .venv on the PATH"),
        "framework init mygang --stack torch --workers 2": TORCH,
        "framework run --local --logs mygang.yaml": TORCH,
        "framework run --local examples/retry-task.yaml": LOCAL,
        "framework lint examples/gang.yaml": LOCAL,
        **_LOCAL_CLUSTER,
        "framework run examples/retry-task.yaml": LOCAL,
        "framework get": LOCAL,
        "framework tree retry-task": LOCAL,
        "framework why retry-task": LOCAL,
        "framework logs retry-task worker/0": LOCAL,
        "kubectl get events": LOCAL,
        "kubectl apply --server-side -k deploy/base": KUBE,
        "framework inject --registry registry.example/team --rendezvous wrapper "
        "--output injected.yaml ddp/ddp.yaml": KUBE,
        "framework run injected.yaml": NO_NODES,
        "kubectl apply --server-side -f deploy/base/crd.yaml": KUBE,
        "framework-controller --kubeconfig ~/.kube/config": ByTest(
            "tests/support/servers/frameworkserver.py::launch_controller"
        ),
    },
    "CONTRIBUTING.md": {
        "make": ByTest("tests/docs/test_commands.py::test_targets_of_make_exist"),
        "make demo": ByTest("tests/e2e/test_demo.py::test_demo_ends_with_five_succeeded_tasks"),
        "make init": CI,
        "make test": CI,
        "make test-slow": CI,
        "make test-exhaustive": Parsed(
            "takes ten minutes; other targets run its tests in fewer cases"
        ),
        "make lint": CI,
        "make docs": CI,
    },
    "deploy/agents/README.md": {
        "kubectl apply -k deploy/agents/namespace": KUBE,
        "kubectl kustomize deploy/agents/one-framework | sed 's/FRAMEWORK_NAME/gang/g' "
        "| kubectl apply -f -": KUBE,
        "kubectl kustomize deploy/agents/network | sed 's/GANG_NAME/gang/g' "
        "| kubectl apply -n team-a -f -": KUBE,
        "kubectl apply -k deploy/admission": KUBE,
        "kubectl apply -k deploy/agents/drain": KUBE,
    },
    "docs/api.md": {
        "framework scale rescale worker=6": LOCAL,
        "framework remove rescale worker/1": LOCAL,
        _PATCH_OF_RESCALE: LOCAL,
        _SUSPEND % "true": LIFETIME,
        "kubectl wait --for=condition=Suspended framework/NAME": LIFETIME,
        _SUSPEND % "false": LIFETIME,
    },
    "docs/cli-write.md": {
        "framework inject --restricted train.yaml | kubectl apply -f -": KUBE,
        "framework inject train.yaml -o injected.yaml && framework lint injected.yaml": LOCAL,
        "framework convert tfjob.yaml | kubectl apply -f -": KUBE,
    },
    "docs/tfjob.md": {
        "framework run --local --logs examples/tfjob.yaml": LOCAL,
        **_LOCAL_CLUSTER,
        "kubectl create -f examples/tfjob.yaml": LOCAL,
        "kubectl wait --for=jsonpath='{.status.phase}'=Done tfjob/tfjob --timeout=5m": LOCAL,
        "kubectl get tfjobs": LOCAL,
        "framework logs tfjob master/0": LOCAL,
        "framework convert tfjob.yaml | kubectl apply -f -": KUBE,
    },
    "docs/trainingjob.md": {
        "framework run --local --logs examples/trainingjob.yaml": LOCAL,
        **_LOCAL_CLUSTER,
        "kubectl create -f examples/trainingjob-elastic.yaml": LOCAL,
        "kubectl create -f examples/scaleout.yaml": LOCAL,
        _WAIT % ("ScaleSucceeded", "scaleout/two-more"): LOCAL,
        "kubectl create -f examples/scalein.yaml": LOCAL,
        _WAIT % ("ScaleSucceeded", "scalein/one-less"): LOCAL,
        "kubectl get trainingjobs,scaleouts,scaleins": LOCAL,
        "framework logs elastic-training launcher/0": LOCAL,
        "framework exec elastic-training launcher/0 -- touch /job/end": LOCAL,
        _WAIT % ("Succeeded", "trainingjob/elastic-training"): LOCAL,
        "framework convert training_job.yaml | kubectl apply -f -": KUBE,
        "framework run --local training_job.yaml": ByTest(
            "tests/cli/test_kinds_local.py::test_trainingjob_without_its_secret_gets_one_with_a_new_key"
        ),
        "kubectl cordon NODE": PLACEHOLDERS,
        "kubectl drain NODE --ignore-daemonsets --delete-emptydir-data": PLACEHOLDERS,
        "kubectl get pods -l training-job-name=elastic-training,training-job-role=worker "
        "--field-selector spec.nodeName=NODE -o name": LEFT_NODE,
        "kubectl apply -f leave.yaml": LEFT_NODE,
        "kubectl apply -f back.yaml": LEFT_NODE,
        "kubectl wait scalein/leave --for=condition=ScaleSucceeded --timeout=120s": LEFT_NODE,
        "kubectl scale trainingjobs/elastic-training --replicas=4": ByTest(
            "tests/kube/test_kinds_controller.py"
        ),
        "kubectl patch trainingjob/elastic-training --type=merge "
        '-p \'{"spec":{"etReplicaSpecs":{"worker":{"replicas":4}}}}\'': LOCAL,
    },
    "docs/local-cluster.md": {
        "kubectl create configmap settings --from-literal=steps=5 --dry-run=client -o yaml "
        "| kubectl apply -f -": LOCAL,
    },
    "docs/install.md": {
        "make krew ARGS='--url https://HOST/FOLDER'": ByTest("tests/tools/test_krew.py"),
        "kubectl krew install --manifest=dist/krew/framework.yaml "
        "--archive=dist/krew/kubectl-framework-VERSION.tar.gz": Parsed(
            "needs krew; tests/tools/test_krew.py installs the archive as krew does"
        ),
        "make images": IMAGES,
        'make images ARGS="--base registry.example/python@sha256:DIGEST --only barrier"': IMAGES,
        "docker build -f images/barrier/Dockerfile -t my/framework-barrier .": IMAGES,
        "kubectl apply --server-side -k deploy/base": KUBE,
        "kubectl apply -k deploy/admission": KUBE,
        "kubectl apply -k deploy/tenants/base": KUBE,
        "kubectl apply -k deploy/network": KUBE,
        _ROLLOUT: NO_NODES,
        "kubectl apply -k deploy/overlays/shared-cluster": KUBE,
        "framework inject train.yaml | kubectl apply -n team-a -f -": KUBE,
        "make dist": ByTest("tests/tools/test_distributions.py"),
        "pip install --find-links dist 'frameworkbarrier[local]'": ByTest("tools/releasecheck.py"),
        "kubectl delete frameworks --all --all-namespaces --cascade=foreground": KUBE,
        "kubectl delete serviceaccount,role,rolebinding,networkpolicy,service --all-namespaces "
        "-l app.kubernetes.io/name=frameworkbarrier": KUBE,
        "kubectl delete -k deploy/network --ignore-not-found": KUBE,
        "kubectl delete -k deploy/tenants/base --ignore-not-found": KUBE,
        "kubectl delete -k deploy/admission --ignore-not-found": KUBE,
        "kubectl delete -k deploy/base": KUBE,
    },
    "docs/migration.md": {
        "framework-controller --config FILE --strict-config --address http://127.0.0.1:1 "
        "--health-port 0": PLACEHOLDERS,
        "kubectl -n default scale statefulset frameworkcontroller --replicas=0": KUBE,
        "kubectl -n default wait --for=delete pod/frameworkcontroller-0 --timeout=60s": KUBE,
        "kubectl get crd frameworks.frameworkcontroller.microsoft.com -o yaml "
        "| grep -v '^  resourceVersion:' > old-crd.yaml": KUBE,
        "kubectl replace -f deploy/base/crd.yaml": KUBE,
        "kubectl apply --server-side --force-conflicts -k deploy/base": KUBE,
        _ROLLOUT: NO_NODES,
        "kubectl -n default delete statefulset,serviceaccount frameworkcontroller": KUBE,
        "kubectl delete clusterrolebinding frameworkcontroller": KUBE,
        "kubectl get configmaps -A -l FC_FRAMEWORK_NAME -o name": KUBE,
        "kubectl -n NAMESPACE annotate configmap NAME-attempt "
        "frameworkbarrier.io/roster-version-": PLACEHOLDERS,
        "kubectl replace -f old-crd.yaml": KUBE,
    },
    "docs/operations.md": {
        "kubectl apply --server-side -k deploy/base": KUBE,
        "kubectl apply --server-side -f deploy/base/crd.yaml": KUBE,
        "kubectl apply --server-side -k deploy/overlays/namespaced": KUBE,
    },
    "docs/release.md": {
        "IMAGE=REGISTRY/framework-controller@sha256:DIGEST": RELEASE,
        "cosign verify --key cosign.pub $IMAGE": RELEASE,
        "cosign verify-attestation --key cosign.pub --type cyclonedx $IMAGE": RELEASE,
        "cosign verify-attestation --key cosign.pub --type slsaprovenance1 $IMAGE": RELEASE,
        "cosign verify-blob --key cosign.pub --bundle SHA256SUMS.sigstore.json SHA256SUMS": RELEASE,
        "sha256sum --check SHA256SUMS": RELEASE,
        "kubectl apply --server-side -f install.yaml": ByTest(
            "tests/kube/test_deploy.py::test_install_file_is_accepted_and_equals_the_rendered_base"
        ),
        "make release-check ARGS=--images": ByTest("tests/release/test_reproducible.py"),
        "make images": IMAGES,
        "make dist": ByTest("tests/tools/test_distributions.py"),
        "cosign generate-key-pair": RELEASE,
        'make sign ARGS="--registry HOST/TEAM --key cosign.key '
        '--source git+https://HOST/REPOSITORY"': RELEASE,
    },
    "docs/rendezvous.md": {
        "export PYTHONPATH=/mnt/frameworkbarrier/agent/site": ByTest(
            "tests/security/test_torchrun_store.py"
        ),
        "torchrun --nnodes=1:100 --nproc-per-node=8 --rdzv-backend=framework "
        "--rdzv-endpoint=:29400 train.py": ByTest("tests/consumers/test_torch.py"),
    },
    "docs/security.md": {
        "kubectl kustomize deploy/agents/network | sed 's/GANG_NAME/gang/g' "
        "| kubectl apply -n team-a -f -": KUBE,
    },
    "docs/upgrade.md": {
        "kubectl apply --server-side --force-conflicts -f deploy/base/crd.yaml": KUBE,
        "kubectl apply --server-side -f deploy/base/clusterrole.yaml": KUBE,
        "kubectl apply -k deploy/admission": KUBE,
        "kubectl get role,rolebinding -A -l app.kubernetes.io/name=frameworkbarrier "
        "| grep :drain": Parsed("the Roles that it finds are of earlier releases"),
    },
    "examples/README.md": {
        "kubectl apply -k deploy/agents/namespace": KUBE,
        "framework run --local --directory /tmp/rescale examples/rescale.yaml": LOCAL,
        "export KUBECONFIG=/tmp/rescale/kubeconfig": LOCAL,
        "kubectl get frameworks,pods": LOCAL,
    },
}


def find_how(command: Command) -> How | None:
    """Return how a command of a block is tested; None if nothing tests it."""
    if command.is_usage:
        return ByTest("tests/cli/test_docs.py::test_cli_doc_has_every_option")
    if "<<" in command.text:
        return PASTED
    return COVERED.get(command.page, {}).get(command.text)


def list_covered() -> Iterator[Command]:
    """List the commands of the table."""
    for page, commands in COVERED.items():
        for text in commands:
            yield Command(page, text)
