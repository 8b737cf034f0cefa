"""The standard server of TensorFlow, for parameter servers without code of the user.

``framework convert`` starts it for the PS of a TfJob that has no template. It reads TF_CONFIG, and
runs until it is ended. It also runs under Python 2.7, with which TensorFlow 1.3 was published. From
Python 3.7 on, its records of ``logging``, and those of TensorFlow, are JSON.
"""

import importlib
import json
import logging
import os
import sys

_log = logging.getLogger("peers_tensorflow_server")


def set_up_logs():  # type: () -> None  # noqa: ANN201 the file runs on Python 2.7, too
    """Write own records to stdout, all of them as JSON if this Python can."""
    if sys.version_info >= (3, 7):  # noqa: UP036  # see above
        here = os.path.dirname(os.path.abspath(__file__))
        sys.path.append(os.path.join(here, "peers_logs"))
        importlib.import_module("peers_jsonlogs").install()
    _log.addHandler(logging.StreamHandler(sys.stdout))
    _log.setLevel(logging.INFO)
    _log.propagate = False


def main():  # type: () -> None  # noqa: ANN201  # Python 2.7 has no annotations
    """Serve the task of TF_CONFIG."""
    config = json.loads(os.environ["TF_CONFIG"])
    task = config["task"]
    tensorflow = importlib.import_module("tensorflow")
    # TensorFlow 2 has it in `distribute`, versions before 1.14 in `train`.
    room = tensorflow.distribute if hasattr(tensorflow, "distribute") else tensorflow.train
    server = getattr(room, "Server", None) or tensorflow.train.Server
    cluster = tensorflow.train.ClusterSpec(config["cluster"])
    served = server(cluster, job_name=task["type"], task_index=task["index"])
    _log.info("%s/%s serves", task["type"], task["index"])
    served.join()


if __name__ == "__main__":
    set_up_logs()
    main()
