from libc.stdint cimport int64_t


cdef class Flushes:
    cdef dict _pending
    cdef list _tickets

    cpdef started(self, int64_t ordinal, Py_ssize_t batches)
    cpdef finished(self, int64_t ordinal, int64_t latest)
