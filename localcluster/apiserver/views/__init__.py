"""The forms of answers: JSON, metadata only, tables, discovery and OpenAPI documents."""
