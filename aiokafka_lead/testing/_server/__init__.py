"""The embedded brokers' sockets: listeners, connections, frames, timers."""
