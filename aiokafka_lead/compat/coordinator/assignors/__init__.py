"""Which member of a group gets which partitions."""
