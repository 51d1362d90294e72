"""What every HTTP exchange needs: the server, middleware, bodies, streams, problems."""
