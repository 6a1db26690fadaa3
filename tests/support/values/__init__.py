"""Values, as tests look at them."""
