package session

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	sessionv1 "github.com/space-platform/space/api/gen/session/v1"
	"github.com/space-platform/space/internal/host/ring"
)

// The limits of what a guest may say about an exit.
const (
	maxErrorText  = 1 << 10 // bytes of its reason for not starting a program
	maxSignal     = 64
	maxExitStatus = 255
)

// errGuest is wrapped when the guest said something that it must not say.
var errGuest = errors.New("the guest broke the rules of its protocol")

func violation(format string, args ...any) error {
	return fmt.Errorf("%w: %w", errGuest, fmt.Errorf(format, args...))
}

// checkOutput returns the part of an output message that follows a log of the given length; none of a message that was kept already.
func checkOutput(o *sessionv1.Output, end uint64) ([]byte, ring.Stream, error) {
	data, at := o.GetData(), o.GetOffset()
	stream := ring.Stdout
	switch {
	case o.GetStream() == sessionv1.Stream_STREAM_STDERR:
		stream = ring.Stderr
	case o.GetStream() != sessionv1.Stream_STREAM_STDOUT:
		return nil, 0, violation("output of stream %d", o.GetStream())
	}
	switch {
	case len(data) > ring.MaxData:
		return nil, 0, violation("%d bytes in one message, limit %d", len(data), ring.MaxData)
	case at > end:
		return nil, 0, violation("output at offset %d of a log of %d", at, end)
	case end-at >= uint64(len(data)):
		return nil, stream, nil
	}
	return data[end-at:], stream, nil
}

// checkExit returns an exit that can be passed on.
func checkExit(e *sessionv1.Exit, end uint64) (*sessionv1.Exit, error) {
	switch {
	case e.GetOffset() != end:
		return nil, violation("an exit at offset %d of a log of %d", e.GetOffset(), end)
	case e.GetCode() < 0 || e.GetCode() > maxExitStatus:
		return nil, violation("exit status %d", e.GetCode())
	case e.GetSignal() < 0 || e.GetSignal() > maxSignal:
		return nil, violation("signal %d", e.GetSignal())
	}
	out := &sessionv1.Exit{Code: e.GetCode(), Signal: e.GetSignal(), Error: clipTo(e.GetError(), maxErrorText), Offset: end, At: e.GetAt(), TimedOut: e.GetTimedOut(), Stopped: e.GetStopped()}
	if e.GetSignal() != 0 {
		out.SignalName = signalName(int(e.GetSignal()))
	}
	if e.GetAt().CheckValid() != nil {
		out.At = timestamppb.Now()
	}
	return out, nil
}

func clipTo(s string, limit int) string { return strings.ToValidUTF8(s[:min(len(s), limit)], "") }

func timestamp(nanos int64) *timestamppb.Timestamp { return timestamppb.New(time.Unix(0, nanos)) }
