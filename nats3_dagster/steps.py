"""Next steps: what a failure advises, as a code with values. Each face words them in its own language.

The texts here name no command, option or button: they are for logs, for the catalog and for callers from Python. The
command line has its own (cli/wording.py), and so has Dagster (defs/wording.py); a test holds the three together.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum


class Next(Enum):
    """A code, and its text with the names of its values. `Next.CAPTURE(archive="logs")` makes a Step."""

    ADOPT_RESTORED = (
        "Restore a newer backup if there is one. Or adopt the stream: archive {archive} goes on with its sequence {seq}"
        "{again}"
    )
    ADOPT_STREAM = (
        "Messages of the earlier one that were not captured are lost. Adopt the new one to archive {archive} from it"
    )
    ADOPT_CONSUMER = (
        "What the stream removed meanwhile is lost. Let a capture of archive {archive} make the consumer again, and "
        "record the loss"
    )
    ADOPT_INCARNATION = "Adopt it to archive it as well in {archive}"
    BEGIN_NEW_REPLAY = "To publish all of it once more, begin a new replay"
    BEGIN_NEW_REPLAY_AFTER_LOOKING = (
        "See what its targets hold of it: messages with the header Nats3-Replay: {replay}. Delete these there and "
        "begin a new replay, or begin one of what is missing there"
    )
    CAPTURE = "Capture archive {archive}"
    CAPTURE_HOUR = "Run it again: capture the hour {hour} of archive {archive}"
    CAPTURE_LACKING = "Capture what is missing in archive {archive}"
    CAPTURE_MORE_OFTEN = "Let captures of archive {archive} be due earlier, or give the stream more room"
    CAPTURE_MORE_OFTEN_OR_RAISE_LIMIT = (
        "Let captures of archive {archive} be due earlier, or give the stream more room; or raise {limit}"
    )
    CAPTURE_NOW = "Capture archive {archive} now"
    CAPTURE_OR_REPLAY_OVER_GAPS = (
        "Capture those hours while the stream still has them, or let the replay go over gaps and send what there is"
    )
    CAPTURE_OR_READ_OVER_GAPS = (
        "Capture those hours while the stream still has them, or read over gaps to get what there is"
    )
    CAPTURE_OR_LIST_CHUNKS = "Capture it, or see the chunks of archive {archive}"
    CHANGE_FILTER = "If its subjects moved, change the filter of archive {archive}"
    CHANGE_WRITE_SUBJECT = "Choose a write subject without white space, empty tokens and wildcards"
    CHECK_SPARK = "See what Java wrote to standard error"
    CHOOSE_ARCHIVE = "Give the name of one of them"
    CHOOSE_OTHER_TARGET = (
        "The replay would be archived again. Choose another write subject, or allow it to go into its own stream"
    )
    CLAIM_FOLDER = (
        "Mount or name the store that archive {archive} was written to. If its objects are gone for good, or this is a "
        "copy of that store, make archive {archive} the owner of its folder here"
    )
    CONSUMER_SHARED = (
        "Stop what else pulls from {consumer}. Then make another archive of the stream beside {archive}: its consumer "
        "begins with what there is"
    )
    CONSUMER_TAKEN = (
        "If no archive uses it, delete consumer {consumer} of stream {stream}; or choose another name for the archive"
    )
    CREATE_ARCHIVE = "Create an archive first"
    CREATE_BUCKET = "Create it, or have it created with the archive"
    CREATE_BUCKET_AGAIN = "Create it again. The chunks in it are lost: verifying the archive names them"
    CREATE_BUCKET_STREAM = "Have it made like the archived bucket, or create the bucket with a client first"
    CREATE_EXPORT = "Create an export of archive {archive} first"
    CREATE_TARGET = "Create a stream that captures it first, or have the replay create it"
    CREATE_TARGET_FIRST = "Create one there first, or have the replay create it"
    CREATE_TABLE = "Create a table of archive {archive}"
    DECLARE_NO_MORE_OR_CREATE = "Take {archive} out of the declaration, or create it again"
    DECLARE_OR_CHANGE = "Declare what the archive has, or change archive {archive} to what is declared"
    DOCTOR_BUCKET = "Try a bucket by name"
    EXPORT_BEFORE_DELETION = (
        "Seal and export these hours first: export {export} of archive {archive}. Or let the replay delete what the "
        "export does not have"
    )
    EXPORT_OVER_RETIRED = (
        "The files that are there stay as they are. To make files of what is left of hour {hour}, let export {export} "
        "of archive {archive} go over what was deleted"
    )
    FORGET_FOREIGN_TABLE = "Forget the table of archive {archive}, and leave it where it is"
    FORGET_TABLE = "Forget the table of archive {archive}, and create it again"
    GET_CHUNK = "See the subjects of chunk {chunk} of archive {archive}"
    GET_EXPORT_HOURS = "See the hours of export {export} of archive {archive}"
    GET_REPLAY = "See replay {replay}"
    GIVE_QUERY_MEMORY = "Give the query more memory, or ask for less: fewer columns, groups or rows to sort"
    GIVE_QUERY_SPACE = "Give the query more temporary space, or a folder on a disk that has it"
    INSTALL_CONTRIB = (
        "Install the contrib package of that server (postgresql-contrib), then migrate the catalog's schema again"
    )
    INSTALL_GIST = "Install it: migrate the catalog's schema"
    LEAVE_OUT_MARKS = "Make the replay live and leave out the headers that say where a message comes from"
    LIST_ARCHIVES = "See the list of archives"
    LIST_CHUNKS = "See the chunks of archive {archive}"
    LIST_HOURS = "See the hours of archive {archive}"
    LIST_TABLES = "See the list of tables"
    LIST_REPLAYS = "See the list of replays"
    MAKE_CONSUMER = (
        "Make consumer {consumer} again as it was: it begins with what the stream still has. Then capture archive "
        "{archive}"
    )
    MAKE_CATALOG = "Make it: migrate the catalog's schema"
    MAKE_CATALOG_ANEW = (
        "Make another one in an empty database; this one and its objects stay for the version that made them"
    )
    MAKE_LIVE = "Make the replay live, so that they count again"
    MIGRATE = "Migrate the catalog's schema"
    NAME_TAKEN = "Choose another name than {archive}"
    NAME_HOURS_TO_REPAIR = (
        "Check that this is the store they were written to. If they are gone for good, name the hours to repair"
    )
    OBJECT_GONE = "It was deleted or moved outside nats3; bring it back from a copy of the bucket, or repair it"
    OBJECT_DAMAGED = "The object was damaged or replaced; bring it back from a copy of the bucket, or repair it"
    OWN_CONSUMER = "Let the archive make a consumer of its own"
    REPLACE_TABLE = "Create the table of archive {archive} in its place"
    RESTORE_TABLE = "Make the table of archive {archive} as the archive says; what the other program did is undone"
    RESTORE_STREAM = (
        "Restore the stream from a backup or check which server and account are used; if it is gone for good, delete "
        "archive {archive}"
    )
    RESUME_ARCHIVE = "Resume archive {archive}"
    RESUME_JOB = "Run replay {replay} again, which is load job {job}"
    RESUME_OR_DELETE_REPLAY = (
        "Run replay {replay} again: it goes on after its last message. To publish all of it once more, delete that one"
    )
    RESUME_REPLAY = "Run replay {replay} again: it goes on after its last message"
    SAY_ARCHIVE = "Give the name of the archive, or its bucket and stream"
    SEAL_HOURS = "Seal the hours of archive {archive} that have ended and are complete"
    SEE_CHUNKS = "See the chunks of archive {archive}: each has its id and key"
    SOURCE_QUEUE = (
        "Archive a stream with limits or interest retention that takes the subjects, and let the work queue source "
        "from it. Not the other way round: sourcing takes the messages too"
    )
    SYNC_TABLE = "Bring the table of archive {archive} up to date"
    SYNC_TABLE_FULLY = "Bring the table of archive {archive} up to date, with every file compared"
    TAKE_OVER_FOLDER = (
        "Choose another prefix or name. If that catalog is gone for good, let archive {archive} take its folder over: "
        "its objects stay, and its messages are adopted where the stream no longer has them"
    )
    TAKE_OVER_PLACE = (
        "Give export {export} of archive {archive} another destination. Or let it take the place over, once no other "
        "process writes there"
    )
    TAKE_MESSAGES = (
        "Let the archive take them through a consumer of its own: the mode consumer. It acknowledges what is in a "
        "chunk, and a work queue then deletes it"
    )
    SET_NATS_URL = "Set NATS3_NATS_URL. No embedded stack runs in {home}, the folder that NATS3_HOME names"
    SET_POSTGRES_URL = "Set NATS3_POSTGRES_URL. No embedded stack runs in {home}, the folder that NATS3_HOME names"

    def __call__(self, **values: object) -> "Step":
        """The step with its values. Raises KeyError when one is missing."""
        self.value.format(**values)
        return Step(self, values)


@dataclass(frozen=True, slots=True)
class Step:
    """A code with values."""

    code: Next
    values: Mapping[str, object]

    def __str__(self) -> str:
        return self.code.value.format(**self.values)

    def worded(self, texts: Mapping[Next, str]) -> str:
        """The step in the words of a face."""
        return texts[self.code].format(**self.values)
