"""The embedded cluster's state machine: no sockets, no clock, no tasks. Time is passed as an argument."""
