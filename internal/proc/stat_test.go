package proc

import (
	"strings"
	"testing"
)

func TestParseStat(t *testing.T) {
	tail := " S 1 42 42 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 987654 1 2 3"
	for name, want := range map[string]uint64{
		"42 (sleep)" + tail:           987654,
		"42 (a b) c) (d)" + tail:      987654,
		"42 (\n)" + tail + " 4 5 6\n": 987654,
		"42 (sleep) S 1 42":           0,
		"42 (sleep":                   0,
		"":                            0,
		"42 (x)" + strings.Replace(tail, "987654", "-1", 1): 0,
	} {
		got, err := parseStat([]byte(name))
		if got.startTime != want || (err != nil) != (want == 0) {
			t.Errorf("parseStat(%q) = %+v, %v, want %d", name, got, err, want)
		}
	}
}

func FuzzParseStat(f *testing.F) {
	f.Add([]byte("42 (a) b) S 1 42 42 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 987654 1 2 3"))
	f.Fuzz(func(t *testing.T, b []byte) { parseStat(b) })
}
