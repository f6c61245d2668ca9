"""The schemas of the database, one revision each in `versions/`.

A new one: change `storage/tables.py`, write `versions/NNNN_what_changes.py` by hand with `upgrade` and `downgrade`
(existing tables through `op.batch_alter_table`), run `python -m tests.storage.fixtures.make` and commit the fixture it
writes. The tests compare the tables that the revisions make with those of the code, and open the databases of all
earlier schemas.
"""
