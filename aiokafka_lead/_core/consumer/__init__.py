"""From a position to the application's hands: fetch plans, answers, what is prefetched."""
