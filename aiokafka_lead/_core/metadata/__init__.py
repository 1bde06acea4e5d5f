"""The client's view of the cluster: snapshots merged by epoch, and the times of refreshes and bootstraps."""
