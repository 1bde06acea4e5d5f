cimport cython

from aiokafka_lead._cpython cimport raw


@cython.final
cdef class FrameReader:
    cdef public Py_ssize_t max_bytes
    cdef readonly object error
    cdef bytearray _scratch
    cdef object _scratch_view
    cdef Py_ssize_t _end
    cdef bytearray _body
    cdef object _body_view
    cdef Py_ssize_t _filled

    cpdef object get_buffer(self)

    @cython.locals(length=int, end=Py_ssize_t, start=Py_ssize_t, stop=Py_ssize_t, frames=list)
    cpdef list received(self, Py_ssize_t count)

    cdef object _grown_scratch(self)
    cdef int _begin_body(self, Py_ssize_t length, object beginning) except -1
    cdef list _received_body(self, Py_ssize_t count)
