"""What the whole server speaks of: errors, names, quantities, resource types, metadata. Pure."""
