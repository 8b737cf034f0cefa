"""Queues: which key is decided next, and which action is sent next."""
