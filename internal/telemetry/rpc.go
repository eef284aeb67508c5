package telemetry

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"connectrpc.com/connect"
	"github.com/prometheus/client_golang/prometheus"
)

var (
	served         = NewCounter("space_rpc_server_calls_total", "Calls of other processes that this one has served.", "procedure", "code")
	servedDuration = NewDurations("space_rpc_server_call_duration_seconds", "From a call's begin to its end; streams last.", "procedure")
	called         = NewCounter("space_rpc_client_calls_total", "Calls of this process to others that have ended.", "procedure", "code")
	calledDuration = NewDurations("space_rpc_client_call_duration_seconds", "From a call's begin to its end; streams last.", "procedure")
)

// Interceptor returns what every RPC client and server of ours has: it carries the request's id and the span from process to process,
// counts the calls, and logs those that belong to a request of a client. Messages and headers are never logged.
func Interceptor() connect.Interceptor { return interceptor{} }

type interceptor struct{}

// WrapUnary implements connect.Interceptor.
func (interceptor) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
		ctx, end := enter(ctx, req.Spec(), req.Header())
		resp, err := next(ctx, req)
		end(err)
		return resp, err
	}
}

// WrapStreamingHandler implements connect.Interceptor.
func (interceptor) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return func(ctx context.Context, conn connect.StreamingHandlerConn) error {
		ctx, end := enter(ctx, conn.Spec(), conn.RequestHeader())
		err := next(ctx, conn)
		end(err)
		return err
	}
}

// WrapStreamingClient implements connect.Interceptor.
func (interceptor) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return func(ctx context.Context, spec connect.Spec) connect.StreamingClientConn {
		h := http.Header{}
		ctx, end := enter(ctx, spec, h)
		conn := next(ctx, spec)
		for key := range h {
			conn.RequestHeader().Set(key, h.Get(key))
		}
		return &clientStream{StreamingClientConn: conn, end: end}
	}
}

// enter begins a call on either side; end tells how it went.
func enter(ctx context.Context, spec connect.Spec, h http.Header) (in context.Context, end func(error)) {
	began := time.Now()
	if spec.IsClient {
		if id := Request(ctx); id != "" {
			h.Set(RequestHeader, id)
		}
		ctx, span := callSpan(ctx, spec.Procedure, h)
		return ctx, func(err error) { record(called, calledDuration, spec.Procedure, began, err, span) }
	}
	if id := h.Get(RequestHeader); requestRE.MatchString(id) {
		ctx = WithRequest(ctx, id)
	}
	ctx, span := serveSpan(ctx, spec.Procedure, h)
	return ctx, func(err error) {
		code := record(served, servedDuration, spec.Procedure, began, err, span)
		if Request(ctx) != "" {
			slog.InfoContext(ctx, "call", "procedure", spec.Procedure, "code", code, "duration_ms", float64(time.Since(began).Microseconds())/1000)
		}
	}
}

func record(count *prometheus.CounterVec, duration *prometheus.HistogramVec, procedure string, began time.Time, err error, span finish) (code string) {
	code = "ok"
	if err != nil {
		code = connect.CodeOf(err).String()
	}
	count.WithLabelValues(procedure, code).Inc()
	duration.WithLabelValues(procedure).Observe(time.Since(began).Seconds())
	span(code, err != nil)
	return code
}
