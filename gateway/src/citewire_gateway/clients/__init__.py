"""The three services, as the gateway calls them."""
