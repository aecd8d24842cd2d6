"""Dagster's words for next steps and stopped runs: config fields, assets and sensors, and a shell's command where the
UI has none."""

from nats3_dagster.steps import Next

# What a run that was terminated says.
STOPPED_CAPTURE = "Stopped. What was committed stays; the sensor or the next run captures the rest"
STOPPED_SEAL = "Stopped. Hours that were sealed stay so; the sensor or the next run seals the rest"
STOPPED_COMPACTION = "Stopped. Hours that were compacted stay so; the sensor or the next run compacts the rest"
STOPPED_EXPORT = "Stopped. Hours that were exported stay so; the sensor or the next run exports the rest"
STOPPED_SYNC = "Stopped. Chunks stay as they are; the next sync makes the table list all of them"
STOPPED_REPLAY = "Stopped. Replay {replay} keeps a checkpoint; re-execute from failure to go on"
STOPPED_BEFORE_REPLAY = "Stopped before the replay began: nothing was published"
STOPPED_RESTORE = "Stopped. There is no stream, or one that is marked, which the next restore of its name deletes"
STOPPED_DRILL = "Stopped. A drill changes nothing; execute it again"
STOPPED_CHECKS = "Stopped. Checks change nothing; execute them again"

# Words of its own where the UI has a means: an asset, a sensor, a config field, a run.
WORDS = {code: code.with_command(", in a shell: ") for code in Next} | {
    Next.ADOPT_RESTORED: "Restore a newer backup if there is one. Or go on with sequence {seq} of the stream{again}: "
    "materialize {archive}/chunks with adopt: true in its config",
    Next.ADOPT_STREAM: "Messages of the earlier one that were not captured are lost. To archive the new one as well, "
    "materialize {archive}/chunks with adopt: true in its config",
    Next.ADOPT_BUFFER: "What the stream removed meanwhile is lost. To make the buffer again, and record the loss, "
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
    Next.CAPTURE_MORE_OFTEN: "Switch on {archive}_capture_sensor, or account_captures_sensor where a rule made the "
    "archive; or give the stream more room",
    Next.CAPTURE_MORE_OFTEN_OR_RAISE_LIMIT: "Switch on {archive}_capture_sensor, or account_captures_sensor where a "
    "rule made the archive; or give the stream more room, or raise {limit}",
    Next.CAPTURE_NOW: "Materialize {archive}/chunks now",
    Next.CAPTURE_OR_GO_OVER_GAPS: "Materialize those hours of the chunks while the stream still has them, or set "
    "over_gaps: true to take what there is",
    Next.CAPTURE_OR_LIST_CHUNKS: "Materialize it, or see which hours of {archive}/chunks there are",
    Next.CHANGE_WRITE_SUBJECT: "Choose a write_subject without white space, empty tokens and wildcards",
    Next.CHECK_SPARK: "See what Java wrote to the run's compute log; in a shell, nats3 doctor checks Java and Spark",
    Next.CHOOSE_ARCHIVE: "Set archive to the name of one of them",
    Next.CHOOSE_OTHER_TARGET: "The replay would be archived again. Choose another write_subject, or set "
    "into_own_stream: true",
    Next.CREATE_BUCKET: "Create it",
    Next.CREATE_BUCKET_AGAIN: "Create it again. Chunks that it held are lost; the check chunks_intact names them",
    Next.CREATE_BUCKET_STREAM: "Set like_source: true to make it like the archived bucket, or create the bucket with "
    "a client first",
    Next.CREATE_TARGET: "Create a stream that captures it first, or let the replay do so with create_stream",
    Next.CREATE_TARGET_FIRST: "Create one there first, or set create_stream",
    Next.END_ATTEMPT_AND_RESUME: "End its Spark job or process. Then re-execute its run from failure; or in a shell: "
    "nats3 load resume {replay}",
    Next.EXPORT_BEFORE_DELETION: "Materialize these hours of {archive}/{export} first, or let the replay delete them "
    "all the same with delete_unexported",
    Next.LEAVE_OUT_MARKS: "Set live: true and marks: false, to leave out the headers that say where a message comes "
    "from",
    Next.LIST_CHUNKS: "See the hours of {archive}/chunks",
    Next.LIST_HOURS: "See the hours of {archive}/chunks",
    Next.MAKE_CONSUMER: "Make consumer {consumer} again as it was: it begins with what the stream still has. Then "
    "materialize {archive}/chunks",
    Next.MAKE_LIVE: "Set live: true to let them count again",
    Next.CHANGE_TARGET_AND_RESUME: "Change the stream's configuration or limits. Then re-execute its run from failure; "
    "or in a shell: nats3 load resume {replay}",
    Next.MAKE_ROOM_AND_RESUME: "Raise {setting} of stream {stream}, or make room in it. Then re-execute its run from "
    "failure; or in a shell: nats3 load resume {replay}",
    Next.RESUME_JOB: "re-execute its run from failure; or in a shell: nats3 load resume {replay}",
    Next.RESUME_OR_DELETE_REPLAY: "To go on with it, re-execute its run from failure; or in a shell: nats3 load "
    "resume {replay}. To publish all of it once more, first delete it in a shell: nats3 load delete {replay}",
    Next.RESUME_REPLAY: "To go on, re-execute its run from failure; or in a shell: nats3 load resume {replay}",
    Next.SAY_ARCHIVE: "Set archive to the name of one",
    Next.SEAL_HOURS: "Materialize {archive}/sealed",
    Next.SEE_CHUNKS: "See the chunk tables of the hours of {archive}/chunks",
    Next.TAKE_OVER_FOLDER: "Choose another prefix or name. If that catalog is gone for good, take its folder over in "
    "a shell: nats3 store create --take-over",
    Next.TAKE_MIRRORS: "To archive it as well, in a shell: nats3 account set {rule} --take-mirrors",
    Next.TAKE_QUEUES: "To archive it, in a shell: nats3 account set {rule} --take-queues. The archive acknowledges "
    "what it has",
    Next.TAKE_MESSAGES: "Let the archive take them through a consumer of its own; in a shell: nats3 store create "
    "--mode consumer. It acknowledges what is in a chunk, and a work queue then deletes it",
    Next.SET_NATS_URL: "Set NATS3_NATS_URL for Dagster's processes, or start the embedded stack: nats3 dev. None runs "
    "in {home}; NATS3_HOME names another folder",
    Next.SET_POSTGRES_URL: "Set NATS3_POSTGRES_URL for Dagster's processes, or start the embedded stack: nats3 dev. "
    "None runs in {home}; NATS3_HOME names another folder",
}
