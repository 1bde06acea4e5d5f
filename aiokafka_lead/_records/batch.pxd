cimport cython
from libc.stdint cimport int32_t, int64_t

from aiokafka_lead._records.decoder cimport RecordIndex, index_records, read_records
from aiokafka_lead._records.record cimport AnyRecord

cdef int _CODEC_MASK
cdef int _LOG_APPEND_TIME_BIT
cdef int _TRANSACTIONAL_BIT
cdef int _CONTROL_BIT
cdef object _CREATE_TIME
cdef object _LOG_APPEND_TIME
cdef object _NO_TIMESTAMP
cdef int64_t _INT64_MAX
cdef int64_t _RECORD_BYTES


@cython.final
cdef class Columns:
    cdef readonly RecordIndex index
    cdef list _offsets
    cdef list _timestamps_ms
    cdef list _keys
    cdef list _values
    cdef list _headers


@cython.final
cdef class BatchView:
    cdef readonly int64_t base_offset
    cdef readonly int64_t last_offset
    cdef readonly int64_t next_offset
    cdef readonly int64_t base_timestamp_ms
    cdef readonly int64_t max_timestamp_ms
    cdef readonly int64_t producer_id
    cdef readonly int32_t leader_epoch
    cdef readonly int32_t producer_epoch
    cdef readonly int32_t base_sequence
    cdef readonly int32_t record_count
    cdef readonly int magic
    cdef readonly bint is_transactional
    cdef readonly bint is_control
    cdef readonly object timestamp_type
    cdef readonly str compression
    cdef readonly Py_ssize_t size_bytes
    cdef object _payload
    cdef bint _compressed
    cdef Py_ssize_t _max_decompressed_bytes
    cdef object _failure

    cpdef object load(self)
    cpdef list records_like(self, AnyRecord sample, int64_t from_offset, int64_t last_offset)
    cpdef list records(self, str topic, int32_t partition, int64_t from_offset=*)
    cpdef Columns columns(self, int64_t from_offset=*)
