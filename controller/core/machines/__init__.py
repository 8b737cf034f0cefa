"""The state machines: of the Framework, of a Task, and of their scale."""
