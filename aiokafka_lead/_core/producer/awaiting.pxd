# Awaiting for the compiled module of `Delivery`; awaiting.py has the same for plain Python.
#
# `await` asks a type's am_await for an iterator, and then am_send of that for the result (PEP 492, and PyIter_Send of
# Python 3.10). A delivery that is done is its own iterator here; the generator of `__await__` serves all others.

from cpython.object cimport PyTypeObject


cdef extern from *:
    """
    typedef struct {
        unaryfunc wait;
        int (*is_done)(PyObject *);
        PyObject *(*result)(PyObject *);
    } aiokafka_lead_awaiting;

    static aiokafka_lead_awaiting aiokafka_lead_await;

    static PyObject *aiokafka_lead_am_await(PyObject *self) {
        if (!aiokafka_lead_await.is_done(self))
            return aiokafka_lead_await.wait(self);
        Py_INCREF(self);
        return self;
    }

    static PySendResult aiokafka_lead_am_send(PyObject *self, PyObject *sent, PyObject **result) {
        *result = aiokafka_lead_await.result(self);
        return *result == NULL ? PYGEN_ERROR : PYGEN_RETURN;
    }

    /* What the interpreter calls instead while a debugger or profiler is at work. */
    static PyObject *aiokafka_lead_iternext(PyObject *self) {
        PyObject *result;
        if (!aiokafka_lead_await.is_done(self)) {
            PyErr_SetString(PyExc_TypeError, "a delivery is no iterator: await it");
            return NULL;
        }
        result = aiokafka_lead_await.result(self);
        if (result != NULL) {
            PyObject *stop = PyObject_CallOneArg(PyExc_StopIteration, result);
            Py_DECREF(result);
            if (stop != NULL) {
                PyErr_SetObject(PyExc_StopIteration, stop);
                Py_DECREF(stop);
            }
        }
        return NULL;
    }

    static void aiokafka_lead_shorten_await(
        PyTypeObject *kind, int (*is_done)(PyObject *), PyObject *(*result)(PyObject *)
    ) {
        aiokafka_lead_await.wait = kind->tp_as_async->am_await;
        aiokafka_lead_await.is_done = is_done;
        aiokafka_lead_await.result = result;
        kind->tp_as_async->am_await = aiokafka_lead_am_await;
        kind->tp_as_async->am_send = aiokafka_lead_am_send;
        kind->tp_iternext = aiokafka_lead_iternext;
        PyType_Modified(kind);
    }
    """
    void aiokafka_lead_shorten_await(PyTypeObject *kind, bint (*is_done)(object) noexcept, object (*result)(object))


cdef inline int shorten_await(type kind, bint (*is_done)(object) noexcept, object (*result)(object)) except -1:
    aiokafka_lead_shorten_await(<PyTypeObject *> kind, is_done, result)
    return 0
