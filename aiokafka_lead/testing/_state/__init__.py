"""The embedded cluster's state machine, without sockets, clock and tasks. Time is passed as an argument."""
