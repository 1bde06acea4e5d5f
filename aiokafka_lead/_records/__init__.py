"""Record batch codec for producers, consumers and the embedded cluster."""

from .batch import BatchView, Columns
from .compression import compress, decompress
from .encoder import BatchBuilder, estimated_size
from .layout import DEFAULT_MAX_DECOMPRESSED_BYTES, ControlType, offset_past
from .legacy import MessageSet
from .murmur2 import murmur2
from .reading import read_batches, read_parts
from .record import AnyRecord, ConsumerRecord
from .stored import StoredRecord, assign_offsets, build_batch, control_batch

__all__ = [
    "DEFAULT_MAX_DECOMPRESSED_BYTES",
    "AnyRecord",
    "BatchBuilder",
    "BatchView",
    "Columns",
    "ConsumerRecord",
    "ControlType",
    "MessageSet",
    "StoredRecord",
    "assign_offsets",
    "build_batch",
    "compress",
    "control_batch",
    "decompress",
    "estimated_size",
    "murmur2",
    "offset_past",
    "read_batches",
    "read_parts",
]
