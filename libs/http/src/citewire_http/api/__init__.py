"""What routes share: parameters, pages, bodies, problems, and the OpenAPI document."""
