"""How processes of the Pod, and the controller, are notified of a generation."""
