"""An archive as an Iceberg table: exactly its live chunks, whatever happens between our commit and the table's."""



from nats3_dagster.tables import tables
from nats3_dagster.tables.verify import verify
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.table_case import live, logs, numbers, put, rows, seqs, synced


def test_a_table_has_exactly_the_live_chunks(workspace: Workspace, bucket: str) -> None:
    archive = logs(workspace, bucket)
    put(workspace, archive, rows(1, 10))
    put(workspace, archive, rows(11, 20))
    known = tables.create(workspace, "logs")
    done = synced(workspace)
    assert (done.added, done.removed, done.commits, done.chunks) == (2, 0, 1, 2)
    assert seqs(workspace) == numbers((1, 20))
    put(workspace, archive, rows(21, 30))
    workspace.catalog.chunks.retire(archive, [live(workspace, archive)[0].id])
    done = synced(workspace)
    assert (done.added, done.removed, done.commits) == (1, 1, 1)
    assert seqs(workspace) == numbers((11, 30))
    assert synced(workspace).commits == 0
    found = verify(workspace, known)
    assert (found.faults, found.files, found.rows, found.messages) == ((), 2, 20, 20)
