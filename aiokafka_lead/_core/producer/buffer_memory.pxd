cimport cython


@cython.final
cdef class BufferMemory:
    cdef readonly Py_ssize_t limit
    cdef public Py_ssize_t used
    cdef readonly object waiting
    cdef readonly Py_ssize_t open_until
    cdef Py_ssize_t _headroom

    cdef int _grant(self) except -1
