"""The client's knowledge of the cluster: snapshots merged by epoch, times of refreshes and bootstraps."""
