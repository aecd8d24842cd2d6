"""Dagster's words for next steps and stopped runs: config fields, assets and sensors, and a shell's command where the
UI has none."""

from nats3_dagster.steps import Next

# What a run that was terminated says.
STOPPED_CAPTURE = "Stopped. What was committed stays; the sensor or the next run captures the rest"
STOPPED_SEAL = "Stopped. Hours that were sealed stay so; the sensor or the next run seals the rest"
STOPPED_EXPORT = "Stopped. Hours that were exported stay so; the sensor or the next run exports the rest"
STOPPED_REPLAY = "Stopped. Replay {replay} keeps a checkpoint; re-execute from failure to go on"
STOPPED_BEFORE_REPLAY = "Stopped before the replay began: nothing was published"
STOPPED_CHECKS = "Stopped. Checks change nothing; execute them again"

WORDS = {
    Next.ADOPT_RESTORED: "Restore a newer backup if there is one. Or go on with sequence {seq} of the stream{again}: "
    "materialize {archive}/chunks with adopt: true in its config",
    Next.ADOPT_STREAM: "Messages of the earlier one that were not captured are lost. To archive the new one as well, "
    "materialize {archive}/chunks with adopt: true in its config",
    Next.ADOPT_CONSUMER: "What the stream removed meanwhile is lost. To make the consumer again, and record the loss, "
    "materialize {archive}/chunks with adopt: true in its config",
    Next.ADOPT_INCARNATION: "To archive it as well, materialize {archive}/chunks with adopt: true in its config",
    Next.BEGIN_NEW_REPLAY: "To publish all of it once more, launch a new run instead of executing this one again",
    Next.BEGIN_NEW_REPLAY_AFTER_LOOKING: "See what its targets hold of it: messages with the header Nats3-Replay: "
    "{replay}. Delete these there and launch a new run, or launch one of what is missing there",
    Next.CAPTURE: "Materialize {archive}/chunks",
    Next.CAPTURE_HOUR: "Materialize the hour {hour} of {archive}/chunks again",
    Next.CAPTURE_LACKING: "Materialize the missing hours of {archive}/chunks",
    Next.CAPTURE_MORE_OFTEN: "Switch on {archive}_capture_sensor, or give the stream more room",
    Next.CAPTURE_MORE_OFTEN_OR_RAISE_LIMIT: "Switch on {archive}_capture_sensor, or give the stream more room; or "
    "raise {limit}",
    Next.CAPTURE_NOW: "Materialize {archive}/chunks now",
    Next.CAPTURE_OR_REPLAY_OVER_GAPS: "Materialize those hours of the chunks while the stream still has them, or set "
    "over_gaps: true to replay what there is",
    Next.CAPTURE_OR_READ_OVER_GAPS: "Materialize those hours of the chunks while the stream still has them, or read "
    "over gaps to get what there is",
    Next.CAPTURE_OR_LIST_CHUNKS: "Materialize it, or see which hours of {archive}/chunks there are",
    Next.CHANGE_FILTER: "If its subjects moved, change the subjects that archive {archive} takes",
    Next.CHANGE_WRITE_SUBJECT: "Choose a write_subject without white space, empty tokens and wildcards",
    Next.CHECK_SPARK: "See what Java wrote to the run's compute log; in a shell, nats3 doctor checks Java and Spark",
    Next.CHOOSE_ARCHIVE: "Set archive to the name of one of them",
    Next.CHOOSE_OTHER_TARGET: "The replay would be archived again. Choose another write_subject, or set "
    "into_own_stream: true",
    Next.CLAIM_FOLDER: "Mount or name the store that it was written to. If its objects are gone for good, or this is a "
    "copy of that store, in a shell: nats3 store claim {archive}",
    Next.CONSUMER_SHARED: "Stop what else pulls from {consumer}. Then make another archive of the stream: its consumer "
    "begins with what there is",
    Next.CONSUMER_TAKEN: "If no archive uses it, delete consumer {consumer} of stream {stream}; or choose another name "
    "for the archive",
    Next.CREATE_ARCHIVE: "Create one in a shell: nats3 store create",
    Next.CREATE_BUCKET: "Create it",
    Next.CREATE_BUCKET_AGAIN: "Create it again. Chunks that it held are lost; the check chunks_intact names them",
    Next.CREATE_BUCKET_STREAM: "Set like_source: true to make it like the archived bucket, or create the bucket with a "
    "client first",
    Next.CREATE_EXPORT: "Create one in a shell: nats3 export create {archive}",
    Next.CREATE_TARGET: "Create a stream that captures it first, or let the replay do so with create_stream: NAME",
    Next.CREATE_TARGET_FIRST: "Create one there first, or set create_stream: NAME",
    Next.CREATE_TABLE: "Create one in a shell: nats3 table create {archive}",
    Next.DECLARE_NO_MORE_OR_CREATE: "Take {archive} out of the declaration, or create it again in a shell: "
    "nats3 store create",
    Next.DECLARE_OR_CHANGE: "Declare what the archive has, or change it in a shell: nats3 store set {archive}",
    Next.DOCTOR_BUCKET: "Try one in a shell: nats3 doctor --bucket NAME",
    Next.FORGET_FOREIGN_TABLE: "Run in a shell: nats3 table drop {archive} --forget",
    Next.FORGET_TABLE: "Forget it and create it again, in a shell: nats3 table drop {archive}, then "
    "nats3 table create {archive}",
    Next.GET_CHUNK: "See the subjects of a chunk in a shell: nats3 chunk get {archive} {chunk}",
    Next.EXPORT_BEFORE_DELETION: "Materialize these hours of {archive}/{export} first, or let the replay delete them "
    "all the same with delete_unexported",
    Next.EXPORT_OVER_RETIRED: "The files that are there stay as they are. To make files of what is left, in a shell: "
    "nats3 export run {archive} {export} --hour {hour} --over-retired",
    Next.GET_EXPORT_HOURS: "See its hours in a shell: nats3 export hours {archive} {export}",
    Next.GET_REPLAY: "See it in a shell: nats3 load get {replay}",
    Next.GIVE_QUERY_MEMORY: "Give the query more memory, or ask for less: fewer columns, groups or rows to sort",
    Next.GIVE_QUERY_SPACE: "Give the query more temporary space, or a folder on a disk that has it",
    Next.INSTALL_CONTRIB: "Install the contrib package of that server (postgresql-contrib), then run nats3 migrate "
    "in a shell",
    Next.INSTALL_GIST: "Run nats3 migrate in a shell",
    Next.LEAVE_OUT_MARKS: "Set live: true and marks: false, to leave out the headers that say where a message "
    "comes from",
    Next.LIST_ARCHIVES: "See them in a shell: nats3 store list",
    Next.LIST_CHUNKS: "See the hours of {archive}/chunks",
    Next.LIST_HOURS: "See the hours of {archive}/chunks",
    Next.LIST_TABLES: "See them in a shell: nats3 table list",
    Next.LIST_REPLAYS: "See them in a shell: nats3 load list",
    Next.MAKE_CONSUMER: "Make consumer {consumer} again as it was: it begins with what the stream still has. Then "
    "materialize {archive}/chunks",
    Next.MAKE_CATALOG: "Run nats3 migrate in a shell",
    Next.MAKE_CATALOG_ANEW: "Name an empty database in NATS3_POSTGRES_URL and run nats3 migrate in a shell; this one "
    "and its objects stay for the version that made them",
    Next.MAKE_LIVE: "Set live: true to let them count again",
    Next.MIGRATE: "Run nats3 migrate in a shell",
    Next.NAME_TAKEN: "Choose another name than {archive}",
    Next.NAME_HOURS_TO_REPAIR: "Is it the store that they were written to? If they are gone for good, name the hours "
    "in a shell: nats3 chunk repair ARCHIVE --hour HOUR",
    Next.OBJECT_DAMAGED: "The object was damaged or replaced; bring it back from a copy of the bucket, or repair "
    "it in a shell: nats3 chunk repair ARCHIVE",
    Next.OBJECT_GONE: "It was deleted or moved outside nats3; bring it back from a copy of the bucket, or repair "
    "it in a shell: nats3 chunk repair ARCHIVE",
    Next.OWN_CONSUMER: "Let the archive make a consumer of its own; in a shell: nats3 store create --mode consumer",
    Next.RESTORE_STREAM: "Restore the stream from a backup or check NATS3_NATS_URL; if it is gone for good, delete the "
    "archive in a shell: nats3 store delete {archive}",
    Next.RESUME_ARCHIVE: "To go on, in a shell: nats3 store resume {archive}",
    Next.RESUME_JOB: "re-execute its run from failure; or in a shell: nats3 load resume {replay}",
    Next.RESUME_OR_DELETE_REPLAY: "To go on with it, re-execute its run from failure; or in a shell: nats3 load resume "
    "{replay}. To publish all of it once more, first delete it in a shell: nats3 load delete {replay}",
    Next.RESUME_REPLAY: "To go on, re-execute its run from failure; or in a shell: nats3 load resume {replay}",
    Next.SAY_ARCHIVE: "Set archive to the name of one",
    Next.SEAL_HOURS: "Materialize {archive}/sealed",
    Next.SEE_CHUNKS: "See the chunk tables of the hours of {archive}/chunks",
    Next.SOURCE_QUEUE: "Archive a stream with limits or interest retention that takes the subjects, and let the work "
    "queue source from it. Not the other way round: sourcing takes the messages too",
    Next.REPLACE_TABLE: "Create it in its place, in a shell: nats3 table create {archive} --replace",
    Next.RESTORE_TABLE: "Make it as the archive says, which undoes that, in a shell: nats3 table sync {archive} --full",
    Next.SYNC_TABLE: "Run in a shell: nats3 table sync {archive}",
    Next.SYNC_TABLE_FULLY: "Run in a shell: nats3 table sync {archive} --full",
    Next.TAKE_OVER_FOLDER: "Choose another prefix or name. If that catalog is gone for good, take its folder over in a "
    "shell: nats3 store create --take-over",
    Next.TAKE_OVER_PLACE: "Give {archive}/{export} another destination. Or, once no other process writes there, in a "
    "shell: nats3 export claim {archive} {export}",
    Next.TAKE_MESSAGES: "Let the archive take them through a consumer of its own; in a shell: nats3 store create "
    "--mode consumer. It acknowledges what is in a chunk, and a work queue then deletes it",
    Next.SET_NATS_URL: "Set NATS3_NATS_URL for Dagster's processes, or start the embedded stack: nats3 dev. None runs "
    "in {home}; NATS3_HOME names another folder",
    Next.SET_POSTGRES_URL: "Set NATS3_POSTGRES_URL for Dagster's processes, or start the embedded stack: nats3 dev. "
    "None runs in {home}; NATS3_HOME names another folder",
}
