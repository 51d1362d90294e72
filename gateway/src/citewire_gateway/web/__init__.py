"""What HTTP needs around the routes: middleware, bodies, errors, streams."""
