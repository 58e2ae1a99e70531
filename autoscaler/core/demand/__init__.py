"""From pending jobs to demand: eligibility, what a job asks for, what jobs share. Grid Engine's semantics end here."""
