"""How objects leave the server: JSON, metadata only, tables, discovery and OpenAPI documents."""
