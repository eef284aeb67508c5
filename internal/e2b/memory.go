package e2b

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/space-platform/space/internal/durable"
)

// maxMemory bounds the file of what is remembered, in bytes; beyond, it's written anew with what still counts. maxNote bounds one line of it.
const (
	maxMemory = 32 << 20
	maxNote   = 4 << 20
)

// note is one thing that is remembered. One of its fields is set.
type note struct {
	Token *tokenNote `json:"token,omitempty"`
	Build *buildNote `json:"build,omitempty"`
	Gone  string     `json:"gone,omitempty"` // a sandbox whose tokens count no more
}

type tokenNote struct {
	Sandbox string `json:"sandbox"`
	Secret  string `json:"secret"`
	Owner   []byte `json:"owner,omitempty"`
}

func noteOf(a access, by owner) note {
	n := &tokenNote{Sandbox: a.sandbox, Secret: a.secret}
	if by != (owner{}) {
		n.Owner = by[:]
	}
	return note{Token: n}
}

// memory is a file of notes, one a line, for a life of this process after this one. It's a cache: what a power loss takes of it, or a torn line, is
// forgotten, which harms nobody more than a restart without it would. It has tokens, so nobody but its owner may read it.
type memory struct {
	path    string
	current func() []note // what counts now

	mu   sync.Mutex
	file *os.File
	size int64
}

// recall reads what earlier lives have noted, in order. What can't be read isn't known any more.
func recall(path string, each func(note)) error {
	b, err := durable.ReadFile(path, 2*maxMemory)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("read what was remembered: %w", err)
	}
	lines := bufio.NewScanner(bytes.NewReader(b))
	lines.Buffer(nil, maxNote)
	for lines.Scan() {
		var n note
		if json.Unmarshal(lines.Bytes(), &n) == nil {
			each(n)
		}
	}
	return nil
}

// begin writes the file anew with what counts, and keeps it open for more.
func (m *memory) begin() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.rewrite(m.current())
}

func (m *memory) rewrite(all []note) error {
	var b bytes.Buffer
	for _, n := range all {
		line, err := json.Marshal(n)
		if err != nil {
			return fmt.Errorf("remember: %w", err)
		}
		b.Write(append(line, '\n'))
	}
	if err := durable.WriteFile(m.path, b.Bytes(), 0o600); err != nil {
		return fmt.Errorf("remember: %w", err)
	}
	f, err := os.OpenFile(m.path, os.O_WRONLY|os.O_APPEND|unix.O_NOFOLLOW, 0)
	if err != nil {
		return fmt.Errorf("remember: %w", err)
	}
	if m.file != nil {
		_ = m.file.Close() // nothing is lost: it was replaced
	}
	m.file, m.size = f, int64(b.Len())
	return nil
}

// add writes a note down.
func (m *memory) add(n note) {
	line, err := json.Marshal(n)
	if err == nil {
		err = m.append(append(line, '\n'))
	}
	if err != nil {
		slog.Warn("what should outlive a restart couldn't be written down", "err", err)
	}
}

func (m *memory) append(line []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.size+int64(len(line)) > maxMemory {
		return m.rewrite(m.current()) // the note is in it: what counts has changed before it's noted
	}
	n, err := m.file.Write(line)
	m.size += int64(n)
	return err
}

// close ends it.
func (m *memory) close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.file.Close()
}
