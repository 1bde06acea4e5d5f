"""A shop: takes orders over HTTP, and bills them."""
