# Named tuples for the compiled modules; tuples.py has the same for plain Python.

from cpython.ref cimport Py_INCREF
from cpython.tuple cimport PyTuple_SET_ITEM


cdef extern from "Python.h":
    object PyType_GenericAlloc(type kind, Py_ssize_t count)
    void PyObject_GC_UnTrack(void *op)


cdef inline object of_four(type kind, object first, object second, object third, object fourth):
    made = PyType_GenericAlloc(kind, 4)
    Py_INCREF(first)
    PyTuple_SET_ITEM(made, 0, first)
    Py_INCREF(second)
    PyTuple_SET_ITEM(made, 1, second)
    Py_INCREF(third)
    PyTuple_SET_ITEM(made, 2, third)
    Py_INCREF(fourth)
    PyTuple_SET_ITEM(made, 3, fourth)
    # Strings and numbers never refer back: the garbage collector need not look at it.
    PyObject_GC_UnTrack(<void *> made)
    return made
