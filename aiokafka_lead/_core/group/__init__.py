"""Policy of consumer groups: membership, assignment and offsets."""
