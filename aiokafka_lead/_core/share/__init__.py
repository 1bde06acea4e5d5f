"""Share groups (KIP-932): records are locked, handled and acknowledged one by one, as on a queue.

A member has no positions. It fetches from the leaders of the partitions that its group has assigned to it, together
with other members. Each record it gets is *acquired*: locked for it until the acquisition lock expires. The record has
to be acknowledged to the same broker, in the share session with that broker.
"""
