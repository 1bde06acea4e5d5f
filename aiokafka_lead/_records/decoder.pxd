cimport cython
from libc.stdint cimport int32_t, int64_t, uint64_t

from aiokafka_lead._cpython cimport collector, raw
from aiokafka_lead._records.record cimport AnyRecord

cdef int64_t _INT32_MAX
cdef int64_t _INT32_MIN
cdef int64_t _INT64_MAX
cdef int64_t _INT64_MIN
cdef Py_ssize_t _MIN_RECORD_SIZE
cdef Py_ssize_t _SPAN


cdef int corrupt(str what) except -1


@cython.final
cdef class RecordReader:
    cdef object payload
    cdef const unsigned char *data
    cdef Py_ssize_t size
    cdef int64_t base_offset
    cdef int64_t last_offset_delta
    cdef int64_t base_timestamp_ms
    cdef int64_t lowest_delta
    cdef int64_t highest_delta
    cdef Py_ssize_t at
    cdef Py_ssize_t end
    cdef int64_t offset
    cdef int64_t timestamp_ms
    cdef Py_ssize_t key_at
    cdef Py_ssize_t key_size
    cdef Py_ssize_t value_at
    cdef Py_ssize_t value_size

    @cython.locals(size=int64_t, delta=int64_t)
    cdef int enter(self) except -1

    @cython.locals(found=tuple)
    cdef tuple headers(self, int64_t count)

    @cython.locals(
        data="const unsigned char *", at=Py_ssize_t, end=Py_ssize_t, size=int64_t, key=str, content=bytes, header=tuple
    )
    cdef tuple header(self)

    @cython.locals(size=int64_t, count=int64_t)
    cdef int skip_headers(self) except -1

    @cython.locals(count=int64_t)
    cdef inline int64_t header_count(self) except -1

    @cython.locals(size=int64_t, at=Py_ssize_t)
    cdef inline Py_ssize_t header_key(self) except -1

    cdef int finish(self) except -1

    @cython.locals(size=int64_t)
    cdef inline int64_t length(self) except? -4611686018427387904

    @cython.locals(at=Py_ssize_t, zigzag=int, more=int)
    cdef inline int64_t varint(self, int64_t lowest, int64_t highest) except? -4611686018427387904

    @cython.locals(
        data="const unsigned char *", at=Py_ssize_t, end=Py_ssize_t, zigzag=uint64_t, bits=uint64_t, shift=int,
        value=int64_t,
    )
    cdef int64_t long_varint(self, int64_t lowest, int64_t highest) except? -4611686018427387904


@cython.locals(
    reader=RecordReader, stamped=bint, stamp=int64_t, data="const unsigned char *", at=Py_ssize_t, end=Py_ssize_t,
    record=AnyRecord, count=int64_t,
)
cpdef list read_records(
    object payload,
    Py_ssize_t record_count,
    int64_t base_offset,
    int64_t last_offset_delta,
    int64_t base_timestamp_ms,
    object append_time_ms,
    AnyRecord sample,
    int64_t from_offset,
    int64_t last_offset,
)


@cython.final
cdef class RecordIndex:
    cdef readonly object payload
    cdef readonly object offsets
    cdef readonly object timestamps_ms
    cdef readonly object spans

    cpdef list keys(self)
    cpdef list values(self)

    cpdef tuple packed_keys(self)
    cpdef tuple packed_values(self)

    @cython.locals(spans="int32_t *", place=Py_ssize_t)
    cpdef bint has_headers(self) except -1

    @cython.locals(timestamps="int64_t *", at=Py_ssize_t, missing=Py_ssize_t)
    cpdef bint has_missing_times(self) except -1

    @cython.locals(
        data="const unsigned char *", spans="int32_t *", count=Py_ssize_t, total=Py_ssize_t, nulls=Py_ssize_t,
        at=Py_ssize_t, size=Py_ssize_t, ends="int32_t *", contents=bytearray, target="unsigned char *",
        validity=bytearray, end=Py_ssize_t, i=Py_ssize_t,
    )
    cdef tuple packed(self, Py_ssize_t place)

    @cython.locals(
        data="const unsigned char *", spans="int32_t *", found=list, size=Py_ssize_t, at=Py_ssize_t,
        end=Py_ssize_t,
    )
    cdef list contents(self, Py_ssize_t place)

    @cython.locals(reader=RecordReader, spans="int32_t *", found=list, place=Py_ssize_t)
    cpdef list headers(self)


@cython.locals(
    reader=RecordReader, stamped=bint, stamp=int64_t, offsets="int64_t *", timestamps="int64_t *", spans="int32_t *",
    headers_at=Py_ssize_t, found=Py_ssize_t, place=Py_ssize_t,
)
cpdef RecordIndex index_records(
    object payload,
    Py_ssize_t record_count,
    int64_t base_offset,
    int64_t last_offset_delta,
    int64_t base_timestamp_ms,
    object append_time_ms,
    int64_t from_offset,
)


@cython.locals(index=RecordIndex, spans="int32_t *", shift=int32_t, place=Py_ssize_t)
cpdef RecordIndex join_indexes(list indexes)
