-- The error of a build names the field of the request that it's about, and the step, if it was one.

-- +goose Up
ALTER TABLE template_status ADD COLUMN error_field text CHECK (error_field IS NULL OR error_code IS NOT NULL);
ALTER TABLE template_status DROP CONSTRAINT template_status_failed_step_check;
ALTER TABLE template_status ADD CHECK (failed_step >= -1); -- of a failed build, from 1; 0 for the source, -1 for what comes after the last step
ALTER TABLE operations ADD COLUMN error_field text CHECK (error_field IS NULL OR error_code IS NOT NULL);
