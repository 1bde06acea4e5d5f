"""What a group keeps and agrees on."""
