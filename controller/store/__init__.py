"""Store: one entry for each Framework, with three parts that have one writer each."""
