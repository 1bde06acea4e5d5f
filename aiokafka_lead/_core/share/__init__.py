"""Share groups (KIP-932): records that are locked, handled and acknowledged one by one, as on a queue.

A member owns no positions. It fetches from the leaders of the partitions that its group has assigned, together with
other members, and each record that it gets is *acquired*: locked for it until the acquisition lock runs out. Each is
to be acknowledged to the broker that gave it, in the share session with that broker.
"""
