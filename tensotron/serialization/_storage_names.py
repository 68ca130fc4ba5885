"""Storage classes under the names that files have for them: what pickle finds when it writes one."""

from tensotron.serialization._weights_only import SAFE, StorageType

globals().update({t.name: t for t in SAFE.values() if isinstance(t, StorageType)})
