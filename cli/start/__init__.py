"""What a user needs to start: completion of the shell, first files, programs in running Pods."""
