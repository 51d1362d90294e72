"""Generates the parts of deploy/monitoring that aren't hand-written: the dashboards and the rules of the objectives.

`make monitoring` writes the files, and a test checks that they are current.
"""
