"""The cluster as it is known: snapshots merged by epoch, when to refresh, when to bootstrap anew."""
