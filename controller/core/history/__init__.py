"""What the history log shows of objects before they are replaced."""
