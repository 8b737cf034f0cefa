"""The processes of the Pod: the wrapper and its children, the sidecar and its end."""
