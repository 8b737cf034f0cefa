"""Parts of the status that no machine moves: new entries, conditions and the size of texts."""
