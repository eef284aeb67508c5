package uids

import (
	"testing"

	space "github.com/space-platform/space"
	"pgregory.net/rapid"
)

func TestNoUIDIsHandedOutTwice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 5).Draw(t, "size")
		p := New(1000, 1000+n-1)
		taken := map[int]bool{}
		for range rapid.IntRange(0, 30).Draw(t, "steps") {
			if rapid.Bool().Draw(t, "give") {
				for uid := range taken {
					delete(taken, uid)
					p.Give(uid)
					break
				}
				continue
			}
			uid, err := p.Take()
			if len(taken) == n {
				if space.CodeOf(err) != space.CodeCapacity {
					t.Fatalf("an exhausted pool returned %d, %v", uid, err)
				}
				continue
			}
			if err != nil || taken[uid] || uid < 1000 || uid >= 1000+n {
				t.Fatalf("got %d, %v; taken are %v", uid, err, taken)
			}
			taken[uid] = true
		}
	})
}

func TestGivenBackUIDIsUsedLast(t *testing.T) {
	p := New(1000, 1002)
	p.Keep(1001)
	first, _ := p.Take()
	p.Give(first)
	if next, err := p.Take(); err != nil || next != 1002 {
		t.Fatalf("got %d, %v, want 1002", next, err)
	}
}
