package client

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
)

func TestMessages(t *testing.T) {
	for name, c := range map[string]struct {
		in   string
		want []message
	}{
		"one":               {"event: exit\nid: 7\ndata: {}\n\n", []message{{"exit", "7", []byte("{}")}}},
		"crlf":              {"event:exit\r\nid:7\r\ndata:{}\r\n\r\n", []message{{"exit", "7", []byte("{}")}}},
		"comments":          {": hello\n\n:\nevent: a\n: between\ndata: 1\n\n", []message{{"a", "", []byte("1")}}},
		"lines of data":     {"data: 1\ndata: 2\n\n", []message{{"", "", []byte("1\n2")}}},
		"without data":      {"event: a\nid: 3\n\ndata: 1\n\n", []message{{"", "", []byte("1")}}},
		"empty data":        {"event: a\ndata\n\n", []message{{"a", "", nil}}},
		"unknown fields":    {"retry: 5\nfoo: bar\ndata: 1\n\n", []message{{"", "", []byte("1")}}},
		"colons and spaces": {"data:  a: b\n\n", []message{{"", "", []byte(" a: b")}}},
		"cut off":           {"data: 1\n\ndata: 2\n", []message{{"", "", []byte("1")}}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := all(strings.NewReader(c.in))
			if !errors.Is(err, io.EOF) || fmt.Sprint(got) != fmt.Sprint(c.want) {
				t.Errorf("got %q, %v; want %q", got, err, c.want)
			}
		})
	}
}

func TestMessagesAreBounded(t *testing.T) {
	for name, in := range map[string]string{
		"line":  "data: " + strings.Repeat("x", maxLine),
		"event": strings.Repeat("data: "+strings.Repeat("x", 1000)+"\n", maxEvent/1000+1),
	} {
		if _, err := all(strings.NewReader(in)); !errors.Is(err, errTooLong) {
			t.Errorf("%s: %v, want errTooLong", name, err)
		}
	}
}

// FuzzMessages: whatever arrives, the parser ends, holds little, and reads the same events when they are written down anew.
func FuzzMessages(f *testing.F) {
	f.Add([]byte("event: stdout\nid: 3\ndata: {\"data\":\"YWJj\"}\n\n: ping\n\n"))
	f.Add([]byte("data\r\n\r\ndata: a\ndata: b\n\n"))
	f.Fuzz(func(t *testing.T, in []byte) {
		first, _ := all(bytes.NewReader(in))
		var again bytes.Buffer
		for _, m := range first {
			if len(m.data) > maxEvent {
				t.Fatalf("an event of %d bytes", len(m.data))
			}
			fmt.Fprintf(&again, "event: %s\nid: %s\n", m.event, m.id)
			for l := range bytes.SplitSeq(m.data, []byte("\n")) {
				fmt.Fprintf(&again, "data: %s\n", l)
			}
			again.WriteString("\n")
			understand(m, true) // must not panic
			understand(m, false)
		}
		if second, _ := all(&again); fmt.Sprint(second) != fmt.Sprint(first) {
			t.Fatalf("got %q, want %q", second, first)
		}
	})
}

func all(r io.Reader) ([]message, error) {
	var out []message
	m := newMessages(r)
	defer m.close()
	for {
		got, err := m.next()
		if err != nil {
			return out, err
		}
		got.data = bytes.Clone(got.data)
		out = append(out, got)
	}
}
