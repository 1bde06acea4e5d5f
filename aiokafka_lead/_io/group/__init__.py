"""Consumer groups: their coordinators, and the tasks of a member."""
