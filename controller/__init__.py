"""The controller: runs Frameworks. ``core`` decides, everything else observes and executes."""
