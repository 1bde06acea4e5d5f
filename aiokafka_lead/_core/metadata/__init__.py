"""Client metadata: snapshots merged by leader epoch, and the timing of refreshes and rebootstraps."""
