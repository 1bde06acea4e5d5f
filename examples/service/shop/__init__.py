"""A shop that takes orders over HTTP, and bills them."""
