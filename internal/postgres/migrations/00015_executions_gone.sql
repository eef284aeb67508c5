-- What a node is asked about all the time is what it has, not what it ever had: its index leaves aside what is gone, as that of sandboxes does
-- those that are deleted.

-- +goose Up

-- When nothing was left of it, as its node's synchronization observed it, which alone writes it. The rest of a row never changes.
ALTER TABLE executions ADD COLUMN gone_at timestamptz;
UPDATE executions e SET gone_at = st.observed_at FROM execution_status st WHERE st.execution = e.id AND st.state = 'gone';
DROP INDEX executions_node;
CREATE INDEX executions_living ON executions (node, created_at, id) WHERE gone_at IS NULL;

-- The newest operation of a sandbox is looked up for each of its executions, and then needs no sorting.
DROP INDEX operations_of_sandbox;
CREATE INDEX operations_of_sandbox ON operations (sandbox, created_at DESC, id DESC) WHERE sandbox IS NOT NULL;
