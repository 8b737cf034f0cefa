"""What is written into the volume: generations, and the agent for images without it."""
