package tree

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	space "github.com/space-platform/space"
)

// plant makes a tree of files and directories (with a slash at their end).
func plant(t *testing.T, names ...string) string {
	t.Helper()
	root := t.TempDir()
	for _, name := range names {
		p := filepath.Join(root, name)
		err := os.MkdirAll(filepath.Dir(p), 0o755)
		if name[len(name)-1] == '/' {
			err = os.MkdirAll(p, 0o755)
		} else if err == nil {
			err = os.WriteFile(p, nil, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func open(t *testing.T, p string) *os.File {
	t.Helper()
	f, err := os.Open(p)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func TestEveryNodeIsVisited(t *testing.T) {
	names := []string{"a", "b/", "b/c", "d/e/f"}
	for i := range 2 * batch {
		names = append(names, fmt.Sprintf("many/%d", i))
	}
	root := plant(t, names...)
	if err := os.Symlink("/", filepath.Join(root, "link")); err != nil {
		t.Fatal(err)
	}
	var entered, left []string
	err := Walk(context.Background(), open(t, root), Visitor{
		Enter: func(n *Node) (bool, error) {
			entered = append(entered, n.Path)
			return n.Name != "e", nil
		},
		Leave: func(n *Node) error { left = append(left, n.Path); return nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(entered) != 2*batch+7 || slices.Contains(entered, "d/e/f") || !slices.Contains(entered, "link") {
		t.Errorf("%d: %q", len(entered), entered[:min(20, len(entered))])
	}
	slices.Sort(left)
	if want := []string{"b", "d", "many"}; !reflect.DeepEqual(left, want) {
		t.Errorf("left %q, want %q", left, want)
	}
}

func TestWalkEnds(t *testing.T) {
	root := plant(t, "a/b/c")
	want := errors.New("enough")
	if err := Walk(context.Background(), open(t, root), Visitor{Enter: func(*Node) (bool, error) { return false, want }}); err != want {
		t.Error(err)
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	err := Walk(ctx, open(t, root), Visitor{Enter: func(n *Node) (bool, error) { cancel(want); return true, nil }})
	if err != want {
		t.Error(err)
	}
}

func TestDepthIsBounded(t *testing.T) {
	root := t.TempDir()
	dir := open(t, root)
	for range MaxDepth + 1 {
		if err := unix.Mkdirat(int(dir.Fd()), "d", 0o755); err != nil {
			t.Fatal(err)
		}
		next, err := Open(int(dir.Fd()), "d")
		if err != nil {
			t.Fatal(err)
		}
		dir.Close()
		dir = next
	}
	dir.Close()
	err := Walk(context.Background(), open(t, root), Visitor{Enter: func(*Node) (bool, error) { return true, nil }})
	if space.CodeOf(err) != space.CodeTooLarge {
		t.Error(err)
	}
}

// TestSwappedDirectoryLeadsNowhere: a directory that becomes a link, again and again, while it's walked.
func TestSwappedDirectoryLeadsNowhere(t *testing.T) {
	outside := plant(t, "outside")
	root := plant(t, "d/inside")
	d, link := filepath.Join(root, "d"), filepath.Join(root, "link")
	if err := os.Symlink(outside, link); err != nil {
		t.Fatal(err)
	}
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default: // a name is exchanged for another in one step
				unix.Renameat2(unix.AT_FDCWD, d, unix.AT_FDCWD, link, unix.RENAME_EXCHANGE)
			}
		}
	}()
	inside := 0
	for range 1000 {
		top, err := os.Open(root)
		if err != nil {
			t.Fatal(err)
		}
		err = Walk(context.Background(), top, Visitor{Enter: func(n *Node) (bool, error) {
			if n.Name == "outside" {
				t.Errorf("%s is outside", n.Path)
			}
			if n.Name == "inside" {
				inside++
			}
			return true, nil
		}})
		top.Close()
		if err != nil {
			t.Fatal(err)
		}
	}
	close(stop)
	<-stopped
	if inside == 0 {
		t.Error("the directory was never walked")
	}
}
