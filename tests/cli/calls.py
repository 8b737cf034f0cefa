"""The command line in this process, in a directory of its own and without a cluster."""

from pathlib import Path

from click.testing import CliRunner, Result

from cli.exitcodes import ExitCode
from cli.main import main
from framework.clock import SystemClock
from framework.kube.resources import Object
from localcluster.kubelet.logs import LogStore

FRAMEWORK = """\
apiVersion: frameworkcontroller.microsoft.com/v1
kind: Framework
metadata: {name: gang}
spec:
  taskRoles:
  - name: worker
    taskNumber: 1
    task: {pod: {spec: {restartPolicy: Never, containers: [{name: main, image: busybox}]}}}
"""


def call(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments)


def write_kubeconfig(server: str, path: str = "kubeconfig") -> str:
    Path(path).write_text(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\n"
        f"clusters: [{{name: c, cluster: {{server: '{server}'}}}}]\n"
        "users: [{name: c, user: {token: t}}]\n"
        "contexts: [{name: c, context: {cluster: c, user: c}}]\n"
    )
    return path


def check_refusal(result: Result, *parts: str, code: ExitCode = ExitCode.USAGE) -> None:
    """Check exit code and message."""
    assert result.exit_code == code
    for part in parts:
        assert part in result.stderr


def write(text: str) -> None:
    Path("f.yaml").write_text(text)


def keep_log(
    root: Path, uid: str, *lines: tuple[str, str], attempt: str = "0", index: int = 0
) -> Path:
    """Keep the log of a Pod of gang with these lines, each of a container; return its directory."""
    labels = {
        "FC_FRAMEWORK_NAME": "gang",
        "FC_TASKROLE_NAME": "worker",
        "FC_TASK_INDEX": f"{index}",
    }
    metadata: Object = {"namespace": "default", "name": f"p{index}", "uid": uid, "labels": labels}
    metadata |= {"annotations": {"FC_FRAMEWORK_ATTEMPT_ID": attempt}}
    pod = {"metadata": metadata, "spec": {"containers": [{"name": "train"}]}}
    store = LogStore(root / "logs", SystemClock())
    store.register_pod(pod)
    for container, line in lines or [("train", f"at {attempt}")]:
        store.open_log(pod, container).write_text(f"2026-01-01T00:00:00.0Z stdout F {line}\n")
    return root / "logs" / f"default_p{index}_{uid}"
