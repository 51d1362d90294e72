"""`citewire eval`: search, answers, citations and not-found decisions of a running Citewire, measured on data sets."""
