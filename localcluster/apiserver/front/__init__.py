"""HTTP: who may ask, what is asked, which verb answers it, and streams of watch events."""
