package files

import (
	"errors"
	"fmt"

	space "github.com/space-platform/space"
	sandboxv1 "github.com/space-platform/space/api/gen/sandbox/v1"
)

// rules say what a guest may answer to an action.
type rules struct {
	upload  bool         // the caller sends bytes
	endless bool         // it ends when the caller wishes
	entries uint64       // how many entries may come, in one message or several
	data    uint64       // how many bytes
	final   kind         // the kind of answer without which there is no success
	kinds   kind         // all kinds that may come
	codes   []space.Code // errors that a guest may give beside those of every action

	seen kind
}

// kind is a set of kinds of answers.
type kind uint

const (
	kindEntry kind = 1 << iota
	kindEntries
	kindData
	kindEvent
	kindReady
	kindUnpacked
)

// maxEntries is how many entries a list has.
const maxEntries = 10_000

// unlimited is more than any guest can send.
const unlimited = ^uint64(0)

// rulesOf returns the rules of an action on files.
func rulesOf(a *sandboxv1.Action) (rules, bool) {
	one := rules{entries: 1, kinds: kindEntry, final: kindEntry}
	switch a := a.GetAction().(type) {
	case *sandboxv1.Action_Stat, *sandboxv1.Action_MakeDirectory, *sandboxv1.Action_Rename, *sandboxv1.Action_Change:
		return one, true
	case *sandboxv1.Action_List:
		return rules{entries: maxEntries, kinds: kindEntries, final: kindEntries}, true
	case *sandboxv1.Action_Remove:
		return rules{}, true
	case *sandboxv1.Action_Read:
		one.kinds, one.data, one.codes = kindEntry|kindData, a.Read.GetLength(), []space.Code{space.CodeRange}
		if a.Read.GetToEnd() {
			one.data = unlimited
		}
		return one, true
	case *sandboxv1.Action_Write:
		one.upload = true
		return one, true
	case *sandboxv1.Action_Watch:
		return rules{endless: true, kinds: kindReady | kindEvent, final: kindReady}, true
	case *sandboxv1.Action_ReadArchive:
		return rules{data: unlimited, kinds: kindData}, true
	case *sandboxv1.Action_WriteArchive:
		return rules{upload: true, kinds: kindUnpacked, final: kindUnpacked}, true
	}
	return rules{}, false
}

// check returns an answer that may be passed on.
func (r *rules) check(m *sandboxv1.CallResponse) (*sandboxv1.CallResponse, error) {
	k, out, err := r.rewrite(m)
	if err != nil {
		return nil, err
	}
	switch {
	case k&r.kinds == 0:
		return nil, violation("an answer that the action doesn't have")
	case k&(kindEntry|kindReady|kindUnpacked)&r.seen != 0:
		return nil, violation("an answer came twice")
	case k&(kindData|kindEvent) != 0 && r.final != 0 && r.seen&r.final == 0:
		return nil, violation("content before its head")
	}
	r.seen |= k
	return out, nil
}

// rewrite checks the content of an answer and writes it anew.
func (r *rules) rewrite(m *sandboxv1.CallResponse) (kind, *sandboxv1.CallResponse, error) {
	switch m := m.GetResponse().(type) {
	case *sandboxv1.CallResponse_Entry:
		e, err := r.entry(m.Entry)
		return kindEntry, &sandboxv1.CallResponse{Response: &sandboxv1.CallResponse_Entry{Entry: e}}, err
	case *sandboxv1.CallResponse_Entries:
		out := &sandboxv1.Entries{Truncated: m.Entries.GetTruncated()}
		for _, e := range m.Entries.GetEntries() {
			checked, err := r.entry(e)
			if err != nil {
				return 0, nil, err
			}
			out.Entries = append(out.Entries, checked)
		}
		return kindEntries, &sandboxv1.CallResponse{Response: &sandboxv1.CallResponse_Entries{Entries: out}}, nil
	case *sandboxv1.CallResponse_Data:
		if n := uint64(len(m.Data)); n > MaxData || n > r.data {
			return 0, nil, violation("%d bytes of content", n)
		}
		if r.data != unlimited {
			r.data -= uint64(len(m.Data))
		}
		return kindData, &sandboxv1.CallResponse{Response: &sandboxv1.CallResponse_Data{Data: m.Data}}, nil
	case *sandboxv1.CallResponse_Event:
		e, err := checkEvent(m.Event)
		return kindEvent, &sandboxv1.CallResponse{Response: &sandboxv1.CallResponse_Event{Event: e}}, err
	case *sandboxv1.CallResponse_Ready:
		return kindReady, &sandboxv1.CallResponse{Response: &sandboxv1.CallResponse_Ready{Ready: &sandboxv1.Ready{}}}, nil
	case *sandboxv1.CallResponse_Unpacked:
		out := &sandboxv1.Unpacked{Entries: m.Unpacked.GetEntries(), Bytes: m.Unpacked.GetBytes()}
		return kindUnpacked, &sandboxv1.CallResponse{Response: &sandboxv1.CallResponse_Unpacked{Unpacked: out}}, nil
	}
	return 0, nil, violation("an empty answer")
}

// entry counts an entry and checks it.
func (r *rules) entry(e *sandboxv1.Entry) (*sandboxv1.Entry, error) {
	if r.entries == 0 {
		return nil, violation("more entries than the action has")
	}
	r.entries--
	return checkEntry(e)
}

// complete says whether a success has all that it must have.
func (r *rules) complete() error {
	if r.final&^r.seen != 0 {
		return violation("it ended without an answer")
	}
	return nil
}

// errGuest is wrapped when the guest answered what it must not answer.
var errGuest = errors.New("the guest broke the rules of its protocol")

func violation(format string, args ...any) error {
	return space.Errorf(space.CodeGuest, "the guest's answer makes no sense: %w", fmt.Errorf("%w: %w", errGuest, fmt.Errorf(format, args...)))
}
