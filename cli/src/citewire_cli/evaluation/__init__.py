"""`citewire eval`: retrieval, answers, citations and not-found decisions, measured through the running services.

`datasets/` reads, `filling` puts the corpus into the library, `searching` and `answering` ask; `measures`, `quotes`,
`answer_text` and `not_found` judge, `calibration` and `weighing` derive thresholds, `results` keeps, `comparing` tests,
`gates` decides, `report` and `plot` show. All of it is a client of the HTTP API.
"""
