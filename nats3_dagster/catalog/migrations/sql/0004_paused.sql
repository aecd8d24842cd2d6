-- A replay that somebody paused is not one that was canceled with its process.
alter table nats3.replay drop constraint replay_state_check,
    add constraint replay_state_check
        check (state in ('planned', 'running', 'succeeded', 'failed', 'canceled', 'paused'));
alter table nats3.replay_attempt drop constraint replay_attempt_state_check,
    add constraint replay_attempt_state_check
        check (state in ('running', 'succeeded', 'failed', 'canceled', 'paused', 'lost'));
