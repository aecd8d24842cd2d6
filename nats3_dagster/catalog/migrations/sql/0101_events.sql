-- An erasure is in the history when it is decided, because its messages leave the archive then, and once more when it is
-- finished. erasure_finished: messages, and the number of the record. forgotten: the bucket of a former copy.
alter table nats3.event drop constraint event_what_check;
alter table nats3.event add constraint event_what_check check (what in (
    'created', 'rebuilt', 'changed', 'deleted', 'held', 'released', 'expired', 'removed', 'swept', 'repaired',
    'adopted', 'compacted', 'erased', 'erasure_finished', 'erasure_refused', 'learned', 'forgotten'));
