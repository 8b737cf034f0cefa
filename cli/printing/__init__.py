"""The output formats of commands (``-o``): JSON, YAML, names, JSONPath, columns. As kubectl's."""
