"""Looking at trainings from outside: what each strategy costs and brings, side by side."""
