"""On the PYTHONPATH of a TfJob with JSON logs: ``sitecustomize``, and what it calls."""
