"""Next steps as requests: what the API says for each code of steps.Next, where the plain text does not say it best."""

from nats3_dagster.steps import Next

WORDS = {code: code.text for code in Next} | {
    Next.CAPTURE_OR_GO_OVER_GAPS: "Capture those hours while the stream still has them, or take what there is with "
    "over_gaps",
    Next.CREATE_ARCHIVE: "Create an archive first: POST /store/job",
    Next.CREATE_BUCKET: 'Create it, or ask for it: "create_bucket": true',
    Next.LIST_ARCHIVES: "See the list of archives: GET /store/jobs",
    Next.LIST_CHUNKS: "See the chunks of archive {archive}: GET /chunks?archive={archive}",
    Next.LIST_REPLAYS: "See the list of replays: GET /load/jobs",
    Next.OWN_CONSUMER: 'Leave consumer out: then the archive makes one of its own ("mode": "consumer")',
    Next.TAKE_MIRRORS: 'To archive it as well: "take_mirrors": true',
    Next.TAKE_QUEUES: 'To archive it: "take_queues": true. The archive acknowledges what it has',
    Next.TAKE_MESSAGES: 'Let the archive take them through a consumer of its own: "mode": "consumer". It acknowledges '
    "what is in a chunk, and a work queue then deletes it",
    Next.GET_REPLAY: "GET /load/jobs?replay={replay} shows its load job",
    Next.RESUME_REPLAY: "GET /load/jobs?replay={replay} shows its load job; POST /load/job/resume goes on with it",
    Next.CHANGE_TARGET_AND_RESUME: "Change the stream's configuration or limits. GET /load/jobs?replay={replay} shows "
    "its load job; POST /load/job/resume goes on with it",
    Next.END_ATTEMPT_AND_RESUME: "End its Spark job or process. GET /load/jobs?replay={replay} shows its load job; "
    "POST /load/job/resume goes on with it",
    Next.MAKE_ROOM_AND_RESUME: "Raise {setting} of stream {stream}, or make room in it. GET /load/jobs?replay={replay} "
    "shows its load job; POST /load/job/resume goes on with it",
    Next.RESUME_JOB: "POST /load/job/resume?job_id={job}",
    Next.RESUME_OR_DELETE_REPLAY: "GET /load/jobs?replay={replay} shows its load job; POST /load/job/resume goes on "
    "with it. To publish all of it once more, first DELETE /load/job",
    Next.BEGIN_NEW_REPLAY: "To publish all of it once more, POST /load/job",
}
