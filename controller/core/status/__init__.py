"""The parts of the status that do not belong to a machine, and the Events of its changes."""
