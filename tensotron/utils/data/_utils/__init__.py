"""Parts of the data loader."""

from tensotron.utils.data._utils import collate, worker

__all__ = ["collate", "worker"]
