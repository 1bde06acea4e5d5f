# Lets compiled types be awaited. awaiting.py is the plain Python version.
#
# `await` asks the type's am_await for an iterator, and then that iterator's am_send for the result (PEP 492, and
# PyIter_Send of Python 3.10). Here, an object that is ready is its own iterator. All other objects use the type's
# `__await__`. If an asyncio task runs such an object as its coroutine, it calls am_send without am_await, so `take` may
# raise.

from cpython.object cimport PyTypeObject


cdef extern from *:
    """
    #ifdef AIOKAFKA_LEAD_WITHOUT_AWAITING

    #define aiokafka_lead_shorten_await(kind, ready, take) ((void) (ready), (void) (take))

    #else

    typedef struct {
        unaryfunc wait;
        int (*ready)(PyObject *);
        PyObject *(*take)(PyObject *);
    } aiokafka_lead_awaiting;

    static aiokafka_lead_awaiting aiokafka_lead_await;

    static inline PyObject *aiokafka_lead_am_await(PyObject *self) {
        int ready = aiokafka_lead_await.ready(self);
        if (ready < 0)
            return NULL;
        if (!ready)
            return aiokafka_lead_await.wait(self);
        Py_INCREF(self);
        return self;
    }

    static inline PySendResult aiokafka_lead_am_send(PyObject *self, PyObject *sent, PyObject **result) {
        *result = aiokafka_lead_await.take(self);
        return *result == NULL ? PYGEN_ERROR : PYGEN_RETURN;
    }

    /* Called by `yield from`, and by the interpreter while a debugger or profiler is active. */
    static inline PyObject *aiokafka_lead_iternext(PyObject *self) {
        PyObject *result = aiokafka_lead_await.take(self);
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

    static inline void aiokafka_lead_shorten_await(
        PyTypeObject *kind, int (*ready)(PyObject *), PyObject *(*take)(PyObject *)
    ) {
        aiokafka_lead_await.wait = kind->tp_as_async->am_await;
        aiokafka_lead_await.ready = ready;
        aiokafka_lead_await.take = take;
        kind->tp_as_async->am_await = aiokafka_lead_am_await;
        kind->tp_as_async->am_send = aiokafka_lead_am_send;
        kind->tp_iter = PyObject_SelfIter;
        kind->tp_iternext = aiokafka_lead_iternext;
        PyType_Modified(kind);
    }

    #endif
    """
    void aiokafka_lead_shorten_await(PyTypeObject *kind, int (*ready)(object) except -1, object (*take)(object))


cdef inline int shorten_await(type kind, int (*ready)(object) except -1, object (*take)(object)) except -1:
    aiokafka_lead_shorten_await(<PyTypeObject *> kind, ready, take)
    return 0
