"""Next steps as commands: what the command line says for each code of steps.Next."""

from nats3_dagster.steps import Next

# Words of its own where an option, two commands or a command of another program carry the step out.
WORDS = {code: code.with_command(": ") for code in Next} | {
    Next.ACCEPT_MISSING_CHUNKS: "Bring these objects back from a copy of the bucket; or leave them out with "
    "--accept-loss: their sequences are then captured again, or recorded as lost",
    Next.BUFFER_TAKEN: "If no archive uses it, delete it: nats stream rm {buffer}; or choose another name for the "
    "archive",
    Next.CAPTURE_MORE_OFTEN: "Capture more often (lower --max-age), or give the stream more room",
    Next.CAPTURE_MORE_OFTEN_OR_RAISE_LIMIT: "Capture more often (lower --max-age), or give the stream more room; or "
    "raise {limit}",
    Next.CAPTURE_OR_GO_OVER_GAPS: "Capture those hours while the stream still has them, or take what there is with "
    "--over-gaps",
    Next.CHANGE_WRITE_SUBJECT: "Choose a --write-subject without white space, empty tokens and wildcards",
    Next.CHECK_SPARK: "See Java's messages above; nats3 doctor checks Java and Spark",
    Next.CHOOSE_ARCHIVE: "Name it with --archive",
    Next.CHOOSE_OTHER_TARGET: "The replay would be archived again. Choose another --write-subject, or add "
    "--into-own-stream",
    Next.CLAIM_FOLDER: "Mount the store that it was written to, or name it: nats3 config show. If its objects are "
    "gone for good, or this is a copy of that store: nats3 store claim {archive}",
    Next.CONSUMER_TAKEN: "If no archive uses it, delete it: nats consumer rm {stream} {consumer}; or choose another "
    "name for the archive",
    Next.CREATE_BUCKET: "Create it, or have it created: --create-bucket, in a file create_bucket: true",
    Next.CREATE_BUCKET_AGAIN: "Create it again. The chunks in it are lost: nats3 chunk verify names them",
    Next.CREATE_BUCKET_STREAM: "Make it like the archived bucket: --like-source. Or create it with a client first",
    Next.CREATE_TARGET: "Create a stream that captures it first, or let the replay do so: --create-stream",
    Next.CREATE_TARGET_FIRST: "Create one there first: --create-stream",
    Next.EXPORT_BEFORE_DELETION: "Export them first: nats3 store seal {archive}; nats3 export run {archive} {export}. "
    "Or delete them all the same with --delete-unexported",
    Next.GIVE_QUERY_MEMORY: "Give it more: --memory. Or ask for less: fewer columns, groups or rows to sort",
    Next.GIVE_QUERY_PARAMETERS: "Give a value for each ? of the statement: --param",
    Next.GIVE_QUERY_SPACE: "Give it more, --temp-size, or a folder on a disk that has it: --temp-folder",
    Next.GIVE_QUERY_TIME: "Give it more: --timeout. Or ask for less: fewer hours, sequences or subjects",
    Next.LEAVE_OUT_MARKS: "Leave out the headers that say where a message comes from: --live --no-marks",
    Next.MAKE_LIVE: "Let them count again: --live",
    Next.OWN_CONSUMER: "Leave --consumer out: then the archive makes one of its own (--mode consumer)",
    Next.RESUME_JOB: "nats3 load resume {replay}",
    Next.RESUME_OR_DELETE_REPLAY: "To go on with it: nats3 load resume {replay}. To publish all of it once more, "
    "delete it first: nats3 load delete {replay}",
    Next.SAY_ARCHIVE: "Give --bucket and --read-stream, or --archive",
    Next.TAKE_OVER_FOLDER: "Choose another --prefix or --name. If that catalog is gone for good, take its folder "
    "over: --take-over. Its objects stay, and its messages are adopted where the stream no longer has them",
    Next.TAKE_OVER_PLACE: "Give it another destination: nats3 export set {archive} {export} --to. Or, once no "
    "other process writes there: nats3 export claim {archive} {export}",
    Next.TAKE_MIRRORS: "To archive it as well: --take-mirrors",
    Next.TAKE_QUEUES: "To archive it: --take-queues. The archive acknowledges what it has",
    Next.TAKE_MESSAGES: "Let the archive take them through a consumer of its own: --mode consumer. It acknowledges "
    "what is in a chunk, and a work queue then deletes it",
    Next.SET_NATS_URL: "No embedded stack runs in {home}. Set NATS3_NATS_URL; or start a stack: nats3 dev; or name "
    "the folder of one that runs: NATS3_HOME",
    Next.SET_POSTGRES_URL: "No embedded stack runs in {home}. Set NATS3_POSTGRES_URL; or start a stack: nats3 dev; or "
    "name the folder of one that runs: NATS3_HOME",
}
