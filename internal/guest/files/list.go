package files

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"

	"google.golang.org/protobuf/proto"

	space "github.com/space-platform/space"
	sandboxv1 "github.com/space-platform/space/api/gen/sandbox/v1"
	"github.com/space-platform/space/internal/guest/failure"
	"github.com/space-platform/space/internal/guest/temporary"
	"github.com/space-platform/space/internal/guest/tree"
)

// MaxEntries is how many entries a list has.
const MaxEntries = 10_000

// entriesBytes is about how much of a list is sent in one message.
const entriesBytes = 24 << 10

// errEnough ends the walk of a list that is full.
var errEnough = errors.New("the list is full")

func (c *call) list(a *sandboxv1.List) error {
	p, err := c.path("path", a.GetPath())
	if err != nil {
		return err
	}
	depth := max(1, a.GetDepth())
	if depth > tree.MaxDepth {
		return space.FieldErrorf("depth", "want at most %d", tree.MaxDepth)
	}
	dir, err := openDirectory(p)
	if err != nil {
		return failure.Of("list", p, err)
	}
	defer dir.Close()
	var entries []*sandboxv1.Entry
	err = tree.Walk(c.ctx, dir, tree.Visitor{
		Enter: func(n *tree.Node) (bool, error) {
			if _, ok := temporary.Parse(n.Name); ok {
				return false, nil
			}
			if len(entries) == MaxEntries {
				return false, errEnough
			}
			entries = append(entries, c.entry(path.Join(p, n.Path), &n.Stat, targetAt(n.Dir, n.Name, &n.Stat)))
			return strings.Count(n.Path, "/")+1 < int(depth), nil
		},
		Closed: func(_ *tree.Node, err error) error { // it's in the list; what is in it is not for this user
			return unless(errors.Is(err, fs.ErrPermission), err)
		},
	})
	if err != nil && !errors.Is(err, errEnough) {
		return failure.Of("list", p, err)
	}
	return c.sendEntries(entries, errors.Is(err, errEnough))
}

// openDirectory opens a directory, through links. Anything else isn't opened.
func openDirectory(p string) (*os.File, error) {
	return os.OpenFile(p, os.O_RDONLY|syscall.O_DIRECTORY, 0)
}

// sendEntries sends a list in order, in as many messages as it needs. The last says whether something was left out.
func (c *call) sendEntries(entries []*sandboxv1.Entry, truncated bool) error {
	slices.SortFunc(entries, func(a, b *sandboxv1.Entry) int {
		return slices.Compare(strings.Split(a.Path, "/"), strings.Split(b.Path, "/"))
	})
	for {
		n, size := 0, 0
		for n < len(entries) && size < entriesBytes {
			size += proto.Size(entries[n])
			n++
		}
		m := &sandboxv1.Entries{Entries: entries[:n], Truncated: truncated && n == len(entries)}
		if err := c.send(&sandboxv1.CallResponse{Response: &sandboxv1.CallResponse_Entries{Entries: m}}); err != nil {
			return err
		}
		if entries = entries[n:]; len(entries) == 0 {
			return nil
		}
	}
}
