"""How long jobs will run, by how long earlier ones like them ran."""
