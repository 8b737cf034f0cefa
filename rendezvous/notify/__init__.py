"""Notifies processes of the Pod, and the controller, of a generation."""
