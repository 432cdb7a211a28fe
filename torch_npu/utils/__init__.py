"""Small helpers: error codes."""
