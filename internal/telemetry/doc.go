// Package telemetry is how a process of the platform shows what it does: metrics, traces, log lines, and whether it's ready.
//
// A request has one id. Who takes it from a client gives it one, and from there it travels in the header RequestHeader from process to
// process; each process finds it in the request's context (Request), and its log lines have it (LogHandler). Spans travel beside it, as
// W3C's traceparent, once a process was given somewhere to send them (Trace); until then there are none and they cost nothing.
//
// Metrics belong to the process: there is one registry, and packages make their metrics as variables. The values of labels are bounded:
// routes, procedures, codes and names of steps, never an id, a path or whatever else a client chooses.
package telemetry
