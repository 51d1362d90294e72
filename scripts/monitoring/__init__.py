"""Makes what deploy/monitoring holds besides hand-written rules: the dashboards, and the rules of the objectives.

`make monitoring` writes the files, and a test compares them with what would be written.
"""
