import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from cli.exitcodes import CliError, ExitCode
from cli.files.fieldhints import suggest_field, suggest_place
from cli.files.manifests import Manifests, load_manifests, read_objects
from framework.api.constants import API_VERSION
from framework.kube.resources import FRAMEWORKS

FRAMEWORK = """
apiVersion: frameworkcontroller.microsoft.com/v1
kind: Framework
metadata: {name: gang}
spec:
  taskRoles:
  - name: worker
    taskNumber: 1
    task:
      pod:
        spec:
          restartPolicy: Never
          containers: [{name: main, image: busybox}]
"""
CONFIGMAP = """
apiVersion: v1
kind: ConfigMap
metadata: {name: app}
data: {a: b}
"""

Load = Callable[..., Manifests]


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Load:
    monkeypatch.chdir(tmp_path)

    def load_texts(*texts: str, namespace: str | None = None) -> Manifests:
        files = []
        for number, text in enumerate(texts):
            Path(f"{number}.yaml").write_text(text)
            files.append(f"{number}.yaml")
        return load_manifests(files, namespace=namespace, default_namespace="home")

    return load_texts


def load_file(name: str, *, is_local: bool = False) -> Manifests:
    return load_manifests([name], namespace=None, default_namespace="x", is_local=is_local)


def refuse(load: Load, *texts: str, namespace: str | None = None) -> list[str]:
    """Return the lines of the error."""
    with pytest.raises(CliError) as caught:
        load(*texts, namespace=namespace)
    assert caught.value.exit_code is ExitCode.USAGE
    return list(caught.value.lines)


def test_load_manifests_sorts_namespaces_and_configmaps_first(load: Load) -> None:
    service = "apiVersion: v1\nkind: Service\nmetadata: {name: s}\n"
    namespace = "apiVersion: v1\nkind: Namespace\nmetadata: {name: n}\n"
    manifests = load(f"{FRAMEWORK}\n---\n{service}\n---\n{CONFIGMAP}\n---\n{namespace}")
    titles = [manifest.title for manifest in manifests.supporting]
    assert titles == ["namespace/n", "configmap/app", "service/s"]
    assert [manifest.resource for manifest in manifests.frameworks] == [FRAMEWORKS]


@pytest.mark.parametrize(
    ("own", "flag", "effective"),
    [(None, None, "home"), ("mine", None, "mine"), (None, "flag", "flag"), ("f", "f", "f")],
)
def test_load_manifests_with_namespaces_takes_the_nearest(
    load: Load, own: str | None, flag: str | None, effective: str
) -> None:
    text = FRAMEWORK.replace("name: gang", f"name: gang, namespace: {own}") if own else FRAMEWORK
    (framework,) = load(text, namespace=flag).frameworks
    assert framework.namespace == effective
    assert framework.body["metadata"]["namespace"] == effective


def test_load_manifests_with_another_namespace_than_the_flag_refuses(load: Load) -> None:
    text = FRAMEWORK.replace("name: gang", "name: gang, namespace: mine")
    assert refuse(load, text, namespace="flag") == [
        "0.yaml: metadata.namespace: is 'mine', but --namespace says 'flag': remove one of them"
    ]


def test_load_manifests_with_an_invalid_namespace_refuses(load: Load) -> None:
    text = FRAMEWORK.replace("name: gang", "name: gang, namespace: My_NS")
    (line,) = refuse(load, text)
    assert line.startswith("0.yaml: metadata.namespace: 'My_NS' is not a valid namespace: use 1 to")


def test_load_manifests_with_a_misspelt_kind_names_the_kind_that_was_meant(load: Load) -> None:
    (line,) = refuse(load, FRAMEWORK.replace("kind: Framework", "kind: Framwork"))
    assert "kind: 'Framwork'" in line
    assert "did you mean Framework?" in line


def test_load_manifests_reports_all_faults_of_all_files(load: Load) -> None:
    bad_name = FRAMEWORK.replace("gang", "Gang_1")
    duplicate = FRAMEWORK + FRAMEWORK[FRAMEWORK.index("  - name: worker") :]
    lines = refuse(load, "a: [", bad_name, duplicate, "kind: Job\napiVersion: batch/v1\n")
    assert [line.partition(": ")[0] for line in lines] == [
        "0.yaml:1:5", "1.yaml", "2.yaml", "3.yaml",
    ]  # fmt: skip
    assert "metadata.name" in lines[1]
    assert "spec.taskRoles[1].name: 'worker' is also the name of taskRoles[0]" in lines[2]
    assert "kind: 'Job' of apiVersion 'batch/v1' is not run by this command" in lines[3]


@pytest.mark.parametrize(
    ("before", "after", "fault"),
    [
        ("taskNumber: 1", "taskNumber: many", "spec.taskRoles[0].taskNumber: "),
        ("taskNumber: 1", "taskNumber: 10001", "spec.taskRoles[0].taskNumber: "),
        ("name: worker", "name: Worker-1", "spec.taskRoles[0].name: "),
        ("name: gang", "name: UPPER", "metadata.name: "),
        ("{name: gang}", "[]", "metadata: must be an object with a name"),
        ("{name: gang}", "{}", "metadata.name: must be a string: give the object a name"),
        (".com/v1", ".com/v2", "apiVersion: is 'frameworkcontroller.microsoft.com/v2'; write "),
        ("taskRoles:", "executionType: Go\n  taskRoles:", "spec.executionType: "),
    ],
    ids=[
        "type", "range", "role-name", "name", "metadata", "no-name", "api-version", "execution",
    ],
)  # fmt: skip
def test_load_manifests_with_a_fault_names_its_path(
    load: Load, before: str, after: str, fault: str
) -> None:
    (line,) = refuse(load, FRAMEWORK.replace(before, after))
    assert line.startswith(f"0.yaml: {fault}")


def test_load_manifests_with_more_tasks_than_the_crd_allows_says_so(load: Load) -> None:
    role = FRAMEWORK[FRAMEWORK.index("  - name: worker") :].replace("Number: 1", "Number: 6000")
    (line,) = refuse(load, FRAMEWORK.replace("Number: 1", "Number: 6000") + role.replace("w", "x"))
    assert line == (
        "0.yaml: spec.taskRoles: has 12000 Tasks; at most 10000 Tasks are allowed in all roles "
        "together: lower taskNumber, or split the Framework into several"
    )


def test_load_manifests_of_a_missing_file_says_so(load: Load) -> None:
    with pytest.raises(CliError, match=r"absent.yaml: cannot be read: No such file or directory"):
        load_manifests(["absent.yaml"], namespace=None, default_namespace="x")


def test_load_manifests_of_a_file_that_is_no_text_says_so(load: Load) -> None:
    Path("binary.yaml").write_bytes(b"a: \xff\xfe")
    with pytest.raises(CliError, match="not valid UTF-8"):
        load_file("binary.yaml")


def test_load_manifests_with_one_object_twice_names_both_places(load: Load) -> None:
    (line,) = refuse(load, FRAMEWORK, f"{CONFIGMAP}---{FRAMEWORK}")
    assert line == "1.yaml:7: framework/gang is also in 0.yaml: keep one"


def test_load_manifests_with_unknown_fields_warns_of_each(load: Load) -> None:
    text = FRAMEWORK.replace("taskNumber: 1", "taskNumber: 1\n    taskNumbr: 2")
    manifests = load(text.replace("spec:\n  task", "spec:\n  executiontype: Start\n  task"))
    ignored = "unknown field, ignored by the controller"
    assert manifests.warnings == (
        f"0.yaml: spec.executiontype: {ignored}; did you mean executionType?",
        f"0.yaml: spec.taskRoles[0].taskNumbr: {ignored}; did you mean taskNumber?",
    )


def test_load_manifests_from_standard_input_reads_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(FRAMEWORK))
    manifests = load_file("-")
    assert str(manifests.frameworks[0].place) == "standard input"


def test_read_objects_reads_a_file_that_is_named_twice_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(FRAMEWORK))
    ((_, framework),) = read_objects(["-", "-"])["-"]
    assert framework["kind"] == "Framework"


@pytest.mark.usefixtures("load")
def test_load_manifests_for_a_local_cluster_refuses_volume_claims() -> None:
    volume = "volumes: [{name: a, emptyDir: {}}, {name: v, persistentVolumeClaim: {claimName: c}}]"
    text = FRAMEWORK.replace("restartPolicy: Never", f"restartPolicy: Never\n          {volume}")
    claim = "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: c}\n"
    Path("f.yaml").write_text(f"{text}---\n{claim}")
    with pytest.raises(CliError) as caught:
        load_file("f.yaml", is_local=True)
    remedy = "is not served by a local cluster: use an emptyDir or hostPath volume"
    volumes = "spec.taskRoles[0].task.pod.spec.volumes[1]"
    assert caught.value.lines == (
        f"f.yaml:13: Framework gang: {volumes}.persistentVolumeClaim: {remedy}",
        f"f.yaml:17: PersistentVolumeClaim c: kind: PersistentVolumeClaim {remedy}",
    )
    assert len(load_file("f.yaml").supporting) == 1


@pytest.mark.usefixtures("load")
def test_load_manifests_counts_malformed_entries_in_paths() -> None:
    volumes = "volumes: [text, {name: v, persistentVolumeClaim: {claimName: c}}]"
    text = FRAMEWORK.replace("restartPolicy: Never", f"restartPolicy: Never\n          {volumes}")
    text = text.replace("taskRoles:\n", "taskRoles:\n  - text\n  - {name: empty}\n")
    Path("f.yaml").write_text(text)
    with pytest.raises(CliError) as caught:
        load_file("f.yaml", is_local=True)
    (line,) = caught.value.lines
    place = "spec.taskRoles[2].task.pod.spec.volumes[1].persistentVolumeClaim"
    assert line.startswith(f"f.yaml: {place}: is not served")


def test_load_manifests_reports_unreadable_fields_and_broken_rules_together(load: Load) -> None:
    text = FRAMEWORK.replace("taskNumber: 1", 'taskNumber: "2"')
    lines = refuse(load, text.replace("worker", "Worker-1").replace("gang", "Gang"))
    paths = ["spec.taskRoles[0].taskNumber", "metadata.name", "spec.taskRoles[0].name"]
    assert [line.split(": ")[1] for line in lines] == paths


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("spec.taskroles", "taskRoles"),
        ("spec.retryPolicy.maxRetries", "maxRetryCount"),
        ("spec.taskRoles[2].frameworkAttemptCompletionPolicy.minFailedTasks", "minFailedTaskCount"),
        ("spec.taskRoles[0].task.retrypolicy", "retryPolicy"),
        ("spec.taskRoles[0].colour", None),
        ("spec.taskNumber", None),
        ("spec.a.b", None),
        ("Spec", "spec"),
        ("spec.taskRoles[0].replicas", "taskNumber"),
        ("spec.taskRoles[0].task.template", "pod"),
        ("spec.replicas", None),
        ("spec.taskRoles[0].x[1]", None),
    ],
)
def test_suggest_field_takes_the_nearest_of_that_place(path: str, name: str | None) -> None:
    assert suggest_field(path) == name


@pytest.mark.parametrize(
    ("wrong", "right"), [("kind: framework", "Framework"), ("kind: Frameworks", "Framework")]
)
def test_load_manifests_with_a_kind_in_the_wrong_case_says_how_it_is_written(
    load: Load, wrong: str, right: str
) -> None:
    (line,) = refuse(load, FRAMEWORK.replace("kind: Framework", wrong))
    assert line == f"0.yaml: kind: is {wrong[6:]!r}; write {right}"


@pytest.mark.parametrize(("api_version", "kind"), [("v1", "List"), (API_VERSION, "FrameworkList")])
def test_load_manifests_opens_a_list_as_kubectl_prints_it(
    load: Load, api_version: str, kind: str
) -> None:
    items = [yaml.safe_load(text) for text in (FRAMEWORK, FRAMEWORK.replace("gang", "other"))]
    manifests = load(json.dumps({"apiVersion": api_version, "kind": kind, "items": items}))
    assert [manifest.name for manifest in manifests.frameworks] == ["gang", "other"]


def test_load_manifests_opens_a_list_in_a_list(load: Load) -> None:
    inner = {"apiVersion": "v1", "kind": "List", "items": [yaml.safe_load(FRAMEWORK)]}
    manifests = load(json.dumps({"apiVersion": "v1", "kind": "List", "items": [inner]}))
    (manifest,) = manifests.frameworks
    assert str(manifest.place) == "0.yaml: items[0]: items[0]"


def test_load_manifests_with_a_fault_in_a_list_names_its_item(load: Load) -> None:
    items = [yaml.safe_load(CONFIGMAP), {**yaml.safe_load(FRAMEWORK), "spec": []}]
    listed = json.dumps({"apiVersion": "v1", "kind": "List", "items": items})
    (line,) = refuse(load, listed)
    assert line.startswith("0.yaml: items[1]: spec: must be an object")


def test_load_manifests_drops_fields_that_the_server_writes(load: Load) -> None:
    """`kubectl get -o yaml` prints it, and a creation with it is refused."""
    text = FRAMEWORK.replace(
        "{name: gang}", "{name: gang, uid: u, resourceVersion: '7', labels: {}}"
    )
    (manifest,) = load(text).frameworks
    assert manifest.body["metadata"] == {"name": "gang", "namespace": "home", "labels": {}}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            FRAMEWORK.replace(f"apiVersion: {API_VERSION}", ""),
            f"apiVersion: is missing; write {API_VERSION}",
        ),
        ("a: 1", "kind: is missing; a Framework has `kind: Framework`"),
    ],
)
def test_load_manifests_without_apiversion_or_kind_says_so(
    load: Load, text: str, message: str
) -> None:
    assert refuse(load, text) == [f"0.yaml: {message}"]


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ("spec.taskRoles[0].pod", "spec.taskRoles[].task.pod"),
        ("spec.task", "spec.taskRoles[].task"),
        ("spec.taskRoles[0].task.retrypolicy", None),
        ("spec.name", None),
        ("spec.colour", None),
    ],
)
def test_suggest_place_is_that_of_the_only_field_of_this_name(path: str, place: str | None) -> None:
    assert suggest_place(path) == place


@pytest.mark.parametrize(
    ("written", "meant", "hint"),
    [
        ("metadata:", "metadatas:", "with a name; write `metadata` for `metadatas`"),
        ("containers:", "container:", "list at least one container; write `containers` for `conta"),
        ("      pod:", "    pod:", "spec.taskRoles[0].pod: unknown field; its place is spec.taskR"),
        ("      pod:", "      template:", "task.template: unknown field; did you mean pod?"),
    ],
    ids=["metadata", "misspelt", "indentation", "of-another-kind"],
)
def test_missing_field_is_reported_with_its_cause(
    load: Load, written: str, meant: str, hint: str
) -> None:
    assert hint in "\n".join(refuse(load, FRAMEWORK.replace(written, meant)))


@pytest.mark.parametrize(
    ("written", "meant", "fault"),
    [
        ("taskNumber:", "taskNumbers:", "taskRoles[0].taskNumbers: {}; did you mean taskNumber?"),
        ("taskNumber:", "replicas:", "taskRoles[0].replicas: {}; did you mean taskNumber?"),
        ("taskRoles:", "taskRole:", "taskRole: {}; did you mean taskRoles?"),
        (
            "  taskRoles:\n  - name: worker\n    taskNumber: 1\n",
            "  taskNumber: 1\n  taskRoles:\n  - name: worker\n",
            "taskNumber: {}; its place is spec.taskRoles[].taskNumber",
        ),
    ],
    ids=["number", "of-another-kind", "roles", "misplaced"],
)
def test_misspelt_field_without_which_tasks_are_missing_is_refused(
    load: Load, written: str, meant: str, fault: str
) -> None:
    message = "unknown field, so Tasks would be missing"
    lines = refuse(load, FRAMEWORK.replace(written, meant))
    assert lines == [f"0.yaml: spec.{fault.format(message)}"]


def test_misspelt_field_of_one_role_is_refused_although_another_role_has_it(load: Load) -> None:
    role = FRAMEWORK[FRAMEWORK.index("  - name: worker") :].replace("worker", "ps")
    (line,) = refuse(load, FRAMEWORK + role.replace("taskNumber", "taskNumbers"))
    assert "spec.taskRoles[1].taskNumbers: " in line


def test_framework_that_waits_to_be_scaled_up_is_accepted(load: Load) -> None:
    text = FRAMEWORK.replace("taskNumber: 1", "colour: red")
    (warning,) = load(text).warnings
    assert "spec.taskRoles[0].colour: unknown field" in warning


def test_unknown_field_beside_the_spec_is_a_warning(load: Load) -> None:
    (warning,) = load(f"{FRAMEWORK}Spec: {{}}\n").warnings
    assert warning.endswith(": Spec: unknown field, ignored by the controller; did you mean spec?")
