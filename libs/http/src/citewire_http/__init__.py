"""The parts of every HTTP exchange: the server, middleware, bodies, streams, problems."""
