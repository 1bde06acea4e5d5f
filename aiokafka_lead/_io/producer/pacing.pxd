cimport cython

from aiokafka_lead._core.producer.request_window cimport RequestWindow
from aiokafka_lead._io.connection.connection cimport Connection


@cython.final
cdef class Pacing:
    cdef dict _known

    cpdef bint is_full(self, Connection connection, Py_ssize_t filled_bytes=*) except -1

    cpdef double served_s(self, Connection connection) except -1

    @cython.locals(window=RequestWindow)
    cpdef submit(self, Connection connection, object request, int version, object on_done)

    @cython.locals(known=tuple)
    cdef RequestWindow _of(self, Connection connection)


@cython.final
cdef class UnderWay:
    cdef RequestWindow _window
    cdef double _sent_at
    cdef object _on_done
