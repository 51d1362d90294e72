"""People and services that sign in at an identity provider: OpenID Connect, bearer tokens, browser sessions."""
