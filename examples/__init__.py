"""Sample applications, which need a checkout: the product does not contain them."""
