"""Python imports this at its start: records of ``logging`` become JSON, then the image goes on.

This folder is on the PYTHONPATH only where the annotation ``frameworkbarrier.io/json-logs`` of a
TfJob asks for it. A ``sitecustomize`` of the image, which this file hides, is run as Python does.
"""

import importlib
import importlib.machinery
import importlib.util
import os
import sys


def _run_next() -> None:
    """Run the ``sitecustomize`` that Python would have found without this folder."""
    here = os.path.realpath(os.path.dirname(__file__))
    paths = [path for path in sys.path if os.path.realpath(path) != here]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", paths)
    if spec is None or spec.loader is None:
        return
    module = importlib.util.module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


try:
    importlib.import_module("peers_jsonlogs").install()
except Exception as e:  # noqa: BLE001  # the program of the user is to run in any case
    sys.stderr.write("JSON logs are off: " + type(e).__name__ + "\n")
_run_next()
