cimport cython
from libc.stdint cimport int32_t, int64_t

from aiokafka_lead._cpython cimport raw

cdef Py_ssize_t _COPY_BELOW
cdef Py_ssize_t _PARTITION_BYTES

@cython.locals(
    buffer="const unsigned char *", at=Py_ssize_t, topics=Py_ssize_t, size=Py_ssize_t, count=Py_ssize_t, name=bytes,
    acknowledged=dict, found=dict,
)
cpdef object read_plain(object frame, Py_ssize_t position, Py_ssize_t end, bint by_id)

@cython.locals(size=Py_ssize_t)
cdef bytearray _write_partition(int32_t index, object records, list chunks, bytearray out)
