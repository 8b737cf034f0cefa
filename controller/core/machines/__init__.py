"""The state machines of the Framework and of a Task, and the scale of the attempt."""
