"""Next steps as commands: what the command line says for each code of steps.Next."""

from nats3_dagster.steps import Next

WORDS = {
    Next.ADOPT_RESTORED: "Restore a newer backup if there is one. Or go on with sequence {seq} of the stream{again}: "
    "nats3 store run {archive} --adopt",
    Next.ADOPT_STREAM: "Messages of the earlier one that were not captured are lost. To archive the new one as well: "
    "nats3 store run {archive} --adopt",
    Next.ADOPT_CONSUMER: "What the stream removed meanwhile is lost. To make the consumer again, and record the loss: "
    "nats3 store run {archive} --adopt",
    Next.ADOPT_INCARNATION: "To archive it as well: nats3 store run {archive} --adopt",
    Next.BEGIN_NEW_REPLAY: "To publish all of it once more: nats3 load create",
    Next.BEGIN_NEW_REPLAY_AFTER_LOOKING: "See what its targets hold of it: messages with the header Nats3-Replay: "
    "{replay}. Delete these there and create a new replay, or create one of what is missing there: nats3 load create",
    Next.CAPTURE: "Capture it: nats3 store run {archive}",
    Next.CAPTURE_HOUR: "Run it again: nats3 store run {archive} --hour {hour}",
    Next.CAPTURE_LACKING: "Capture what is missing: nats3 store run {archive}",
    Next.CAPTURE_MORE_OFTEN: "Capture more often (lower --max-age), or give the stream more room",
    Next.CAPTURE_MORE_OFTEN_OR_RAISE_LIMIT: "Capture more often (lower --max-age), or give the stream more room; or "
    "raise {limit}",
    Next.CAPTURE_NOW: "Capture now: nats3 store run {archive}",
    Next.CAPTURE_OR_REPLAY_OVER_GAPS: "Capture those hours while the stream still has them, or replay what there is "
    "with --over-gaps",
    Next.CAPTURE_OR_READ_OVER_GAPS: "Capture those hours while the stream still has them, or take what there is with "
    "--over-gaps",
    Next.CAPTURE_OR_LIST_CHUNKS: "Capture it, or see what there is: nats3 chunk list {archive}",
    Next.CHANGE_FILTER: "If its subjects moved, change the filter: nats3 store set {archive} --subject FILTER",
    Next.CHANGE_WRITE_SUBJECT: "Choose a --write-subject without white space, empty tokens and wildcards",
    Next.CHECK_SPARK: "See Java's messages above; nats3 doctor checks Java and Spark",
    Next.CHOOSE_ARCHIVE: "Name it with --archive NAME",
    Next.CHOOSE_OTHER_TARGET: "The replay would be archived again. Choose another --write-subject, or add "
    "--into-own-stream",
    Next.CLAIM_FOLDER: "Mount the store that it was written to, or name it: nats3 config show. If its objects are gone "
    "for good, or this is a copy of that store: nats3 store claim {archive}",
    Next.CONSUMER_SHARED: "Stop what else pulls from {consumer}. Then make another archive of the stream: its consumer "
    "begins with what there is",
    Next.CONSUMER_TAKEN: "If no archive uses it, delete it: nats consumer rm {stream} {consumer}; or choose another "
    "name for the archive",
    Next.CREATE_ARCHIVE: "Create one: nats3 store create",
    Next.CREATE_BUCKET: "Create it, or add --create-bucket",
    Next.CREATE_BUCKET_AGAIN: "Create it again. The chunks in it are lost: nats3 chunk verify names them",
    Next.CREATE_BUCKET_STREAM: "Make it like the archived bucket: --like-source. Or create it with a client first",
    Next.CREATE_EXPORT: "Create one: nats3 export create {archive} NAME --to URL",
    Next.CREATE_TARGET: "Create a stream that captures it first, or let the replay do so: --create-stream NAME",
    Next.CREATE_TARGET_FIRST: "Create one there first: --create-stream",
    Next.CREATE_TABLE: "Create one: nats3 table create {archive}",
    Next.DECLARE_NO_MORE_OR_CREATE: "Take {archive} out of the declaration, or create it again: nats3 store create",
    Next.DECLARE_OR_CHANGE: "Declare what the archive has, or change it: nats3 store set {archive}",
    Next.DOCTOR_BUCKET: "Try one: nats3 doctor --bucket NAME",
    Next.FORGET_FOREIGN_TABLE: "Forget it: nats3 table drop {archive} --forget",
    Next.FORGET_TABLE: "Forget it, and create it again: nats3 table drop {archive}, nats3 table create {archive}",
    Next.GET_CHUNK: "See the subjects of a chunk: nats3 chunk get {archive} {chunk}",
    Next.EXPORT_BEFORE_DELETION: "Export them first: nats3 store seal {archive}; nats3 export run {archive} {export}. "
    "Or delete them all the same with --delete-unexported",
    Next.EXPORT_OVER_RETIRED: "The files that are there stay as they are. To make files of what is left: "
    "nats3 export run {archive} {export} --hour {hour} --over-retired",
    Next.GET_EXPORT_HOURS: "See its hours: nats3 export hours {archive} {export}",
    Next.GET_REPLAY: "See it: nats3 load get {replay}",
    Next.GIVE_QUERY_MEMORY: "Give it more: --memory SIZE. Or ask for less: fewer columns, groups or rows to sort",
    Next.GIVE_QUERY_SPACE: "Give it more, --temp-size SIZE, or a folder on a disk that has it: --temp-folder FOLDER",
    Next.INSTALL_CONTRIB: "Install the contrib package of that server (postgresql-contrib), then run nats3 migrate "
    "again",
    Next.INSTALL_GIST: "Install it: nats3 migrate",
    Next.LEAVE_OUT_MARKS: "Leave out the headers that say where a message comes from: --live --no-marks",
    Next.LIST_ARCHIVES: "See them: nats3 store list",
    Next.LIST_CHUNKS: "See what it holds: nats3 chunk list {archive}",
    Next.LIST_HOURS: "See the hours it has: nats3 chunk list {archive}",
    Next.LIST_TABLES: "See them: nats3 table list",
    Next.LIST_REPLAYS: "See them: nats3 load list",
    Next.MAKE_CONSUMER: "Make consumer {consumer} again as it was: it begins with what the stream still has. Then: "
    "nats3 store run {archive}",
    Next.MAKE_CATALOG: "Make it: nats3 migrate",
    Next.MAKE_CATALOG_ANEW: "Name an empty database in NATS3_POSTGRES_URL and run nats3 migrate; this one and its "
    "objects stay for the version that made them",
    Next.MAKE_LIVE: "Let them count again: --live",
    Next.MIGRATE: "Run nats3 migrate",
    Next.NAME_TAKEN: "Choose another name, or see it: nats3 store get {archive}",
    Next.NAME_HOURS_TO_REPAIR: "Check that this is the store they were written to. If they are gone for good, name the "
    "hours with --hour",
    Next.OBJECT_DAMAGED: "The object was damaged or replaced; bring it back from a copy of the bucket, or see nats3 "
    "chunk repair",
    Next.OBJECT_GONE: "It was deleted or moved outside nats3; bring it back from a copy of the bucket, or see nats3 "
    "chunk repair",
    Next.OWN_CONSUMER: "Leave --consumer out: then the archive makes one of its own (--mode consumer)",
    Next.RESTORE_STREAM: "Restore the stream from a backup or check NATS3_NATS_URL; if it is gone for good, delete the "
    "archive: nats3 store delete {archive}",
    Next.RESUME_ARCHIVE: "Resume it: nats3 store resume {archive}",
    Next.RESUME_JOB: "nats3 load resume {replay}",
    Next.RESUME_OR_DELETE_REPLAY: "To go on with it: nats3 load resume {replay}. To publish all of it once more, "
    "delete it first: nats3 load delete {replay}",
    Next.RESUME_REPLAY: "To go on: nats3 load resume {replay}",
    Next.SAY_ARCHIVE: "Give --bucket and --read-stream, or --archive",
    Next.SEAL_HOURS: "Seal those that have ended and are complete: nats3 store seal {archive}",
    Next.SEE_CHUNKS: "See its chunks: nats3 chunk list {archive}",
    Next.SOURCE_QUEUE: "Archive a stream with limits or interest retention that takes the subjects, and let the work "
    "queue source from it. Not the other way round: sourcing takes the messages too",
    Next.REPLACE_TABLE: "Create it in its place; the former table is dropped, its files stay: nats3 table create "
    "{archive} --replace",
    Next.RESTORE_TABLE: "Make it as the archive says, which undoes that: nats3 table sync {archive} --full",
    Next.SYNC_TABLE: "Bring it up to date: nats3 table sync {archive}",
    Next.SYNC_TABLE_FULLY: "Bring it up to date: nats3 table sync {archive} --full",
    Next.TAKE_OVER_FOLDER: "Choose another --prefix or --name. If that catalog is gone for good, take its folder over: "
    "--take-over. Its objects stay, and its messages are adopted where the stream no longer has them",
    Next.TAKE_OVER_PLACE: "Give it another destination: nats3 export set {archive} {export} --to URL. Or, once no "
    "other process writes there: nats3 export claim {archive} {export}",
    Next.TAKE_MESSAGES: "Let the archive take them through a consumer of its own: --mode consumer. It acknowledges "
    "what is in a chunk, and a work queue then deletes it",
    Next.SET_NATS_URL: "No embedded stack runs in {home}. Set NATS3_NATS_URL; or start a stack: nats3 dev; or name the "
    "folder of one that runs: NATS3_HOME",
    Next.SET_POSTGRES_URL: "No embedded stack runs in {home}. Set NATS3_POSTGRES_URL; or start a stack: nats3 dev; or "
    "name the folder of one that runs: NATS3_HOME",
}
