cimport cython
from libc.stdint cimport int16_t, int32_t, int64_t, uint64_t

from aiokafka_lead._cpython cimport raw

cdef Py_ssize_t _FIRST_CAPACITY
cdef Py_ssize_t _MAX_RECORD_OVERHEAD
cdef Py_ssize_t _MAX_BATCH_BYTES
cdef int64_t _INT64_MAX
cdef Py_ssize_t _HEADER_SIZE
cdef int _ATTRIBUTES_AT
cdef int _CRC_AT
cdef int _LENGTH_AT
cdef int _LOG_OVERHEAD
cdef int _MAGIC_AT
cdef int _TRANSACTIONAL_BIT


@cython.locals(zigzag=uint64_t, size=Py_ssize_t)
cdef inline Py_ssize_t varint_size(int64_t value) noexcept

@cython.locals(zigzag=uint64_t)
cdef inline Py_ssize_t write_varint(unsigned char *buffer, Py_ssize_t at, int64_t value) noexcept

@cython.locals(size=Py_ssize_t)
cdef inline Py_ssize_t write_nullable(unsigned char *buffer, Py_ssize_t at, bytes content) noexcept

@cython.locals(size=Py_ssize_t)
cdef inline Py_ssize_t nullable_size(bytes content) noexcept

cdef bytes exact_bytes(object content, str what)

@cython.locals(exact=tuple)
cdef tuple exact_headers(object headers)

cdef tuple converted_headers(tuple headers)

@cython.locals(size=Py_ssize_t, length=Py_ssize_t, header=tuple)
cdef Py_ssize_t headers_size(tuple headers) except -1

@cython.locals(length=Py_ssize_t, header=tuple)
cdef Py_ssize_t write_headers(unsigned char *buffer, Py_ssize_t at, tuple headers) except -1

@cython.locals(size=Py_ssize_t)
cdef inline Py_ssize_t body_size(
    int64_t offset_delta, int64_t timestamp_delta, bytes key, bytes value, Py_ssize_t headers_bytes
) noexcept

cdef Py_ssize_t write_record(
    unsigned char *buffer,
    Py_ssize_t at,
    Py_ssize_t body,
    int64_t offset_delta,
    int64_t timestamp_delta,
    bytes key,
    bytes value,
) noexcept

@cython.locals(exact=tuple, body=Py_ssize_t, record=bytearray)
cpdef bytearray encode_record(
    int64_t offset_delta, int64_t timestamp_delta, bytes key, bytes value, object headers=*
)

@cython.locals(size=Py_ssize_t)
cpdef Py_ssize_t estimated_size(bytes key, bytes value, object headers=*) except -1


@cython.final
cdef class BatchBuilder:
    cdef readonly Py_ssize_t batch_size
    cdef readonly str compression
    cdef readonly object compression_level
    cdef readonly Py_ssize_t record_count
    cdef readonly Py_ssize_t size_bytes
    cdef readonly int64_t base_timestamp_ms
    cdef readonly int64_t max_timestamp_ms
    cdef int _codec
    cdef Py_ssize_t _capacity
    cdef Py_ssize_t _capacity_limit
    cdef bytearray _buffer
    cdef tuple _headers
    cdef Py_ssize_t _headers_at
    cdef Py_ssize_t _headers_bytes
    cdef readonly bint closed
    cdef object _built
    cdef tuple _stamp

    @cython.locals(exact=tuple)
    cpdef Py_ssize_t append(self, int64_t timestamp_ms, object key, object value, object headers=*) except -2

    @cython.locals(count=Py_ssize_t, at=Py_ssize_t)
    cpdef Py_ssize_t append_values(self, int64_t timestamp_ms, object values, Py_ssize_t start) except -2

    @cython.locals(
        index=Py_ssize_t, delta=int64_t, body=Py_ssize_t, at=Py_ssize_t, end=Py_ssize_t, again=bint,
        headers_bytes=Py_ssize_t
    )
    cdef Py_ssize_t _append(self, int64_t timestamp_ms, bytes key, bytes value, tuple headers) except -2

    cpdef int extend(self, Py_ssize_t size, Py_ssize_t at_most) except -1

    @cython.locals(capacity=Py_ssize_t)
    cdef int _grow(self, Py_ssize_t needed) except -1

    cpdef object stamped(
        self, int64_t producer_id, int16_t producer_epoch, int32_t base_sequence, bint transactional=*,
        int32_t leader_epoch=*,
    )
    cdef int _write_header(
        self, unsigned char *buffer, Py_ssize_t size, int attributes, int64_t producer_id, int16_t producer_epoch,
        int32_t base_sequence, int32_t leader_epoch,
    ) except -1
    cdef object _close(self)
    @cython.locals(other=BatchBuilder)
    cpdef BatchBuilder sibling(self, Py_ssize_t batch_size)
    cdef int _begin(self, Py_ssize_t batch_size, str compression, object compression_level) except -1
