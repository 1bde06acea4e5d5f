"""The embedded cluster's state machine: no sockets, no clock, no tasks. What depends on time is passed the time."""
