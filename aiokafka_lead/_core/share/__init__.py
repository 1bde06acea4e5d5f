"""Share groups (KIP-932), in which records are locked, processed and acknowledged one by one, as in a queue.

A member has no positions. Its group assigns it partitions, often the same as to other members, and it fetches from
their leaders. Each record that it receives is *acquired*: locked for this member until the acquisition lock expires.
The member has to acknowledge the record to the same broker, in its share session with that broker.
"""
