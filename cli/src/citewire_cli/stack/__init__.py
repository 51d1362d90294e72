"""The local stack behind `citewire up`: an embedded Postgres and our processes, supervised."""
