"""What every task shares; it imports none of them."""
