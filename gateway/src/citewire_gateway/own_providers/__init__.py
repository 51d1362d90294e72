"""Tenants' own providers: kept sealed, chosen user first, then organisation, then the operator's."""
