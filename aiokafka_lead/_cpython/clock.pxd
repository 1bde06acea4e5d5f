# Clocks and the thread's id for compiled modules. clock.py is the plain Python version.

from libc.stdint cimport int64_t


cdef extern from *:
    """
    #ifdef AIOKAFKA_LEAD_WITHOUT_CLOCK

    /* The function is looked up once. */
    static inline PyObject *aiokafka_lead_ask(PyObject **function, const char *module, const char *name) {
        if (*function == NULL) {
            PyObject *home = PyImport_ImportModule(module);
            if (home == NULL)
                return NULL;
            *function = PyObject_GetAttrString(home, name);
            Py_DECREF(home);
            if (*function == NULL)
                return NULL;
        }
        return PyObject_CallNoArgs(*function);
    }

    static inline double aiokafka_lead_monotonic_s(void) {
        static PyObject *function;
        PyObject *answer = aiokafka_lead_ask(&function, "time", "monotonic");
        double seconds = answer == NULL ? -1.0 : PyFloat_AsDouble(answer);
        Py_XDECREF(answer);
        return seconds;
    }

    static inline int64_t aiokafka_lead_wall_ms(void) {
        static PyObject *function;
        PyObject *answer = aiokafka_lead_ask(&function, "time", "time_ns");
        long long ns = answer == NULL ? -1 : PyLong_AsLongLong(answer);
        Py_XDECREF(answer);
        return ns < 0 ? -1 : (int64_t) (ns / 1000000);
    }

    static inline unsigned long aiokafka_lead_thread_id(void) {
        static PyObject *function;
        PyObject *answer = aiokafka_lead_ask(&function, "threading", "get_ident");
        unsigned long thread = answer == NULL ? (unsigned long) -1 : PyLong_AsUnsignedLong(answer);
        Py_XDECREF(answer);
        return thread;
    }

    #else

    #include <time.h>

    static inline double aiokafka_lead_monotonic_s(void) {
    #if PY_VERSION_HEX >= 0x030D0000
        PyTime_t now;
        (void) PyTime_MonotonicRaw(&now);
        return PyTime_AsSecondsDouble(now);
    #else
        return _PyTime_AsSecondsDouble(_PyTime_GetMonotonicClock());
    #endif
    }

    static inline int64_t aiokafka_lead_wall_ms(void) {
        struct timespec now;
        timespec_get(&now, TIME_UTC);
        return (int64_t) now.tv_sec * 1000 + now.tv_nsec / 1000000;
    }

    #define aiokafka_lead_thread_id() PyThread_get_thread_ident()

    #endif
    """
    double monotonic_s "aiokafka_lead_monotonic_s" () except? -1
    int64_t wall_ms "aiokafka_lead_wall_ms" () except? -1
    unsigned long thread_id "aiokafka_lead_thread_id" () except? -1
