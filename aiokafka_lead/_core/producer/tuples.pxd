# Named tuples for the compiled modules; tuples.py has the same for plain Python.

from cpython.ref cimport Py_INCREF
from cpython.tuple cimport PyTuple_SET_ITEM


cdef extern from *:
    """
    static PyObject *aiokafka_lead_new_tuple(PyTypeObject *kind, Py_ssize_t size) {
        return (PyObject *) PyObject_GC_NewVar(PyTupleObject, kind, size);
    }
    """
    object aiokafka_lead_new_tuple(type kind, Py_ssize_t size)


cdef inline object of_four(type kind, object first, object second, object third, object fourth):
    # Strings and numbers never refer back: the garbage collector need not look at it, and is not told of it.
    made = aiokafka_lead_new_tuple(kind, 4)
    Py_INCREF(first)
    PyTuple_SET_ITEM(made, 0, first)
    Py_INCREF(second)
    PyTuple_SET_ITEM(made, 1, second)
    Py_INCREF(third)
    PyTuple_SET_ITEM(made, 2, third)
    Py_INCREF(fourth)
    PyTuple_SET_ITEM(made, 3, fourth)
    return made
