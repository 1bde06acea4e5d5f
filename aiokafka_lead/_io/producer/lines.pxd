cimport cython


@cython.final
cdef class Lines:
    cdef readonly Py_ssize_t calls
    cdef dict _lines
