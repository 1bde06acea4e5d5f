"""The client's metadata: snapshots merged by leader epoch, and the times of refreshes and rebootstraps."""
