"""Schema migrations, applied by `voxpop migrate`; one folder for each kind of database."""
