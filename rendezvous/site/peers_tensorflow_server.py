"""The standard server of TensorFlow, for parameter servers without code of the user.

``framework convert`` starts it for the PS of a TfJob that has no template. It reads TF_CONFIG, and
runs until it is ended. It also runs under Python 2.7, with which TensorFlow 1.3 was published.
"""

import importlib
import json
import os
import sys


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
    sys.stdout.write("%s/%s serves\n" % (task["type"], task["index"]))  # noqa: UP031  # Python 2.7
    sys.stdout.flush()
    served.join()


if __name__ == "__main__":
    main()
