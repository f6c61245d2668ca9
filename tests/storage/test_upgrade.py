"""Migrations: they make the tables of the code, keep what old databases hold, and change nothing when they fail."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import create_engine, inspect
from sqlalchemy.pool import NullPool

import storage.upgrade
from storage import RunFilter, Store, StoreError
from storage.engine import resolve_url
from storage.tables import Base
from storage.upgrade import VERSION_TABLE, downgrade, upgrade
from tests.storage.fixtures.make import TEXT
from tests.storage.postgres import emptied
from tests.storage.samples import IDENTITY, NASTY, RESULT, SETTINGS, new_run, steps

REVISIONS = Path(storage.upgrade.__file__).parent / "migrations" / "versions"
FIXTURES = Path(__file__).parent / "fixtures"
SCRIPTS = ScriptDirectory(str(REVISIONS.parent), version_locations=[str(REVISIONS)])
HEAD = SCRIPTS.get_current_head()
NEXT = """
import sqlalchemy as sa
from alembic import op

revision = "9999"
down_revision = "{head}"

def upgrade():
    op.add_column("versions", sa.Column("extra", sa.Text()))
    with op.batch_alter_table("decode_runs", recreate="always") as batch:
        batch.add_column(sa.Column("extra", sa.Text()))
        batch.alter_column("notes", nullable=True)
    {last_line}
"""


def _restore(name: str, path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript((FIXTURES / name).read_bytes().decode("utf-8"))  # as text, \r\n would become \n


def _schema(path: Path) -> str:
    with closing(sqlite3.connect(path)) as connection:
        return str(connection.execute(f"SELECT version_num FROM {VERSION_TABLE}").fetchone()[0])


def _dump(path: Path) -> list[str]:
    with closing(sqlite3.connect(path)) as connection:
        return list(connection.iterdump())


def _next_revision(folder: Path, last_line: str = "pass") -> list[Path]:
    extra = folder / "extra %20 ö"
    extra.mkdir()
    (extra / "9999_extra.py").write_text(NEXT.format(head=HEAD, last_line=last_line), encoding="utf-8")
    return [REVISIONS, extra]


def _differences(url: str) -> list[object]:
    engine = create_engine(resolve_url(url), poolclass=NullPool)
    with engine.connect() as connection:
        options = {"compare_type": True, "version_table": VERSION_TABLE}
        return list(compare_metadata(MigrationContext.configure(connection, opts=options), Base.metadata))


def test_migrations_make_the_tables_of_the_code(shared_url: str) -> None:
    upgrade(resolve_url(shared_url))
    assert _differences(shared_url) == []


def test_the_comparison_notices_a_missing_index_and_column(tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite"
    upgrade(resolve_url(path))
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("DROP INDEX ix_decode_runs_status_id")
        connection.execute("ALTER TABLE drafters DROP COLUMN lineage")
    assert len(_differences(str(path))) == 2


def test_migrations_go_down_and_up_again(shared_url: str) -> None:
    url = resolve_url(shared_url)
    for revision in ["head", *(script.revision for script in SCRIPTS.walk_revisions())][1:]:
        upgrade(url)
        script = SCRIPTS.get_revision(revision)
        downgrade(url, script.down_revision if isinstance(script.down_revision, str) else "base")
    engine = create_engine(url, poolclass=NullPool)
    assert set(inspect(engine).get_table_names()) == {VERSION_TABLE}
    upgrade(url)
    assert _differences(shared_url) == []


def test_every_schema_has_its_fixture() -> None:
    released = {f"schema_{script.revision}.sql" for script in SCRIPTS.walk_revisions()}
    assert {path.name for path in FIXTURES.glob("schema_????.sql")} == released


@pytest.mark.parametrize("name", sorted(path.name for path in FIXTURES.glob("schema_*.sql")))
def test_no_column_of_a_released_schema_changes(name: str, tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite"
    _restore(name, path)
    before = _contents(path)
    Store.open(path).close()
    after = _contents(path)
    assert _schema(path) == HEAD and _differences(str(path)) == []
    for table, rows in before.items():
        kept = [{column: row[column] for column in rows[0]} for row in after[table]] if rows else after[table]
        assert kept == rows, table


@pytest.mark.parametrize("name", sorted(path.name for path in FIXTURES.glob("schema_????.sql")))
def test_databases_of_every_schema_open_with_all_they_hold(name: str, tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite"
    _restore(name, path)
    with Store.open(path) as store:
        (version,) = store.list_versions()
        assert (version.identity, version.label, version.details) == (IDENTITY, TEXT, {"layers": 30})
        (drafter,) = store.list_drafters(version.id)
        assert drafter.config == {"num_heads": 4}
        assert [run.status for run in store.list_runs()] == ["interrupted", "failed", "finished"]
        (summary,) = store.list_runs(RunFilter(search="Grüße ${x}", status="finished"))
        run = store.get_run(summary.id)
        assert run.prompt == run.notes == TEXT and run.settings == SETTINGS and run.tags == ("kept",)
        for field, value in vars(RESULT).items():
            assert getattr(run, field) == value, field
        assert store.steps(run.id) == steps(0, 70)


def test_the_first_release_with_two_versions_is_kept_whole(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    _restore("schema_0001_two_versions.sql", path)
    with Store.open(path) as store:
        _check_two_versions(store)
        first, *_ = store.list_runs(order="oldest")
        store.trash_runs([first.id])
        assert store.count_runs() == 5
        store.restore_runs([first.id])
        job = store.create_job(kind="train", name="heads", config={})
        assert store.lease_job("me") == store.get_job(job.id)
    copy = path.with_name("runs.db.before-0002")
    assert list(tmp_path.glob("*.before-*")) == [copy] and _schema(copy) == "0001"
    with Store.open(copy) as store:
        _check_two_versions(store)


def _check_two_versions(store: Store) -> None:
    tuned, base = sorted(store.list_versions(), key=lambda version: version.label, reverse=True)
    assert (base.label, base.num_parameters, base.notes) == ("base", 134_515_008, NASTY)
    assert (tuned.label, tuned.num_parameters, tuned.identity.adapter_id) == ("tuned " + NASTY, 2**40, "lora-1")
    assert [drafter.name for drafter in store.list_drafters(tuned.id)] == ["heads 1"]
    assert {drafter.name for drafter in store.list_drafters(base.id)} == {"heads 0", "ngram"}
    runs = [store.get_run(run.id) for run in store.list_runs(order="oldest")]
    assert [run.status for run in runs] == ["finished"] * 3 + ["cancelled", "failed", "running"]
    assert [len(store.steps(run.id)) for run in runs] == [130, 70, 5, 0, 3, 7]
    assert all(store.steps(run.id) == steps(0, store.num_stored_steps(run.id)) for run in runs)
    assert [run.num_tokens for run in runs[:3]] == [9, 19, 29] and [run.contended for run in runs][:2] == [False, True]
    for number, run in enumerate(runs[:3]):
        assert (run.prompt, run.notes, run.tags) == (f"prompt {number} {NASTY}", NASTY, (f"tag {number}", NASTY))
        assert run.trashed_at is None and run.version_label in (base.label, tuned.label) and run.drafter_id


def test_the_jobs_of_a_database_are_kept_whole(tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite"
    _restore("schema_0002.sql", path)
    with Store.open(path) as store:
        waiting, interrupted, finished = store.list_jobs()
        assert (finished.name, finished.status, finished.result) == (TEXT, "finished", {"loss": 1.25})
        assert (finished.progress, finished.exclusive, finished.tags) == ({"done": 2, "total": 2}, "./heads", ("kept",))
        assert [(row.step, row.values) for row in store.metrics(finished.id)] == [
            (1, {"loss": 2.5}),
            (2, {"loss": 1.25, "top1": 0.5}),
        ]
        assert [(item.key, item.data) for item in store.items(finished.id)] == [("cell/0", {"rows": [1, 2]})]
        (dataset,) = store.list_datasets("answers", finished.version_id)
        assert dataset.id == finished.dataset_id and dataset.lineage == {"prompts": ["p1"]}
        assert (interrupted.status, interrupted.error, interrupted.parent_id) == ("interrupted", TEXT, finished.id)
        assert (waiting.status, waiting.device) == ("queued", "cpu")
        assert [run.prompt_start for run in store.list_runs(RunFilter(trashed=True))] == ["thrown away"]


def test_a_database_on_a_server_is_upgraded_with_all_it_holds(postgres_url: str) -> None:
    url = resolve_url(emptied(postgres_url))
    upgrade(url, to="0001")
    engine = create_engine(url, poolclass=NullPool)
    moment = "'2026-11-30 08:31:38.428779'"
    with engine.begin() as connection:
        connection.exec_driver_sql(
            "INSERT INTO decode_runs (id, created_at, status, owner, drafter_name, contended, traces_pruned, tags, "
            f"settings, notes, prompt) VALUES ('r1', {moment}, 'queued', 'o', 'none', false, false, '[]', '{{}}', '', "
            "'kept')"
        )
    assert upgrade(url) is None  # no copy: a server has its own tools
    with Store.open(postgres_url) as store:
        assert [(run.id, run.prompt_start) for run in store.list_runs()] == [("r1", "kept")]


def _contents(path: Path) -> dict[str, list[dict[str, object]]]:
    with closing(sqlite3.connect(path)) as connection:
        connection.row_factory = sqlite3.Row
        tables = [row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return {
            table: [dict(row) for row in connection.execute(f"SELECT * FROM {table} ORDER BY 1, 2")]
            for table in tables
            if table != VERSION_TABLE
        }


def test_an_existing_database_is_copied_before_it_changes(tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite"
    with Store.open(path) as store:
        run_id = new_run(store, "kept", start=True)
        store.append_steps(run_id, 0, steps(0, 5))
        assert list(tmp_path.glob("*.before-*")) == []
        copy = upgrade(resolve_url(path), revisions=_next_revision(tmp_path))
    assert copy == path.with_name("store.sqlite.before-9999")
    assert list(tmp_path.glob("*store.sqlite.*")) == [copy]
    assert (_schema(path), _schema(copy)) == ("9999", HEAD)
    with Store.open(copy) as store:
        assert store.get_run(run_id).prompt == "kept" and store.steps(run_id) == steps(0, 5)
    with closing(sqlite3.connect(path)) as connection:  # rebuilding decode_runs must not cascade to its chunks
        assert connection.execute("SELECT count(*) FROM trace_chunks").fetchone() == (1,)
        assert connection.execute("SELECT extra FROM decode_runs").fetchone() == (None,)


@pytest.mark.parametrize("last_line", ["op.execute('SELECT * FROM nowhere')", "op.execute('DELETE FROM decode_runs')"])
def test_a_failing_migration_changes_nothing(tmp_path: Path, last_line: str) -> None:
    path = tmp_path / "store.sqlite"
    with Store.open(path) as store:
        run_id = new_run(store, start=True)
        store.append_steps(run_id, 0, steps(0, 5))
    with pytest.raises(StoreError, match=r"store\.sqlite"):
        upgrade(resolve_url(path), revisions=_next_revision(tmp_path, last_line))
    assert _schema(path) == HEAD and _differences(str(path)) == []
    with Store.open(path) as store:
        assert store.steps(run_id) == steps(0, 5)


def test_a_newer_schema_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite"
    upgrade(resolve_url(path), revisions=_next_revision(tmp_path))
    before = _dump(path)
    with pytest.raises(StoreError, match=rf"newer Headway \(schema 9999, this one knows up to {HEAD}\); update"):
        Store.open(path)
    assert _dump(path) == before


def test_another_programs_tables_are_refused_or_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE alembic_version (version_num TEXT)")
        connection.execute("INSERT INTO alembic_version VALUES ('theirs')")
        connection.commit()
    Store.open(path).close()
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT * FROM alembic_version").fetchall() == [("theirs",)]
        for table in [*sorted(set(Base.metadata.tables) - {"drafters"}), VERSION_TABLE]:
            connection.execute(f"DROP TABLE {table}")
    with pytest.raises(StoreError, match=r"another program.*'drafters'"):
        Store.open(path)
