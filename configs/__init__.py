"""Chip description files, one per chip (``ascend*.toml``) and one per core generation (``dav-*.toml``)."""
