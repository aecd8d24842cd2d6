"""Next steps: what a failure advises, as a code with values.

Each code has one text, which names no command, option or button: it is for logs, for the catalog and for callers from
Python. A code that a whole command carries out has this command too. A face adds the command, or has words of its own
where it has other means: options, config fields, requests (wording.py of cli/, defs/ and api/).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, unique


@unique
class Next(Enum):
    """A code: its text and its command, with the names of their values. `Next.CAPTURE(archive="logs")` makes a
    Step."""

    ACCEPT_MISSING_CHUNKS = (
        "Bring these objects back from a copy of the bucket; or leave them out: their sequences are then captured "
        "again, or recorded as lost"
    )
    ADOPT_RESTORED = (
        (
            "Restore a newer backup if there is one. Or let archive {archive} adopt the stream, and go on with its "
            "sequence {seq}{again}"
        ),
        "nats3 store run {archive} --adopt",
    )
    ADOPT_STREAM = (
        "Messages of the earlier one that were not captured are lost. Let archive {archive} adopt the new one",
        "nats3 store run {archive} --adopt",
    )
    ADOPT_BUFFER = (
        (
            "What the stream removed meanwhile is lost. Let a capture of archive {archive} make the buffer again, and "
            "record the loss"
        ),
        "nats3 store run {archive} --adopt",
    )
    ADOPT_CONSUMER = (
        (
            "What the stream removed meanwhile is lost. Let a capture of archive {archive} make the consumer again, "
            "and record the loss"
        ),
        "nats3 store run {archive} --adopt",
    )
    ADOPT_INCARNATION = "Let archive {archive} adopt it as well", "nats3 store run {archive} --adopt"
    BEGIN_NEW_REPLAY = "To publish all of it once more, begin a new replay", "nats3 load create"
    BEGIN_NEW_REPLAY_AFTER_LOOKING = (
        (
            "See what its targets hold of it: messages with the header Nats3-Replay: {replay}. Delete these there and "
            "begin a new replay, or begin one of what is missing there"
        ),
        "nats3 load create",
    )
    CAPTURE = "Capture archive {archive}", "nats3 store run {archive}"
    CAPTURE_HOUR = "Capture the hour {hour} of archive {archive} again", "nats3 store run {archive} --hour {hour}"
    CAPTURE_LACKING = "Capture what is missing in archive {archive}", "nats3 store run {archive}"
    CAPTURE_MORE_OFTEN = "Let captures of archive {archive} be due earlier, or give the stream more room"
    CAPTURE_MORE_OFTEN_OR_RAISE_LIMIT = (
        "Let captures of archive {archive} be due earlier, or give the stream more room; or raise {limit}"
    )
    CAPTURE_NOW = "Capture archive {archive} now", "nats3 store run {archive}"
    CAPTURE_OR_GO_OVER_GAPS = (
        "Capture those hours while the stream still has them, or go over gaps and take what there is"
    )
    CAPTURE_OR_LIST_CHUNKS = "Capture it, or see the chunks of archive {archive}", "nats3 chunk list {archive}"
    CHANGE_FILTER = (
        "If its subjects moved, change the filter of archive {archive}",
        "nats3 store set {archive} --subject",
    )
    CHANGE_TARGET = "Change the stream's configuration or limits, then publish again"
    CHANGE_TARGET_AND_RESUME = (
        "Change the stream's configuration or limits. Then resume replay {replay}, to go on after its last message",
        "nats3 load resume {replay}",
    )
    CHANGE_WRITE_SUBJECT = "Choose a write subject without white space, empty tokens and wildcards"
    CHECK_ERASURES = "See what still has them", "nats3 message erase {archive} --prove"
    CHECK_REBUILT = (
        "Look at keep, holds and copies of archive {archive}. If they are right, end the hold {hold}",
        "nats3 store get {archive}, then nats3 hold delete {archive} {hold} --reason 'looked at'",
    )
    CHECK_SPARK = "See what Java wrote to standard error"
    CHOOSE_ARCHIVE = "Give the name of one of them"
    CHOOSE_OTHER_TARGET = (
        "The replay would be archived again. Choose another write subject, or allow it to go into its own stream"
    )
    ADOPT = "Let archive {archive} adopt them, then try again", "nats3 chunk adopt {archive}"
    CLAIM_COPY = (
        "Choose another bucket for the copy. If that catalog is gone for good, take the folder over",
        "nats3 store claim {archive}",
    )
    CLAIM_FORMER_COPY = (
        "If that catalog is gone for good, let archive {archive} own its folder there too, and go on",
        "nats3 store claim {archive}, then nats3 store sweep",
    )
    CLAIM_FOLDER = (
        (
            "Mount or name the store that archive {archive} was written to. If its objects are gone for good, or this "
            "is a copy of that store, make archive {archive} the owner of its folder here"
        ),
        "nats3 store claim {archive}",
    )
    BUFFER_TAKEN = "If no archive uses it, delete stream {buffer}; or choose another name for the archive"
    CONSUMER_SHARED = (
        "Stop what else pulls from {consumer}. Then make another archive of the stream beside {archive}: its consumer "
        "begins with what there is"
    )
    CONSUMER_TAKEN = (
        "If no archive uses it, delete consumer {consumer} of stream {stream}; or choose another name for the archive"
    )
    CREATE_ARCHIVE = "Create an archive first", "nats3 store create"
    CREATE_ARCHIVE_AGAIN = "To have it again, create an archive of this stream", "nats3 store create"
    CREATE_BUCKET = "Create it, or have it created with the archive"
    CREATE_BUCKET_AGAIN = "Create it again. Its chunks that no copy has are lost: verifying the archive names them"
    CREATE_BUCKET_STREAM = "Have it made like the archived bucket, or create the bucket with a client first"
    CREATE_EXPORT = "Create an export of archive {archive} first", "nats3 export create {archive}"
    CREATE_TARGET = "Create a stream that captures it first, or have the replay create it"
    CREATE_TARGET_FIRST = "Create one there first, or have the replay create it"
    CREATE_TABLE = "Create a table of archive {archive}", "nats3 table create {archive}"
    DECLARE_NO_MORE_OR_CREATE = "Take {archive} out of the declaration, or create it again", "nats3 store create"
    DECLARE_NO_MORE_OR_CREATE_RULE = (
        "Take {rule} out of the declaration, or create it again",
        "nats3 account create {rule}",
    )
    DECLARE_OR_CHANGE_RULE = (
        "Declare what the rule has, or change rule {rule} to what is declared",
        "nats3 account set {rule}",
    )
    DECLARE_OR_CHANGE = (
        "Declare what the archive has, or change archive {archive} to what is declared",
        "nats3 store set {archive}",
    )
    DELETE_HOLD = (
        "Nothing was removed. If they may go, delete the hold {hold} of archive {archive}",
        "nats3 hold delete {archive} {hold} --reason 'no longer needed'",
    )
    DOCTOR_BUCKET = "Try a bucket by name", "nats3 doctor --bucket"
    END_ATTEMPT_AND_RESUME = (
        "End its Spark job or process. Then resume replay {replay}, to go on after its last message",
        "nats3 load resume {replay}",
    )
    EXPORT_BEFORE_DELETION = (
        "Seal and export these hours first: export {export} of archive {archive}. Or let the replay delete what the "
        "export does not have"
    )
    EXPORT_OVER_RETIRED = (
        (
            "The files that are there stay as they are. To make files of what is left of hour {hour}, let export "
            "{export} of archive {archive} go over what was deleted"
        ),
        "nats3 export run {archive} {export} --hour {hour} --over-retired",
    )
    FORGET_FOREIGN_TABLE = (
        "Forget the table of archive {archive}, and leave it where it is",
        "nats3 table drop {archive} --forget",
    )
    FORGET_TABLE = (
        "Forget the table of archive {archive}, and create it again",
        "nats3 table drop {archive}, then nats3 table create {archive}",
    )
    FINISH_ERASURES = "Finish the erasures of archive {archive}", "nats3 store sweep"
    FORGET_COPY = (
        "Bring the bucket back. If it is gone for good, say so",
        "nats3 store copy {archive} --forget {bucket}",
    )
    GET_ARCHIVE = "See archive {archive}", "nats3 store get {archive}"
    GET_CHUNK = "See the subjects of chunk {chunk} of archive {archive}", "nats3 chunk get {archive} {chunk}"
    GET_EXPORT_HOURS = "See the hours of export {export} of archive {archive}", "nats3 export hours {archive} {export}"
    GET_REPLAY = "See replay {replay}", "nats3 load get {replay}"
    GIVE_UP_COPY = (
        "Bring the bucket back. If it is gone for good, leave archive {archive} its other copies, {others}, and say so",
        "nats3 store set {archive} --copy, then nats3 store copy {archive} --forget {bucket}",
    )
    GIVE_UP_ONLY_COPY = (
        "Bring the bucket back. If it is gone for good, let archive {archive} have no copy, and say so",
        "nats3 store set {archive} --copy '', then nats3 store copy {archive} --forget {bucket}",
    )
    GIVE_QUERY_MEMORY = "Give the query more memory, or ask for less: fewer columns, groups or rows to sort"
    GIVE_QUERY_PARAMETERS = "Give a value for each ? of the statement"
    GIVE_QUERY_SPACE = "Give the query more temporary space, or a folder on a disk that has it"
    GIVE_QUERY_TIME = "Give the query more time, or ask for less: fewer hours, sequences or subjects"
    INSTALL_CONTRIB = (
        "Install the contrib package of that server (postgresql-contrib), then migrate the catalog's schema again",
        "nats3 migrate",
    )
    INSTALL_GIST = "Migrate the catalog's schema, which installs it", "nats3 migrate"
    LEAVE_OUT_MARKS = "Make the replay live and leave out the headers that say where a message comes from"
    LIST_ARCHIVES = "See the list of archives", "nats3 store list"
    LIST_CHUNKS = "See the chunks of archive {archive}", "nats3 chunk list {archive}"
    LIST_HOURS = "See the hours of archive {archive}", "nats3 chunk list {archive}"
    LIST_TABLES = "See the list of tables", "nats3 table list"
    LIST_REPLAYS = "See the list of replays", "nats3 load list"
    MAKE_CONSUMER = (
        (
            "Make consumer {consumer} again as it was: it begins with what the stream still has. Then capture archive "
            "{archive}"
        ),
        "nats3 store run {archive}",
    )
    LOAD_INTO_EMPTY = "Make an empty database, and migrate it first", "nats3 migrate"
    MAKE_CATALOG = "Make the catalog's schema", "nats3 migrate"
    MAKE_CATALOG_ANEW = (
        (
            "This one and its objects stay for the version that made them. Name an empty database in "
            "NATS3_POSTGRES_URL, and make a catalog in it"
        ),
        "nats3 migrate",
    )
    MAKE_ROOM_AND_RESUME = (
        "Raise {setting} of stream {stream}, or make room in it. Then resume replay {replay}, to go on where it was",
        "nats3 load resume {replay}",
    )
    MAKE_LIVE = "Make the replay live, so that they count again"
    MIGRATE = "Migrate the catalog's schema", "nats3 migrate"
    NAME_TAKEN = "Choose another name, or see archive {archive}", "nats3 store get {archive}"
    NAME_HOURS_TO_REPAIR = (
        "Check that this is the store they were written to. If they are gone for good, name the hours to repair",
        "nats3 chunk repair {archive} --hour",
    )
    NARROW_CONDITIONS = "Choose fewer messages at a time: by hours, times, sequences or subjects"
    OBJECT_GONE = (
        "It was deleted or moved outside nats3; bring it back from a copy of the bucket, or repair archive {archive}",
        "nats3 chunk repair {archive}",
    )
    OBJECT_DAMAGED = (
        "The object was damaged or replaced; bring it back from a copy of the bucket, or repair its archive",
        "nats3 chunk repair",
    )
    OBJECT_FOREIGN = (
        (
            "No release writes such an object: find out who may write to the bucket. Bring the object back from a copy "
            "of the bucket, or repair its archive"
        ),
        "nats3 chunk repair",
    )
    OWN_CONSUMER = "Let the archive make a consumer of its own", "nats3 store create --mode consumer"
    COPY = "Copy what is missing, which says what is wrong there", "nats3 store copy {archive}"
    COMPACT = "Compact archive {archive} again", "nats3 chunk compact {archive}"
    REPAIR = "Repair archive {archive}", "nats3 chunk repair {archive}"
    REMOVE_BY_HAND = (
        (
            "Remove {key} from the bucket {bucket} yourself: a sweep takes nothing that it did not write or cannot "
            "read. Then finish the erasures of archive {archive}"
        ),
        "nats3 store sweep",
    )
    REPLACE_TABLE = (
        "Create the table of archive {archive} in its place; the former table is dropped, its files stay",
        "nats3 table create {archive} --replace",
    )
    PUBLISH_AGAIN = "Publish again when the server has dropped that connection"
    RESTORE_TABLE = (
        "Make the table of archive {archive} as the archive says, which undoes what the other program did",
        "nats3 table sync {archive} --full",
    )
    RESTORE_AGAIN = (
        "If no restore of it runs, restore it again: what was cut is deleted by that",
        "nats3 stream restore {archive}",
    )
    RESTORE_STREAM = (
        (
            "Restore the stream from a backup or check which server and account are used; if it is gone for good, "
            "delete archive {archive}"
        ),
        "nats3 store delete {archive}",
    )
    RESUME_ARCHIVE = "Resume archive {archive}", "nats3 store resume {archive}"
    RESUME_JOB = "Resume replay {replay}, which is load job {job}"
    RESUME_OR_DELETE_REPLAY = (
        "Resume replay {replay}, to go on after its last message. To publish all of it once more, delete that one"
    )
    RESUME_REPLAY = "Resume replay {replay}, to go on after its last message", "nats3 load resume {replay}"
    RUN_EXPORT = "Run export {export} of archive {archive}", "nats3 export run {archive} {export}"
    SAY_ARCHIVE = "Give the name of the archive, or its bucket and stream"
    SEAL_HOURS = "Seal the hours of archive {archive} that have ended and are complete", "nats3 store seal {archive}"
    SEE_CHUNKS = "See the chunks of archive {archive}, each with its id and key", "nats3 chunk list {archive}"
    SOURCE_QUEUE = (
        "Archive a stream with limits or interest retention that takes the subjects, and let the work queue source "
        "from it. Not the other way round: sourcing takes the messages too"
    )
    SHOW_INSTANCE_LINES = "Add what is missing to the Dagster instance", "nats3 dagster instance"
    SYNC_TABLE = "Bring the table of archive {archive} up to date", "nats3 table sync {archive}"
    SYNC_TABLE_FULLY = (
        "Bring the table of archive {archive} up to date, with every file compared",
        "nats3 table sync {archive} --full",
    )
    TAKE_OVER_FOLDER = (
        "Choose another prefix or name. If that catalog is gone for good, let archive {archive} take its folder over: "
        "its objects stay, and its messages are adopted where the stream no longer has them"
    )
    TAKE_OVER_PLACE = (
        (
            "Give export {export} of archive {archive} another destination. Or let it take the place over, once no "
            "other process writes there"
        ),
        "nats3 export claim {archive} {export}",
    )
    TAKE_MIRRORS = "To archive it as well, let the rule {rule} take mirrors"
    TAKE_QUEUES = "To archive it, let the rule {rule} take queues: the archive acknowledges what it has"
    TAKE_MESSAGES = (
        "Let the archive take them through a consumer of its own: the mode consumer. It acknowledges what is in a "
        "chunk, and a work queue then deletes it"
    )
    SET_NATS_URL = "Set NATS3_NATS_URL. No embedded stack runs in {home}, the folder that NATS3_HOME names"
    SET_POSTGRES_URL = "Set NATS3_POSTGRES_URL. No embedded stack runs in {home}, the folder that NATS3_HOME names"

    VERIFY = "Verify the objects of archive {archive}", "nats3 chunk verify {archive}"
    WATCH_REPLAY = "See the progress of replay {replay}", "nats3 load progress {replay} --watch"

    def __init__(self, text: str, command: str = "") -> None:
        self.text = text
        self.command = command

    def with_command(self, joint: str) -> str:
        """Returns the text and, after `joint`, the command if there is one."""
        return f"{self.text}{joint}{self.command}" if self.command else self.text

    def __call__(self, **values: object) -> "Step":
        """The step with its values. Raises KeyError when one is missing."""
        self.with_command("").format(**values)
        return Step(self, values)


@dataclass(frozen=True, slots=True)
class Step:
    """A code with values."""

    code: Next
    values: Mapping[str, object]

    def __str__(self) -> str:
        return self.code.text.format(**self.values)

    @property
    def command(self) -> str:
        """The command that carries the step out, for a text that has a sentence of its own; empty if there is none."""
        return self.code.command.format(**self.values)

    def worded(self, texts: Mapping[Next, str]) -> str:
        """The step in the words of a face."""
        return texts[self.code].format(**self.values)
