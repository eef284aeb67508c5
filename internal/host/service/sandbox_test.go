package service

import (
	"errors"
	"io"
	"testing"

	space "github.com/space-platform/space"
	sandboxv1 "github.com/space-platform/space/api/gen/sandbox/v1"
	"github.com/space-platform/space/internal/peer"
)

// call makes a call with one message, and returns its answers.
func (r *rig) call(t *testing.T, m *sandboxv1.CallRequest) (answers []*sandboxv1.CallResponse, err error) {
	t.Helper()
	stream := r.sandbox.Call(t.Context())
	defer stream.CloseResponse()
	if err := stream.Send(m); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if err := stream.CloseRequest(); err != nil {
		return nil, err
	}
	for {
		a, err := stream.Receive()
		if errors.Is(err, io.EOF) {
			return answers, nil
		}
		if err != nil {
			return answers, peer.FromConnect(err)
		}
		answers = append(answers, a)
	}
}

func action(a *sandboxv1.Action) *sandboxv1.CallRequest {
	return &sandboxv1.CallRequest{Route: peer.RouteMessage(route()), Action: a}
}

func TestCallsOfASandbox(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	got, err := r.call(t, action(&sandboxv1.Action{Action: &sandboxv1.Action_Figures{Figures: &sandboxv1.Figures{}}}))
	if err != nil || len(got) != 1 || got[0].GetFigures().GetCpuSeconds() != 1.5 {
		t.Errorf("figures: %v, %v", got, err)
	}
	got, err = r.call(t, action(&sandboxv1.Action{Action: &sandboxv1.Action_ListSessions{ListSessions: &sandboxv1.ListSessions{}}}))
	if err != nil || len(got) != 1 || got[0].GetSessions() == nil {
		t.Errorf("sessions: %v, %v", got, err)
	}
	unknown := space.NewID(space.PrefixSession)
	for name, c := range map[string]struct {
		m    *sandboxv1.CallRequest
		want space.Code
	}{
		"no route":        {&sandboxv1.CallRequest{Action: &sandboxv1.Action{}}, space.CodeInvalid},
		"no action":       {action(nil), space.CodeInvalid},
		"empty action":    {action(&sandboxv1.Action{}), space.CodeInvalid},
		"long path":       {action(&sandboxv1.Action{Action: &sandboxv1.Action_Stat{Stat: &sandboxv1.Stat{Path: string(make([]byte, maxAction))}}}), space.CodeTooLarge},
		"files":           {action(&sandboxv1.Action{Action: &sandboxv1.Action_Stat{Stat: &sandboxv1.Stat{Path: "/"}}}), space.CodeUnavailable},
		"no session":      {action(&sandboxv1.Action{Action: &sandboxv1.Action_Signal{Signal: &sandboxv1.Signal{Session: "x", Signal: 1}}}), space.CodeInvalid},
		"unknown session": {action(&sandboxv1.Action{Action: &sandboxv1.Action_Signal{Signal: &sandboxv1.Signal{Session: unknown, Signal: 1}}}), space.CodeNotFound},
		"no size":         {action(&sandboxv1.Action{Action: &sandboxv1.Action_Resize{Resize: &sandboxv1.Resize{Session: unknown}}}), space.CodeInvalid},
		"stdin of none":   {action(&sandboxv1.Action{Action: &sandboxv1.Action_Stdin{Stdin: &sandboxv1.Stdin{Session: unknown}}}), space.CodeNotFound},
	} {
		if _, err := r.call(t, c.m); space.CodeOf(err) != c.want {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
	r.err = space.Errorf(space.CodeRouteDenied, "another's")
	if _, err := r.call(t, action(&sandboxv1.Action{Action: &sandboxv1.Action_Figures{}})); space.CodeOf(err) != space.CodeRouteDenied {
		t.Errorf("a refused route: %v", err)
	}
}
