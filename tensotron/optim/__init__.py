"""Optimisers. None exist yet; see docs/unsupported.md."""
